"""What workers leave in the study's folder, so that nothing is lost when a driver dies.

    FOLDER/jobs/BRACKET-INDEX-RUNG.TOKEN     held locked by the worker that runs the job
    FOLDER/outbox/BRACKET-INDEX-RUNG.TOKEN   its result, complete or not there at all
    FOLDER/output/BRACKET-INDEX-RUNG         what it printed

A worker whose job file is gone has been given up: its result is not wanted any more.

The folder may come from somebody else. Only regular files of these names are read or removed, none
of these three folders may be a link, and what the files say is checked.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.errors import StorageError
from deepband.execution import attempt_codec
from deepband.system import plain_files
from deepband.system.posix import fcntl, require_posix

SECONDS_A_BEAT = 5.0
SECONDS_SILENT = 60.0
"""How long a worker that gives signs of life may be silent."""
MOST_NOTE = 4096
"""Bytes of a job file that are read."""
NUMBER = "(0|[1-9][0-9]{0,9})"
NAME = re.compile(rf"\.?{NUMBER}-{NUMBER}-{NUMBER}\.[0-9a-z]+")
"""The names of our files; one with a dot in front is not complete yet."""
JOBS, RESULTS, OUTPUT = "jobs", "outbox", "output"
NO_RESULT = frozenset({errno.ENOENT, errno.EFBIG, errno.EINVAL, errno.ELOOP, errno.ENOTDIR})
"""Errors of reading a result that say that there is none of ours."""


class Running(NamedTuple):
    """A job that some worker runs, or ran when it died: `held` says which."""

    path: Path
    key: JobKey
    held: bool
    """Whether the worker lives: it holds the file locked until it ends. Locks may not reach from
    one host to another, so there a sign of life counts, too."""
    pid: int
    """What the file says; 0 when it does not. Only `lock_holder` says who really holds it."""
    host: str
    started: float
    deadline: float | None


class Outbox:
    """The jobs that run and the results that wait, of one study."""

    def __init__(self, folder: Path) -> None:
        require_posix()
        self.folder = folder
        self.jobs = folder / JOBS
        self.results = folder / RESULTS

    def make(self) -> None:
        """Create the folders, or raise a StorageError if they cannot be used."""
        with self._complaints():
            for name in (JOBS, RESULTS):
                with plain_files.opened_folder(self.folder, name, make=True):
                    pass
            with suppress(FileNotFoundError), plain_files.opened_folder(self.folder, OUTPUT):
                pass

    def job_file(self, key: JobKey, token: str) -> Path:
        return self.jobs / _name(key, token)

    def output_file(self, key: JobKey) -> Path:
        """What the last attempt at a job printed."""
        return self.folder / OUTPUT / "-".join(map(str, key))

    def open_output(self, key: JobKey) -> BinaryIO:
        """The same, to be read; an OSError when there is none, or it is not a regular file."""
        return open(plain_files.open_file(self.folder, OUTPUT, self.output_file(key).name), "rb")

    @contextmanager
    def hold(self, key: JobKey, token: str, seconds: float | None) -> Iterator[None]:
        """Hold a job while it runs; the lock ends with the process, however that ends.

        A record lock, because those are not handed on to forked children."""
        name = _name(key, token)
        hidden = f".{name}"  # it is seen only when it is locked
        descriptor = plain_files.create_file(self.folder, JOBS, hidden)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX)
            now = time.time()
            note = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": now,
                "deadline": None if seconds is None else now + seconds,
            }
            with suppress(OSError):  # a full disk: then nobody knows who it is
                os.write(descriptor, json.dumps(note).encode())
            self._rename(JOBS, hidden, name)
            yield
        finally:
            with suppress(OSError):  # the next driver sweeps it up: nobody holds it any more
                plain_files.remove_file(self.folder, JOBS, name)
            os.close(descriptor)

    def put(self, attempt: Attempt, token: str) -> None:
        """Leave a result, whole or not at all, unless it is not wanted any more."""
        name = _name(attempt.job.key, token)
        if not (self.jobs / name).exists():
            return
        with open(plain_files.create_file(self.folder, RESULTS, f".{name}"), "wb") as file:
            file.write(attempt_codec.encode(attempt))
            file.flush()
            os.fsync(file.fileno())
        self._rename(RESULTS, f".{name}", name)

    def leave(self, attempt: Attempt, token: str) -> None:
        """Leave a result if that can be done: whoever waits for it still gets it directly. A
        failure of the machine is no result."""
        if not attempt.environment:
            with suppress(Exception):  # a full disk, say
                self.put(attempt, token)

    def get(self, key: JobKey, token: str) -> Attempt | None:
        """The result of an attempt, if it is there."""
        with self._complaints():
            return self._read(_name(key, token))

    def waiting(self) -> list[Attempt]:
        """Every result that waits to be recorded. One that cannot be read is removed."""
        found = []
        with self._complaints():
            for name in self._names(RESULTS):
                attempt = None if name.startswith(".") else self._read(name)
                if attempt is not None and name.startswith(_name(attempt.job.key, "")):
                    found.append(attempt)
                elif not name.startswith("."):
                    plain_files.remove_file(self.folder, RESULTS, name)
        return found

    def clear(self, key: JobKey) -> None:
        """Remove every result of a job, because one is recorded or none is wanted."""
        start = _name(key, "")
        with self._complaints():
            for name in self._names(RESULTS):
                if name.removeprefix(".").startswith(start):
                    plain_files.remove_file(self.folder, RESULTS, name)

    def running(self) -> list[Running]:
        """The jobs that living workers run; none where nobody can tell."""
        names: list[str] = []
        with suppress(OSError):
            names = self._names(JOBS)
        found = [look(self.jobs / name) for name in names if not name.startswith(".")]
        return [running for running in found if running is not None and running.held]

    def sweep(self) -> None:
        """Remove what dead workers left in the place of jobs."""
        with self._complaints():
            for name in self._names(JOBS):
                running = None if name.startswith(".") else look(self.jobs / name)
                if running is None or not running.held:
                    plain_files.remove_file(self.folder, JOBS, name)

    def drop(self, key: JobKey, token: str) -> None:
        """Remove the file of a job, so that its worker leaves no result."""
        with self._complaints():
            plain_files.remove_file(self.folder, JOBS, _name(key, token))

    def _names(self, folder: str) -> list[str]:
        """Those of our files; what else is there is not ours to judge."""
        return [
            name for name in plain_files.file_names(self.folder, folder) if NAME.fullmatch(name)
        ]

    def _read(self, name: str) -> Attempt | None:
        try:
            most = attempt_codec.MOST_BYTES
            content = plain_files.read_file(self.folder, RESULTS, name, most=most)
        except OSError as error:
            if error.errno in NO_RESULT:
                return None
            raise  # it may be read another time
        return attempt_codec.decode(content)

    def _rename(self, folder: str, source: str, target: str) -> None:
        with plain_files.opened_folder(self.folder, folder) as descriptor:
            os.rename(source, target, src_dir_fd=descriptor, dst_dir_fd=descriptor)

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                self.folder,
                f"cannot be used: {error}. Workers leave their results there: make it a folder "
                "that can be written, without links in it.",
            ) from error


def look(path: Path) -> Running | None:
    """Who runs, or ran, a job; None when there is no such file, or none of ours."""
    named = NAME.fullmatch(path.name)
    try:
        descriptor = plain_files.open_file(path.parents[1], path.parent.name, path.name)
    except OSError:
        return None
    try:
        held = lock_holder(descriptor) is not None
        note = _note(os.read(descriptor, MOST_NOTE))
        silent = abs(time.time() - os.fstat(descriptor).st_mtime)  # a clock may be ahead
    finally:
        os.close(descriptor)
    if named is None:
        return None
    if note["host"] not in ("", socket.gethostname()):
        held = held or silent < SECONDS_SILENT
    bracket, index, rung = map(int, named.groups())
    return Running(path, (bracket, index, rung), held, **note)


def lock_holder(descriptor: int) -> int | None:
    """The process that holds a file locked, as the kernel knows it: 0 when it is one that cannot be
    seen from here, and None when nobody does."""
    darwin = sys.platform == "darwin"  # the fields of `struct flock`, in each system's order
    form = "qqihh" if darwin else "hhqqi"
    free = (
        (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if darwin else (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    )
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, *free))
    except OSError:  # a file system that cannot tell
        return 0
    found = struct.unpack(form, answer)
    kind, pid = (found[3], found[2]) if darwin else (found[0], found[4])
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def _note(content: bytes) -> dict[str, Any]:
    """Who holds a job, as it was written. What cannot be read, or cannot be true, is left out."""
    note: Any = None
    with suppress(ValueError, RecursionError):
        note = json.loads(content)
    note = note if isinstance(note, dict) else {}
    pid, host, started = note.get("pid"), note.get("host"), note.get("started")
    deadline = note.get("deadline")
    return {
        "pid": pid if type(pid) is int and 1 < pid < 2**31 else 0,
        "host": host if isinstance(host, str) else "",
        "started": float(started) if _is_time(started) else time.time(),
        "deadline": float(deadline) if _is_time(deadline) else None,
    }


def _is_time(given: Any) -> bool:
    return type(given) in (int, float) and abs(given) < 1e12 and math.isfinite(given)


def _name(key: JobKey, token: str) -> str:
    bracket, index, rung = key
    return f"{bracket}-{index}-{rung}.{token}"
