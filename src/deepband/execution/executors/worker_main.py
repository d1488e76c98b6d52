"""The code that runs inside a worker process: it runs tasks until its driver is gone."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from io import FileIO
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle

from deepband.core.records import Attempt
from deepband.execution.executors.base import Order
from deepband.execution.objective import Objective, not_started, perform
from deepband.execution.outbox import Outbox
from deepband.system.plain_files import create_file
from deepband.system.process_tree import VARIABLE, descendants, kill_all

MOST_OUTPUT = 1024 * 1024
"""Bytes of output that are kept per evaluation. If there is more, the middle is cut."""
LOADED = "loaded"
"""The message of a worker that has tried to preload the objective."""
_busy = threading.Event()


class _Worker:
    """What the driver passes to this process when it starts."""

    shipped: bytes
    mark: str


_worker = _Worker()


def serve(
    pipe: Connection,
    shipped: bytes,
    environment: Mapping[str, str],
    folder: str,
    mark: str,
    preload: bool,
) -> None:
    """Run orders until the driver is gone. The answer to each is an attempt, or a text that says
    why the objective cannot be loaded."""
    begin(shipped, environment, folder, mark)
    if preload:
        with suppress(BaseException):  # reported with the first order
            _objective()
    with suppress(EOFError, OSError):
        if preload:
            pipe.send(LOADED)
        while True:
            pipe.send(work(pipe.recv()))


def begin(shipped: bytes, environment: Mapping[str, str], folder: str, mark: str) -> None:
    """Set up a worker: with its own process group, so that the processes it starts can be killed
    with it, and with the driver's environment and working directory."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.environ.clear()
    os.environ.update(environment)
    os.environ[VARIABLE] = mark
    os.chdir(folder)
    _worker.shipped, _worker.mark = shipped, mark
    threading.Thread(target=_end_with_driver, daemon=True).start()


def work(order: Order) -> Attempt | str:
    """Run a task, and write its result to the outbox before returning it."""
    outbox, key = Outbox(order.folder), order.key
    _busy.set()
    try:
        with outbox.hold(key, order.token, order.seconds, order.device):
            if not _driver_lives():  # the next driver may not have seen this job running,
                os._exit(0)  # so it will run it again
            with capped_output(outbox.output_file(key)):
                try:
                    objective = _objective()
                except Exception as error:
                    return f"{type(error).__name__}: {error}"
                attempt = perform(objective, order.task, interruptible=False)
            outbox.leave(attempt, order.token)
        return attempt
    except OSError as error:
        return not_started(order.task, error)
    finally:
        _busy.clear()


@cache
def _objective() -> Objective:
    objective: Objective = cloudpickle.loads(_worker.shipped)
    return objective


def _driver_lives() -> bool:
    """Whether the driver is alive. The kernel closes its pipe to this process when it dies. (The
    parent process is the fork server, which may outlive the driver or die before it.)"""
    driver = multiprocessing.parent_process()
    return driver is not None and driver.is_alive()


def _end_with_driver() -> None:
    """Kill this worker and the processes it started once the driver is dead. A busy worker first
    writes its result."""
    while _driver_lives() or _busy.is_set():
        time.sleep(0.2)
    kill_all(descendants({os.getpid()}, {_worker.mark}))
    os.killpg(0, signal.SIGKILL)


@contextmanager
def capped_output(path: Path) -> Iterator[None]:
    """Redirect the output of this process and its children to a file of bounded size."""
    file = _open(path)
    reader, writer = os.pipe()
    saved = os.dup(1), os.dup(2)
    done = threading.Event()
    copier = threading.Thread(target=_copy, args=(reader, file, path, done), daemon=True)
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
        copier.join(1.0)  # do not wait for a child that keeps the pipe open


def _open(path: Path) -> FileIO:
    """A new file for output; if it cannot be created, the output is lost."""
    try:
        return FileIO(create_file(path.parents[1], path.parent.name, path.name), "wb")
    except OSError:
        return FileIO(os.devnull, "wb")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # an objective may have closed or replaced it
            stream.flush()


def _copy(reader: int, file: FileIO, path: Path, done: threading.Event) -> None:
    """Copy a pipe to a file: the first half of MOST_OUTPUT as it comes, the other half from the
    end."""
    half = MOST_OUTPUT // 2
    written, left_out, tail = 0, 0, b""
    arrivals = select.poll()  # select itself fails on descriptors from 1024 on
    arrivals.register(reader, select.POLLIN | select.POLLHUP)
    with file:
        while True:
            ready = arrivals.poll(100)
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
    with suppress(OSError):  # an empty file does no harm
        if path.is_file() and path.stat().st_size == 0:
            path.unlink(missing_ok=True)
