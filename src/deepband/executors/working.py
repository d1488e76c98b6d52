"""What a worker process does: run a task, leave its result, and end when nobody wants it."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cloudpickle

from deepband.objective import Objective, Task, perform
from deepband.outbox import Outbox
from deepband.records import Attempt

MOST_OUTPUT = 1024 * 1024
"""Bytes of output that are kept of an evaluation; of more, the beginning and the end are."""
_busy = threading.Event()


@dataclass(frozen=True, slots=True)
class Order:
    """A task on its way to a worker."""

    task: Task
    token: str
    seconds: float | None
    """How long it may take."""
    folder: Path
    """The folder of the study."""


def begin() -> None:
    """Start a worker: a process group of its own, so that all it starts can be ended with it."""
    os.setsid()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()


def work(shipped: bytes, order: Order) -> tuple[int, Attempt]:
    """Run a task and leave its result in the outbox before returning it, with who ran it."""
    _busy.set()
    try:
        objective = _load(shipped)
        outbox, key = Outbox(order.folder), order.task.job.key
        output = order.folder / "output" / "-".join(map(str, key))
        with outbox.hold(key, order.token, order.seconds):
            with capped_output(output):
                attempt = perform(objective, order.task)
            with suppress(OSError):  # a full disk: the driver still gets the result itself
                outbox.put(attempt, order.token)
        return os.getpid(), attempt
    finally:
        _busy.clear()


@cache
def _load(shipped: bytes) -> Objective:
    objective: Objective = cloudpickle.loads(shipped)
    return objective


def _end_with(server: int) -> None:
    """End an idle worker whose driver is gone, and with it the server that this one was forked
    from; a busy one ends when its result is written."""
    while os.getppid() == server or _busy.is_set():
        time.sleep(0.2)
    os._exit(0)


@contextmanager
def capped_output(path: Path) -> Iterator[None]:
    """Send all that this process and its children print to a file of bounded size."""
    path.parent.mkdir(exist_ok=True)
    reader, writer = os.pipe()
    saved = os.dup(1), os.dup(2)
    done = threading.Event()
    copier = threading.Thread(target=_copy, args=(reader, path, done), daemon=True)
    copier.start()
    try:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(writer)
        yield
    finally:
        _flush()
        for descriptor, original in enumerate(saved, start=1):
            os.dup2(original, descriptor)
            os.close(original)
        done.set()
        copier.join(1.0)  # a child that prints on holds the pipe open: it is not waited for


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def _copy(reader: int, path: Path, done: threading.Event) -> None:
    """Copy a pipe to a file: the first half of what is kept as it comes, the rest as a tail."""
    half = MOST_OUTPUT // 2
    written, left_out, tail = 0, 0, b""
    with path.open("wb", buffering=0) as file:
        while True:
            ready, _, _ = select.select([reader], [], [], 0.1)
            if not ready and done.is_set():
                break
            chunk = os.read(reader, 65536) if ready else b""
            if ready and not chunk:
                break
            head = chunk[: max(0, half - written)]
            with suppress(OSError):
                file.write(head)
            written += len(head)
            tail += chunk[len(head) :]
            if len(tail) > 2 * half:
                left_out += len(tail) - half
                tail = tail[-half:]
        if len(tail) > half:
            left_out, tail = left_out + len(tail) - half, tail[-half:]
        note = f"\n... {left_out} bytes left out ...\n".encode() if left_out else b""
        with suppress(OSError):
            file.write(note + tail)
    os.close(reader)
    if path.stat().st_size == 0:
        path.unlink()
