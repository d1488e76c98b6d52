"""The processes that a worker started, wherever they moved.

Most stay in the worker's process group and are ended with it. One that calls `setsid` leaves the
group; on Linux it is found as a child of the worker or, when the worker is dead, by a mark in its
environment. (One that was forked without `exec` has no mark, and is not found after that.)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "DEEPBAND_WORKER"
_PROC = Path("/proc")


def descendants(living: Collection[int], marks: Collection[str]) -> set[int]:
    """All that workers started, as far as it can be found, by the living ones among them and by the
    marks of all. The workers themselves are left out."""
    return {*_children(living), *_marked(marks)} - {os.getpid(), *living}


def kill_all(processes: Iterable[int]) -> None:
    for each in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _children(living: Collection[int]) -> Iterator[int]:
    """The children of processes, their children and so on."""
    parents = dict(_parents()) if living else {}
    found = set(living)
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
        yield from more


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    for pid in _processes():
        with suppress(OSError, ValueError, IndexError):
            status = (_PROC / str(pid) / "stat").read_bytes()
            yield pid, int(status.rpartition(b")")[2].split()[1])


def _marked(marks: Collection[str]) -> Iterator[int]:
    """The processes whose environment has one of the marks."""
    wanted = {f"{VARIABLE}={mark}".encode() for mark in marks}
    for pid in _processes():
        with suppress(OSError):
            environment = (_PROC / str(pid) / "environ").read_bytes()
            if b"DEEPBAND" in environment and wanted & set(environment.split(b"\0")):
                yield pid


def _processes() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if _PROC.is_dir() else []
