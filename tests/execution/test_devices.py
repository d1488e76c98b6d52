"""Devices of workers: what their environment says when the objective's module is imported. Only the
environment is tested, so no GPU is needed."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import deepband
from deepband import InputError
from deepband.execution import devices
from deepband.execution.devices import Device, assigned, read_devices
from preloaded import Process

SPACE = {"x": (0.0, 1.0)}
MODULE = '''
import os
import signal
import time
from pathlib import Path

AT_IMPORT = os.environ.get("CUDA_VISIBLE_DEVICES")

def objective(config, budget, context):
    """Waits until as many workers run as there are names in the file `wanted`."""
    here = Path(__file__).parent
    (here / "slots" / str(context.slot)).touch()
    while len(list((here / "slots").iterdir())) < int((here / "wanted").read_text()):
        time.sleep(0.01)
    names = {"at_import": str(AT_IMPORT), "device": str(context.device)}
    return {"loss": config["x"] + 1 / budget, "slot": context.slot, "pid": os.getpid(), **names}

def once(config, budget, context, end):
    """Ends a worker on each slot once, after which another one takes its place."""
    first = Path(__file__).parent / f"first-{context.slot}"
    if not first.exists():
        first.touch()
        end()
    return objective(config, budget, context)

def raised():
    raise RuntimeError("an assertion on the device")

def killed():
    os.kill(os.getpid(), signal.SIGKILL)

def alone(config, budget, context):
    """Notes if two workers use a GPU at once. The worker of the first driver waits for the gate,
    which the other GPU opens after a few evaluations."""
    here, gpu = Path(__file__).parent, os.environ["CUDA_VISIBLE_DEVICES"]
    try:
        (here / f"busy-{gpu}").touch(exist_ok=False)
    except FileExistsError:
        (here / "shared").touch()
    (here / f"used-{gpu}-{os.getpid()}").touch()
    while (here / "closed").exists() and gpu == "GPU-a":
        time.sleep(0.01)
    if gpu == "GPU-b" and budget == 3:
        (here / "closed").unlink(missing_ok=True)
    (here / f"busy-{gpu}").unlink()
    return config["x"]

def crashing(config, budget, context):
    return once(config, budget, context, killed)

def failing(config, budget, context):
    return once(config, budget, context, raised)
'''

Workers = Callable[[int], ModuleType]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workers:
    """The module of an objective that expects a number of workers."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "slots").mkdir()
    (tmp_path / "trained_on.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "trained_on", raising=False)

    def expecting(workers: int) -> ModuleType:
        (tmp_path / "wanted").write_text(str(workers))
        return importlib.import_module("trained_on")

    return expecting


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for, on a machine without GPUs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(devices, "KERNEL", tmp_path / "gpus")
    return folder


def list_gpus(programs: Path, listing: str, code: int = 0) -> None:
    """Install a program that prints what nvidia-smi would."""
    program = programs / "nvidia-smi"
    assert "'" not in listing
    program.write_text(f"#!/bin/sh\n[ \"$*\" = -L ] && printf '%s' '{listing}'\nexit {code}\n")
    program.chmod(0o755)


def seen(study: deepband.Study) -> dict[int, set[tuple[Any, Any]]]:
    """What each worker saw when it imported the objective, and what the context said."""
    found: dict[int, set[tuple[Any, Any]]] = {}
    for each in study.evaluations:
        if each.error is None:
            names = each.metrics["at_import"], each.metrics["device"]
            found.setdefault(each.metrics["slot"], set()).add(names)
    return found


def open_study(tmp_path: Path) -> deepband.Study:
    return deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9)


def test_every_worker_sees_its_own_device_when_it_imports_the_objective(
    module: Workers, tmp_path: Path
) -> None:
    given = ["GPU-2f1c", "MIG-3b/1/0", "cpu"]
    with open_study(tmp_path) as study:
        study.optimize(module(3).objective, devices=given)
        assert seen(study) == {
            0: {("GPU-2f1c", "cuda:0")},
            1: {("MIG-3b/1/0", "cuda:0")},
            2: {("", "cpu")},
        }
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def test_workers_share_devices_only_after_each_device_has_one(
    module: Workers, tmp_path: Path
) -> None:
    with open_study(tmp_path) as study:
        study.optimize(module(3).objective, workers=3, devices=["GPU-a", "GPU-b"], per_device=2)
        found = {slot: {name for name, _ in names} for slot, names in seen(study).items()}
        assert found == {0: {"GPU-a"}, 1: {"GPU-b"}, 2: {"GPU-a"}}


def test_a_single_worker_has_its_own_process(
    module: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    study = deepband.open_study(space=SPACE, max_budget=9)
    study.optimize(module(1).objective, workers=1, devices=["cuda:1"])
    assert seen(study) == {0: {("5", "cuda:0")}}
    assert os.getpid() not in {each.metrics["pid"] for each in study.evaluations}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,5"


def test_without_devices_the_environment_is_that_of_the_driver(
    module: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    with open_study(tmp_path) as study:
        study.optimize(module(2).objective, workers=2)
        assert seen(study) == {0: {("4,5", "None")}, 1: {("4,5", "None")}}


@pytest.mark.parametrize("name", ["crashing", "failing"])
def test_a_replaced_worker_has_the_device_of_its_slot(
    module: Workers, tmp_path: Path, name: str
) -> None:
    with open_study(tmp_path) as study:
        objective = getattr(module(2), name)
        failing = pytest.warns(deepband.FailedEvaluationsWarning, match="2 of 22")
        with failing if name == "failing" else nullcontext():
            study.optimize(objective, devices=["GPU-a", "GPU-b"], first_failures=0)
        assert seen(study) == {0: {("GPU-a", "cuda:0")}, 1: {("GPU-b", "cuda:0")}}
        assert (tmp_path / "first-0").exists()
        assert (tmp_path / "first-1").exists()


DRIVER = """
import deepband, trained_on
study = deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=9)
study.optimize(trained_on.alone, devices=["GPU-a"])
"""


def test_a_gpu_that_an_orphan_still_uses_waits_for_it(module: Workers, tmp_path: Path) -> None:
    (tmp_path / "closed").touch()
    objective = module(2).alone
    with Process(["-c", DRIVER], cwd=tmp_path) as driver:
        while not (tmp_path / "busy-GPU-a").exists():
            assert driver.poll() is None
            time.sleep(0.01)
        driver.kill()
    with open_study(tmp_path) as study:
        study.optimize(objective, devices=["GPU-a", "GPU-b"])
        assert study.done
    assert not (tmp_path / "shared").exists()
    assert len(list(tmp_path.glob("used-GPU-a-*"))) == 2  # the orphan and the new worker


def test_automatic_extension_uses_the_devices_of_its_environment(
    module: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,7")
    with open_study(tmp_path) as study:
        study.auto_extend(module(2).objective, max_cost=500, devices="auto")
        assert len(study.runs) > 1
        assert seen(study) == {0: {("GPU-a", "cuda:0")}, 1: {("7", "cuda:0")}}


@pytest.mark.parametrize(
    ("given", "visible", "found"),
    [
        (["cuda:0", "cuda:3"], None, ["0", "3"]),
        ([0, 3], None, ["0", "3"]),
        ("cuda:0, 3,cpu", None, ["0", "3", ""]),
        (["GPU-8932f937-d72c", "cpu"], None, ["GPU-8932f937-d72c", ""]),
        (["MIG-GPU-8932f937/1/0"], None, ["MIG-GPU-8932f937/1/0"]),
        (["cuda:0", "cuda:1"], "4,5", ["4", "5"]),
        ([1], "GPU-a, MIG-b ", ["MIG-b"]),
        (["GPU-c"], "4,5", ["GPU-c"]),
        ("auto", "4,5", ["4", "5"]),
        ("auto", "4,-1,5", ["4"]),
        ("auto", "GPU-a", ["GPU-a"]),
    ],
)
def test_devices_are_counted_as_cuda_counts_them(
    programs: Path, given: Any, visible: str | None, found: list[str]
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert read_devices(given, environment) == tuple(map(Device, found))


PLAIN = "GPU 0: NVIDIA A100 (UUID: GPU-5c89)\nGPU 1: NVIDIA A100 (UUID: GPU-2d1f)\n"
PARTITIONED = (
    "GPU 0: NVIDIA A100 (UUID: GPU-5c89)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-c7d1)\n"
    "  MIG 3g.20gb     Device  1: (UUID: MIG-GPU-5c89/2/0)\n"
    "GPU 1: NVIDIA A100 (UUID: GPU-2d1f)\n"
)


@pytest.mark.parametrize(
    ("listing", "found"),
    [(PLAIN, ["0", "1"]), (PARTITIONED, ["MIG-c7d1", "MIG-GPU-5c89/2/0", "GPU-2d1f"])],
)
def test_all_devices_are_those_that_nvidia_smi_lists(
    programs: Path, listing: str, found: list[str]
) -> None:
    list_gpus(programs, listing)
    assert read_devices("auto", {}) == tuple(map(Device, found))


def test_the_kernel_is_asked_if_nvidia_smi_fails(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_gpus(programs, PLAIN, code=9)
    for number in (0, 1):
        folder = tmp_path / "gpus" / f"0000:{number}7:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t A100\nDevice Minor: \t {number}\n")
    monkeypatch.setattr(devices, "DEVICE_FILE", f"{tmp_path}/nvidia")
    (tmp_path / "nvidia1").touch()  # this process may use one of the two
    assert read_devices("auto", {}) == (Device("0"),)


@pytest.mark.parametrize(
    ("given", "visible", "problem"),
    [
        ("auto", None, "no NVIDIA GPU was found: CUDA_VISIBLE_DEVICES is not set"),
        ("auto", "", "no NVIDIA GPU was found: CUDA_VISIBLE_DEVICES is ''"),
        ("auto", "-1", "no NVIDIA GPU was found: CUDA_VISIBLE_DEVICES is '-1'"),
        ([], None, "devices is []: give names such as 'cuda:0'"),
        (2, None, "devices is 2: give names"),
        ("", None, "the device '' cannot be read"),
        (["cuda"], None, "the device 'cuda' cannot be read: give names such as 'cuda:0'"),
        ([True], None, "the device True cannot be read"),
        ([-1], None, "the device -1 cannot be read"),
        (["GPU-a b"], None, "the device 'GPU-a b' cannot be read"),
        (["cuda:2"], "4,5", "CUDA_VISIBLE_DEVICES shows 2 GPUs to this process"),
        (["cuda:0"], "", "CUDA_VISIBLE_DEVICES shows 0 GPUs to this process"),
        (["cuda:0", 0], None, "names a device twice: give each once, and per_device=2"),
    ],
)
def test_devices_that_cannot_be_used(
    programs: Path, given: Any, visible: str | None, problem: str
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    with pytest.raises(InputError) as caught:
        read_devices(given, environment)
    assert problem in str(caught.value)


def test_a_number_that_the_machine_does_not_have(programs: Path) -> None:
    list_gpus(programs, PLAIN)
    assert read_devices(["cuda:1", "GPU-a"], {}) == (Device("1"), Device("GPU-a"))
    with pytest.raises(InputError, match="no device 'cuda:2': this machine has 2 GPUs"):
        read_devices(["cuda:2"], {})
    list_gpus(programs, PARTITIONED)
    assert read_devices(["cuda:2"], {}) == (Device("2"),)


def test_more_workers_than_the_devices_have_room_for() -> None:
    two = (Device("0"), Device("1"))
    assert assigned(two, 2, None) == [*two, *two]
    assert assigned(two, 2, 1) == [Device("0")]
    with pytest.raises(InputError) as caught:
        assigned(two, 1, 4)
    assert str(caught.value) == (
        "workers is 4, but 2 devices with per_device=1 can have only 2 workers: give workers=2, "
        "more devices, or per_device=2 to let workers share a device."
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"devices": ["cpu"], "executor": "ray"}, "what each job needs as `resources`"),
        ({"devices": ["cpu"], "per_device": 0}, "per_device is 0"),
        ({"per_device": 2}, "give `devices`, too"),
        ({"devices": ["cpu"], "workers": 2}, "1 device with per_device=1 can have only 1 worker:"),
    ],
)
def test_arguments_that_contradict_each_other(arguments: dict[str, Any], problem: str) -> None:
    study = deepband.open_study(space=SPACE, max_budget=9)
    with pytest.raises(InputError) as caught:
        study.optimize(lambda config, budget: 1.0, **arguments)
    assert problem in str(caught.value)
