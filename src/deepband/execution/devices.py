"""The GPU that each worker process uses.

A worker sees only its own GPU, because CUDA_VISIBLE_DEVICES is set in its environment before the
objective is loaded. CUDA reads that variable once, so deepband itself never initialises CUDA:
devices are found without importing a framework. On a cluster, Ray and Slurm set the variable, and
whoever starts the workers of Dask does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from deepband.errors import DeviceWarning, InputError, counted, show_warning, shown

VARIABLE = "CUDA_VISIBLE_DEVICES"
AUTO = "auto"
SECONDS_TO_LIST = 30.0
KERNEL = Path("/proc/driver/nvidia/gpus")
DEVICE_FILE = "/dev/nvidia"
TRACES = ["/proc/driver/nvidia", "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu"]
TRACES += ["/dev/dxg", "/dev/kfd"]
"""What the drivers of GPUs leave, also in containers: NVIDIA (with Jetson), WSL, and AMD, whose
devices PyTorch calls cuda, too."""
WANTED = (
    "give names such as 'cuda:0', numbers, UUIDs ('GPU-...' or 'MIG-...', from `nvidia-smi -L`), "
    "'cpu', or 'auto' for all GPUs."
)
_NUMBERED = re.compile(r"(?:cuda:)?([0-9]{1,4})")
_UNIQUE = re.compile(r"(GPU|MIG)-[^\s,]+")
_LISTED = re.compile(r"^\s*(GPU|MIG)\b.*\(UUID: ([^\s,()]+)\)", re.MULTILINE)
_MINOR = re.compile(r"^Device Minor:\s*([0-9]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or the CPU alone."""

    visible: str
    """CUDA_VISIBLE_DEVICES of its workers; empty for the CPU."""

    @property
    def name(self) -> str:
        """What workers call it. They see one GPU, which is therefore their first."""
        return "cuda:0" if self.visible else "cpu"


def assigned_device(environment: Mapping[str, str]) -> Device:
    """The GPU that a cluster has assigned to this worker, which asked for one. If the cluster does
    not say which, it is the first one."""
    return Device(environment.get(VARIABLE) or "0")


DevicesSpec: TypeAlias = Sequence[str | int | Device] | str | None
"""The type of the `devices` argument."""


def read_devices(given: DevicesSpec, environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices that a user gave: "auto", or names as a sequence or separated by commas. Numbers
    count the GPUs that this environment shows, as they do for CUDA."""
    if given == AUTO:
        return tuple(Device(each) for each in _all_visible(environment))
    if isinstance(given, str):
        given = [each.strip() for each in given.split(",")]
    if not isinstance(given, Sequence) or not given:
        raise InputError(f"devices is {shown(given)}: {WANTED}")
    if all(isinstance(each, Device) for each in given):
        return tuple(each for each in given if isinstance(each, Device))
    visible = _shown_by(environment)
    found = tuple(_read_device(each, visible) for each in given)
    if visible is None:
        _check_numbers(given, found)
    _check_different(given, found)
    return found


def assigned(devices: Sequence[Device], per_device: int, workers: int | None) -> list[Device]:
    """The device of each worker. Workers are spread over the devices before any device is
    shared."""
    room = len(devices) * per_device
    count = room if workers is None else workers
    if count > room:
        needed = -(-count // len(devices))
        raise InputError(
            f"workers is {count}, but {counted(len(devices), 'device')} with per_device="
            f"{per_device} can have only {counted(room, 'worker')}: give workers={room}, more "
            f"devices, or per_device={needed} to let workers share a device."
        )
    return [devices[number % len(devices)] for number in range(count)]


def _read_device(given: object, visible: Sequence[str] | None) -> Device:
    text = str(given) if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if text == "cpu":
        return Device("")
    if _UNIQUE.fullmatch(text):
        return Device(text)
    numbered = _NUMBERED.fullmatch(text)
    if numbered is None:
        raise InputError(f"the device {shown(given)} cannot be read: {WANTED}")
    number = int(numbered[1])
    if visible is None:
        return Device(str(number))
    if number >= len(visible):
        raise InputError(
            f"there is no device {shown(given)}: {VARIABLE} shows {counted(len(visible), 'GPU')} "
            "to this process, and numbers start at 0 there. Give one of these, or change the "
            "variable."
        )
    return Device(visible[number])


def _check_numbers(given: Sequence[object], found: Sequence[Device]) -> None:
    """Raise for a number that no GPU of this machine has, if its GPUs can be listed. A worker with
    such a number would see no GPU, and some objectives then silently use the CPU."""
    numbered = [
        (each, int(device.visible))
        for each, device in zip(given, found, strict=True)
        if device.visible.isdigit()
    ]
    gpus = _listed_gpus() if numbered else []
    if numbered and not gpus and not any(map(os.path.exists, TRACES)):
        show_warning(
            f"no GPU was found for the device {shown(numbered[0][0])}: neither nvidia-smi nor the "
            "driver of a GPU is on this machine. Workers will see no GPU and may train on the CPU.",
            DeviceWarning,
        )
    if gpus != [str(number) for number in range(len(gpus))]:
        return  # with MIG, numbers mean something else
    for each, number in numbered:
        if gpus and number >= len(gpus):
            raise InputError(
                f"there is no device {shown(each)}: this machine has {counted(len(gpus), 'GPU')}, "
                "and numbers start at 0. `nvidia-smi -L` lists them."
            )


def _check_different(given: Sequence[object], found: Sequence[Device]) -> None:
    if len(set(found)) < len(found):
        raise InputError(
            f"devices is {shown(given)}, which names a device twice: give each once, and "
            "per_device=2 to run two workers on each."
        )


def _all_visible(environment: Mapping[str, str]) -> Sequence[str]:
    visible = _shown_by(environment)
    if visible is None:
        visible = _listed_gpus()
        why = f"{VARIABLE} is not set, and neither nvidia-smi nor {KERNEL} lists any"
    else:
        why = f"{VARIABLE} is {environment[VARIABLE]!r}"
    if not visible:
        raise InputError(
            f"devices is 'auto', but no NVIDIA GPU was found: {why}. Name the devices, "
            "such as 'cuda:0', or 'cpu' to run without GPUs."
        )
    return visible


def _shown_by(environment: Mapping[str, str]) -> list[str] | None:
    """The GPUs that the environment of this process shows; None if it shows all. As CUDA does, it
    ignores everything from the first invalid entry on, such as -1."""
    if VARIABLE not in environment:
        return None
    found: list[str] = []
    for each in environment[VARIABLE].split(","):
        entry = each.strip()
        if not (entry.isascii() and entry.isdigit()) and not _UNIQUE.fullmatch(entry):
            break
        found.append(entry)
    return found


def _listed_gpus() -> list[str]:
    """All GPUs that this process may use: numbers, or UUIDs if any of them is partitioned (MIG).
    nvidia-smi also respects containers and job limits, so the kernel is asked only without it."""
    return list(_from_listing(_listing())) or _from_kernel(KERNEL)


def _listing() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return subprocess.run(
            [program, "-L"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_LIST,
            check=True,
        ).stdout
    return ""


def _from_listing(text: str) -> Iterator[str]:
    """The GPUs in the output of `nvidia-smi -L`. A line for each partition follows its GPU's."""
    lines = _LISTED.findall(text)
    if all(kind == "GPU" for kind, _ in lines):
        yield from map(str, range(len(lines)))
        return
    following = [kind for kind, _ in lines[1:]] + ["GPU"]
    for (kind, unique), after in zip(lines, following, strict=True):
        if kind == "MIG" or after == "GPU":
            yield unique


def _from_kernel(folder: Path) -> list[str]:
    """The GPUs of the kernel's driver whose device file exists here."""
    usable = 0
    with suppress(OSError):
        for path in folder.glob("*/information"):
            minor = _MINOR.search(path.read_text(errors="replace"))
            usable += minor is not None and os.path.exists(f"{DEVICE_FILE}{minor[1]}")
    return [str(number) for number in range(usable)]
