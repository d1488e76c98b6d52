"""Files that workers write to the study's folder, so that no result is lost when a driver dies.

    FOLDER/jobs/BRACKET-INDEX-RUNG.TOKEN     locked by the worker that runs the job
    FOLDER/outbox/BRACKET-INDEX-RUNG.TOKEN   the result, written atomically
    FOLDER/output/BRACKET-INDEX-RUNG         what the evaluation printed

The jobs of a batch share one job file, named after the first of them, and so do the results that
end together. A worker whose job file was removed has been given up: its results are no longer
wanted.

The folder may come from an untrusted source. Only regular files with these names are read or
removed, none of the three folders may be a link, and the content of files is validated.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.errors import StorageError
from deepband.execution import attempt_codec
from deepband.system import plain_files
from deepband.system.posix import fcntl, require_posix

SECONDS_BETWEEN_HEARTBEATS = 5.0
SECONDS_SILENT = 60.0
"""How long a worker may send no heartbeat before it counts as dead."""
MOST_NOTE = 2**20
"""How many bytes of a job file are read."""
MOST_TOGETHER = attempt_codec.MOST_BYTES // 4
"""How many bytes of results are written to a file before another one is begun."""
NUMBER = "(0|[1-9][0-9]{0,9})"
NAME = re.compile(rf"\.?{NUMBER}-{NUMBER}-{NUMBER}\.[0-9a-z]+")
"""The names of job files and results. A leading dot marks an incomplete file."""
JOBS, RESULTS, OUTPUT = "jobs", "outbox", "output"
NO_RESULT = frozenset({errno.ENOENT, errno.EFBIG, errno.EINVAL, errno.ELOOP, errno.ENOTDIR})
"""Errors that mean that a worker has not written a result, rather than that reading failed."""


class RunningJobs(NamedTuple):
    """The job, or the jobs of a batch, that a worker is running or, if it is not `held`, was
    running when it died."""

    path: Path
    keys: Sequence[JobKey]
    held: bool
    """Whether the worker is alive: it keeps the file locked until it ends. File locks may not work
    across hosts, so a recent heartbeat from another host counts as well."""
    pid: int
    """The process id in the file, 0 if there is none. `lock_holder` verifies it."""
    host: str
    started: float
    deadline: float | None
    device: str
    """The GPU that the worker uses, as CUDA_VISIBLE_DEVICES names it; empty if it has none."""

    @property
    def key(self) -> JobKey:
        """The job after which the file is named."""
        return self.keys[0]


class HeldJobs(NamedTuple):
    """Jobs whose file this process has locked."""

    outbox: Outbox
    name: str
    """The name of the job file."""

    def leave(self, attempts: Sequence[Attempt]) -> None:
        """Write results if possible: the driver normally receives them directly. A failure of the
        machine is not a result."""
        with suppress(Exception):  # such as a full disk
            for together in _portions([each for each in attempts if not each.environment]):
                self.put(together)

    def put(self, attempts: Sequence[Attempt]) -> None:
        """Write results atomically, unless they are no longer wanted."""
        outbox, token = self.outbox, self.name.partition(".")[2]
        name = _name(attempts[0].job.key, token)
        if not (outbox.jobs / self.name).exists():
            return
        with plain_files.opened_folder(outbox.folder, RESULTS, make=True) as results:
            with open(plain_files.create_inside(results, f".{name}"), "wb") as file:
                file.write(b"\n".join(map(attempt_codec.encode, attempts)))
                file.flush()
                os.fsync(file.fileno())
            plain_files.rename_inside(results, f".{name}", name)
            if not (outbox.jobs / self.name).exists():  # the driver gave the jobs up in between
                plain_files.remove_inside(results, name)


def _portions(attempts: Sequence[Attempt]) -> Iterator[Sequence[Attempt]]:
    """Attempts in parts whose files are not too large."""
    start = size = 0
    for number, attempt in enumerate(attempts):
        size += len(attempt_codec.encode(attempt))
        if size > MOST_TOGETHER:
            yield attempts[start : number + 1]
            start, size = number + 1, 0
    if attempts[start:]:
        yield attempts[start:]


class Outbox:
    """The running jobs of a study, and the results that are not recorded yet."""

    def __init__(self, folder: Path) -> None:
        require_posix()
        self.folder = folder
        self.jobs = folder / JOBS
        self.results = folder / RESULTS

    def make(self) -> None:
        """Create the folders, or raise a StorageError if they are unusable."""
        with self._storage_errors():
            for name in (JOBS, RESULTS):
                with plain_files.opened_folder(self.folder, name, make=True):
                    pass
            with suppress(FileNotFoundError), plain_files.opened_folder(self.folder, OUTPUT):
                pass

    def job_file(self, key: JobKey, token: str) -> Path:
        return self.jobs / _name(key, token)

    def output_file(self, key: JobKey) -> Path:
        """The file for what the last attempt at a job printed."""
        return self.folder / OUTPUT / "-".join(map(str, key))

    def open_output(self, key: JobKey) -> BinaryIO:
        """The same file, open for reading. Raises an OSError unless it is a regular file."""
        return open(plain_files.open_file(self.folder, OUTPUT, self.output_file(key).name), "rb")

    @contextmanager
    def hold(
        self, keys: Sequence[JobKey], token: str, seconds: float | None, device: str = ""
    ) -> Iterator[HeldJobs]:
        """Lock the file of a job, or of the jobs of a batch, while it runs. The lock ends with the
        process, however it dies.

        It is a record lock, because forked children do not inherit those."""
        name = _name(keys[0], token)
        descriptor = self._create_locked(name, _note(keys[1:], seconds, device))
        try:
            yield HeldJobs(self, name)
        finally:
            with suppress(OSError):  # the next driver removes it, because it is not locked
                plain_files.remove_file(self.folder, JOBS, name)
            os.close(descriptor)

    def _create_locked(self, name: str, note: bytes) -> int:
        """A descriptor of a new job file, which becomes visible once it is locked."""
        with plain_files.opened_folder(self.folder, JOBS, make=True) as jobs:
            descriptor = plain_files.create_inside(jobs, f".{name}")
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX)
                with suppress(OSError):  # on a full disk, the file says nothing about the worker
                    os.write(descriptor, note)
                plain_files.rename_inside(jobs, f".{name}", name)
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor

    def get(self, keys: Sequence[JobKey], token: str) -> list[Attempt]:
        """The results of attempts at these jobs, if there are any."""
        with self._storage_errors():
            names = [_name(key, token) for key in keys]
            if len(names) > 1:
                names = sorted(set(names).intersection(self._names(RESULTS)))
            return [attempt for name in names for attempt in self._read(name)]

    def tokens(self, folder: str = RESULTS) -> dict[JobKey, list[str]]:
        """The tokens of the complete files in a folder that are named after each job."""
        found: dict[JobKey, list[str]] = {}
        with self._storage_errors():
            for name in self._names(folder):
                named = NAME.fullmatch(name)
                if named and not name.startswith("."):
                    bracket, index, rung = map(int, named.groups())
                    found.setdefault((bracket, index, rung), []).append(name.partition(".")[2])
        return found

    def left(
        self, keys: Sequence[JobKey], start: str, tokens: Mapping[JobKey, Sequence[str]]
    ) -> list[Attempt]:
        """The results of attempts at these jobs whose tokens begin like this, one per job. `tokens`
        are those of the results."""
        found: dict[JobKey, Attempt] = {}
        with self._storage_errors():
            for key in keys:
                for token in tokens.get(key, ()):
                    if token.startswith(start):
                        found |= {each.job.key: each for each in self._read(_name(key, token))}
        return [found[key] for key in keys if key in found]

    def waiting(self) -> list[Sequence[Attempt]]:
        """The results that are not recorded yet: those of each file, which are recorded together.
        Invalid files are removed."""
        found: list[Sequence[Attempt]] = []
        with self._storage_errors():
            for name in self._names(RESULTS):
                attempts = [] if name.startswith(".") else self._read(name)
                if attempts and name.startswith(_name(attempts[0].job.key, "")):
                    found.append(attempts)
                elif not name.startswith("."):
                    plain_files.remove_file(self.folder, RESULTS, name)
        return found

    def clear(self, keys: Iterable[JobKey]) -> None:
        """Remove all result files that are named after one of these jobs, because results are
        recorded or not wanted. Clear the jobs of a file only together."""
        starts = {_name(key, "") for key in keys}
        with self._storage_errors():
            for name in self._names(RESULTS):
                if name.removeprefix(".").partition(".")[0] + "." in starts:
                    plain_files.remove_file(self.folder, RESULTS, name)

    def running(self) -> list[RunningJobs]:
        """The jobs that living workers are running; none if the folder cannot be read."""
        names: list[str] = []
        with suppress(OSError):
            names = self._names(JOBS)
        found = [read_job_file(self.jobs / name) for name in names if not name.startswith(".")]
        return [running for running in found if running is not None and running.held]

    def sweep(self, is_taken: Callable[[JobKey], bool] = lambda key: False) -> None:
        """Remove the job files of dead workers, unless another process is in charge of the job and
        may be about to lock its file."""
        with self._storage_errors():
            for name in self._names(JOBS):
                if is_taken(_key(name)):
                    continue
                running = None if name.startswith(".") else read_job_file(self.jobs / name)
                if running is None or not running.held:
                    plain_files.remove_file(self.folder, JOBS, name)

    def drop(self, key: JobKey, token: str) -> None:
        """Remove the file of a job, so that its worker writes no result."""
        with self._storage_errors():
            plain_files.remove_file(self.folder, JOBS, _name(key, token))

    def drop_all(self, key: JobKey, start: str) -> None:
        """The same for all attempts at a job whose tokens begin like this."""
        with self._storage_errors():
            for name in self._names(JOBS):
                if name.removeprefix(".").startswith(_name(key, start)):
                    plain_files.remove_file(self.folder, JOBS, name)

    def _names(self, folder: str) -> list[str]:
        """The names of job files or results; other files are left alone."""
        return [
            name for name in plain_files.file_names(self.folder, folder) if NAME.fullmatch(name)
        ]

    def _read(self, name: str) -> list[Attempt]:
        try:
            most = attempt_codec.MOST_BYTES
            content = plain_files.read_file(self.folder, RESULTS, name, most=most)
        except OSError as error:
            if error.errno in NO_RESULT:
                return []
            raise  # it may be readable later
        return attempt_codec.decode(content)

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                self.folder,
                f"cannot be used: {error}. Workers write their results there: make it a writable "
                "folder without symbolic links in it.",
            ) from error


def read_job_file(path: Path) -> RunningJobs | None:
    """The jobs that a job file describes; None if it does not exist or is not a job file."""
    named = NAME.fullmatch(path.name)
    try:
        descriptor = plain_files.open_file(path.parents[1], path.parent.name, path.name)
    except OSError:
        return None
    try:
        held = lock_holder(descriptor) is not None
        note = _read_note(os.read(descriptor, MOST_NOTE))
        silent = abs(time.time() - os.fstat(descriptor).st_mtime)  # the clocks may differ
    finally:
        os.close(descriptor)
    if named is None:
        return None
    if note["host"] not in ("", socket.gethostname()):
        held = held or silent < SECONDS_SILENT
    bracket, index, rung = map(int, named.groups())
    return RunningJobs(path, [(bracket, index, rung), *note.pop("others")], held, **note)


def lock_holder(descriptor: int) -> int | None:
    """The id of the process that has locked a file, according to the kernel: 0 if that process is
    not visible here, None if the file is not locked."""
    darwin = sys.platform == "darwin"  # the order of the fields of `struct flock` differs
    form = "qqihh" if darwin else "hhqqi"
    free = (
        (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if darwin else (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    )
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, *free))
    except OSError:  # the file system does not support it
        return 0
    found = struct.unpack(form, answer)
    kind, pid = (found[3], found[2]) if darwin else (found[0], found[4])
    return None if kind == fcntl.F_UNLCK else max(0, pid)


def _note(others: Sequence[JobKey], seconds: float | None, device: str) -> bytes:
    """The content of the job file of this process, which may run for so many seconds."""
    now = time.time()
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": now,
        "deadline": None if seconds is None else now + seconds,
        "device": device,
        "others": others,
    }
    return json.dumps(note).encode()


def _read_note(content: bytes) -> dict[str, Any]:
    """The content of a job file. Missing and impossible values are replaced by defaults."""
    note: Any = None
    with suppress(ValueError, RecursionError):
        note = json.loads(content)
    note = note if isinstance(note, dict) else {}
    pid, host, started = note.get("pid"), note.get("host"), note.get("started")
    deadline, device, others = note.get("deadline"), note.get("device"), note.get("others")
    others = others if isinstance(others, list) else []
    return {
        "pid": pid if type(pid) is int and 1 < pid < 2**31 else 0,
        "host": host if isinstance(host, str) else "",
        "started": float(started) if _is_time(started) else time.time(),
        "deadline": float(deadline) if _is_time(deadline) else None,
        "device": device if isinstance(device, str) else "",
        "others": [tuple(key) for key in others if _is_key(key)],
    }


def _is_key(given: Any) -> bool:
    """Whether this is a (bracket, index, rung) in JSON."""
    if not isinstance(given, list) or len(given) != 3:
        return False
    return all(type(each) is int and 0 <= each < 2**31 for each in given)


def _is_time(given: Any) -> bool:
    return type(given) in (int, float) and abs(given) < 1e12 and math.isfinite(given)


def _key(name: str) -> JobKey:
    """The job after which a file is named."""
    bracket, index, rung = map(int, name.removeprefix(".").partition(".")[0].split("-"))
    return bracket, index, rung


def _name(key: JobKey, token: str) -> str:
    bracket, index, rung = key
    return f"{bracket}-{index}-{rung}.{token}"
