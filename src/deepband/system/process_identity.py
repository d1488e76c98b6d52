"""The identity of a process: its host, its id and when it started.

An id is used again after its process has ended, so it identifies a process only together with the
time of its start. On Linux, that is the number of clock ticks since the host was booted. Ids are
comparable only within one boot of a host and one namespace of ids (a container has its own), so
these are part of `started`.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from deepband.core.facts import Owner

_PROC = Path("/proc")


def this_process() -> Owner:
    """The identity of this process."""
    return _this_process(os.getpid())


@cache
def _this_process(pid: int) -> Owner:
    return Owner(host_name(), pid, f"{_scope()} {_start(pid) or ''}")


NO_PROCESS = Owner("", 0, "")
"""The owner of a lease that does not end with a process."""


def host_name() -> str:
    """The name of this host, as a text that can be stored."""
    return socket.gethostname().encode(errors="replace").decode()


def is_dead(owner: Owner) -> bool:
    """Whether a process is known to have ended: it ran on this host, and there is no process with
    its id and start now."""
    scope, _, start = owner.started.partition(" ")
    if not owner.pid or owner.host != host_name() or scope != _scope() or not start:
        return False
    found = _start(owner.pid)
    return found != start and (found is not None or not _exists(owner.pid))


@cache
def _scope() -> str:
    """Where ids of processes mean the same: one boot of a host, one namespace. No spaces."""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    return "host"


def _start(pid: int) -> str | None:
    """When a process started; None if there is none with this id, or it has ended and waits for its
    parent to notice."""
    if not _PROC.is_dir():
        return _start_by_ps(pid)
    try:
        status = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if status[0] in (b"Z", b"X") else status[19].decode()


def _exists(pid: int) -> bool:
    """Whether there is a process with this id, also one whose details are hidden from this user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return not (_PROC / str(pid) / "stat").exists()  # otherwise it has just ended


def _start_by_ps(pid: int) -> str | None:
    """The same on systems without /proc."""
    given = ["ps", "-o", "lstart=", "-p", str(pid)]
    found = subprocess.run(given, capture_output=True, text=True, check=False).stdout.strip()
    return found or None
