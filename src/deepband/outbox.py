"""What workers leave in the study's folder, so that nothing is lost when a driver dies.

    FOLDER/jobs/BRACKET-INDEX-RUNG.TOKEN     held locked by the worker that runs the job
    FOLDER/outbox/BRACKET-INDEX-RUNG.TOKEN   its result, complete or not there at all
    FOLDER/output/BRACKET-INDEX-RUNG         what it printed

A worker whose job file is gone has been given up: its result is not wanted any more.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from deepband.facts import JobKey
from deepband.platforms import fcntl, require_posix
from deepband.records import Attempt, Job

SECONDS_A_BEAT = 5.0
SECONDS_SILENT = 60.0
"""How long a worker that gives signs of life may be silent."""


class Running(NamedTuple):
    """A job that some worker runs, or ran when it died: `held` says which."""

    path: Path
    key: JobKey
    held: bool
    """Whether the worker lives: it holds the file locked until it ends. Locks may not reach from
    one host to another, so there a sign of life counts, too."""
    pid: int
    host: str
    started: float
    deadline: float | None


class Outbox:
    """The jobs that run and the results that wait, of one study."""

    def __init__(self, folder: Path) -> None:
        require_posix()
        self.folder = folder
        self.jobs = folder / "jobs"
        self.results = folder / "outbox"

    def make(self) -> None:
        for folder in (self.jobs, self.results):
            folder.mkdir(parents=True, exist_ok=True)

    def job_file(self, key: JobKey, token: str) -> Path:
        return self.jobs / _name(key, token)

    def output_file(self, key: JobKey) -> Path:
        """What the last attempt at a job printed."""
        return self.folder / "output" / "-".join(map(str, key))

    @contextmanager
    def hold(self, key: JobKey, token: str, seconds: float | None) -> Iterator[None]:
        """Hold a job while it runs; the lock ends with the process, however that ends.

        A record lock, because those are not handed on to forked children."""
        path = self.job_file(key, token)
        hidden = path.with_name(f".{path.name}")  # it is seen only when it is locked
        descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT, 0o644)
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
            hidden.rename(path)
            yield
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def put(self, attempt: Attempt, token: str) -> None:
        """Leave a result, whole or not at all, unless it is not wanted any more."""
        key = attempt.job.key
        if not self.job_file(key, token).exists():
            return
        row: dict[str, Any] = attempt._asdict()
        row["job"] = list(attempt.job)
        row["loss"] = None if attempt.loss is None else repr(attempt.loss)
        row["curve"] = [[step, repr(loss)] for step, loss in attempt.curve or ()]
        path = self.results / _name(key, token)
        temporary = path.with_name(f".{path.name}")
        with temporary.open("w") as file:
            file.write(_as_text(row))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)

    def leave(self, attempt: Attempt, token: str) -> None:
        """Leave a result if that can be done: whoever waits for it still gets it directly. A
        failure of the machine is no result."""
        if not attempt.environment:
            with suppress(Exception):  # a full disk, say
                self.put(attempt, token)

    def get(self, key: JobKey, token: str) -> Attempt | None:
        """The result of an attempt, if it is there."""
        return _read(self.results / _name(key, token))

    def waiting(self) -> list[Attempt]:
        """Every result that waits to be recorded. One that cannot be read is removed."""
        found = []
        for path in sorted(self.results.glob("[0-9]*")):
            attempt = _read(path)
            if attempt is not None and path.name == _name(attempt.job.key, path.suffix[1:]):
                found.append(attempt)
            else:
                path.unlink(missing_ok=True)
        return found

    def clear(self, key: JobKey) -> None:
        """Remove every result of a job, because one is recorded or none is wanted."""
        start = _name(key, "")
        for name in os.listdir(self.results):
            if name.removeprefix(".").startswith(start):
                (self.results / name).unlink(missing_ok=True)

    def running(self) -> list[Running]:
        """The jobs that living workers run."""
        found = [look(path) for path in sorted(self.jobs.glob("[0-9]*"))]
        return [running for running in found if running is not None and running.held]

    def sweep(self) -> None:
        """Remove what dead workers left in the place of jobs."""
        for path in self.jobs.iterdir():
            running = look(path) if path.name[0] != "." else None
            if running is None or not running.held:
                path.unlink(missing_ok=True)


def look(path: Path) -> Running | None:
    """Who runs, or ran, a job; None when there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        held = not _can_lock(descriptor)
        note = _note(os.read(descriptor, 4096))
        silent = time.time() - os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
    if note.get("host", socket.gethostname()) != socket.gethostname():
        held = held or silent < SECONDS_SILENT
    try:
        bracket, index, rung = map(int, path.name.split(".")[0].split("-"))
    except ValueError:
        return None  # not a file of ours
    return Running(
        path,
        (bracket, index, rung),
        held,
        int(note.get("pid", 0)),
        str(note.get("host", "")),
        float(note.get("started", time.time())),
        note.get("deadline"),
    )


def _note(content: bytes) -> dict[str, Any]:
    """Who holds a job, as it was written; nothing when that cannot be read."""
    try:
        note = json.loads(content)
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _name(key: JobKey, token: str) -> str:
    bracket, index, rung = key
    return f"{bracket}-{index}-{rung}.{token}"


def _as_text(row: dict[str, Any]) -> str:
    try:
        return json.dumps(row)
    except (TypeError, ValueError):
        # Objects in the config: only a study in memory has them, whose driver knows the config.
        return json.dumps({**row, "job": [*row["job"][:4], {}, *row["job"][5:]]})


def _read(path: Path) -> Attempt | None:
    """A result from its file; None when it cannot be read."""
    try:
        row = json.loads(path.read_text())
        job = Job(*row.pop("job"))
        loss = row.pop("loss")
        curve = tuple((float(step), float(value)) for step, value in row.pop("curve"))
        return Attempt(job, None if loss is None else float(loss), **row, curve=curve or None)
    except (OSError, ValueError, TypeError, KeyError):
        return None
