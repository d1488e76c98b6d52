"""The processes that a worker started, including those that left its process group.

Most processes stay in the worker's process group and are killed with it. On Linux, a process that
left the group with `setsid` is found as a descendant of the worker or, if the worker is dead, by a
mark in its environment. A process forked without `exec` does not have the mark, so it cannot be
found once the worker is dead.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "DEEPBAND_WORKER"
SECONDS_TO_START, PAUSE = 0.05, 0.001
"""How long a process without an environment is looked at again, and how often."""
_PROC = Path("/proc")


def descendants(living: Collection[int], marks: Collection[str]) -> set[int]:
    """The processes that workers started: descendants of the living workers, and processes with
    the mark of any worker. The workers themselves are not included."""
    return {*_children(living), *_marked(marks)} - {os.getpid(), *living}


def kill_tree(leader: int) -> None:
    """Kill the leader of a process group and all processes that it started."""
    left = descendants({leader}, ())
    kill_group(leader)
    kill_all(left)


def kill_group(group: int) -> None:
    """Kill the processes of a group. Nothing happens if there are none."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_all(processes: Iterable[int]) -> None:
    """Kill these processes. Those that have ended are ignored."""
    for each in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _children(living: Collection[int]) -> Iterator[int]:
    """The descendants of processes."""
    parents = dict(_parents()) if living else {}
    found = set(living)
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
        yield from more


def _parents() -> Iterator[tuple[int, int]]:
    """Pairs of a process and its parent."""
    for pid in _processes():
        with suppress(OSError, ValueError, IndexError):
            status = (_PROC / str(pid) / "stat").read_bytes()
            yield pid, int(status.rpartition(b")")[2].split()[1])


def _marked(marks: Collection[str]) -> Iterator[int]:
    """The processes whose environment contains one of the marks."""
    wanted = {f"{VARIABLE}={mark}".encode() for mark in marks}
    until = time.monotonic() + SECONDS_TO_START
    for pid in _processes():
        with suppress(OSError):
            environment = _environment(_PROC / str(pid), until)
            if b"DEEPBAND" in environment and wanted & set(environment.split(b"\0")):
                yield pid


def _environment(process: Path, until: float) -> bytes:
    """The environment of a process. One that is about to start a program has none for a moment, but
    memory, which processes of the kernel and those that have ended do not have."""
    while not (environment := (process / "environ").read_bytes()):
        if (process / "statm").read_bytes().startswith(b"0 ") or time.monotonic() >= until:
            break
        time.sleep(PAUSE)
    return environment


def _processes() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if _PROC.is_dir() else []
