"""The processes that a worker started, wherever they moved.

Most stay in the worker's process group and are ended with it. One that calls `setsid` leaves the
group; on Linux it is found as a child of the worker or, when the worker is dead, by a mark in its
environment. (One that was forked without `exec` has no mark, and is not found after that.)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "DEEPBAND_WORKER"
_PROC = Path("/proc")


def end_descendants(pid: int, mark: str) -> None:
    """Kill all that a worker started, as far as it can be found. The worker itself is left."""
    for each in {*_children(pid), *_marked(mark)} - {os.getpid(), pid}:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)


def _children(pid: int) -> Iterator[int]:
    """The children of a process, their children and so on."""
    parents = dict(_parents())
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
        yield from more


def _parents() -> Iterator[tuple[int, int]]:
    """Every process with its parent."""
    for pid in _processes():
        with suppress(OSError, ValueError, IndexError):
            status = (_PROC / str(pid) / "stat").read_bytes()
            yield pid, int(status.rpartition(b")")[2].split()[1])


def _marked(mark: str) -> Iterator[int]:
    """The processes whose environment has the mark."""
    wanted = f"{VARIABLE}={mark}".encode()
    for pid in _processes():
        with suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                yield pid


def _processes() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if _PROC.is_dir() else []
