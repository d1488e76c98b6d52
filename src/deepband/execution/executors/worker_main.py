"""The code that runs inside a worker process: it runs tasks until its driver is gone."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from io import FileIO
from multiprocessing.connection import Connection
from pathlib import Path

import cloudpickle

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.batch import Answer, perform_tasks
from deepband.execution.executors.base import Order
from deepband.execution.objective import Objective, not_started
from deepband.execution.outbox import HeldJobs, Outbox
from deepband.system.plain_files import create_file, link_file
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
    """Run orders until the driver is gone. The answer to each says how its tasks ended, or is a
    text that says why the objective cannot be loaded. Answers with `more` may come before it."""
    begin(shipped, environment, folder, mark)
    if preload:
        with suppress(BaseException):  # reported with the first order
            _objective()
    with suppress(EOFError, OSError):
        if preload:
            pipe.send(LOADED)
        while True:
            order = pipe.recv()
            pipe.send(work(order, pipe.send))


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


def work(order: Order, send: Callable[[Answer], None] = lambda answer: None) -> Answer | str:
    """Run tasks, and write their results to the outbox before they are sent or returned."""
    outbox = Outbox(order.folder)
    _busy.set()
    try:
        with outbox.hold(order.keys, order.token, order.seconds, order.device) as held:
            if not _driver_lives():  # the next driver may not have seen this job running,
                os._exit(0)  # so it will run it again
            with captured_output(outbox, order.keys):
                try:
                    objective = _objective()
                except Exception as error:
                    return f"{type(error).__name__}: {error}"
                leave = partial(_send_early, held, send)
                answer = perform_tasks(objective, order.tasks, leave, interruptible=False)
            held.leave(answer.attempts)
        return answer
    except OSError as error:
        return Answer([not_started(task, error) for task in order.tasks])
    finally:
        _busy.clear()


def _send_early(held: HeldJobs, send: Callable[[Answer], None], attempt: Attempt) -> None:
    """Send the result of a task that has ended before its batch."""
    held.leave([attempt])
    with suppress(OSError):  # the driver is gone: the next one finds the result in the outbox
        send(Answer([attempt], more=True))


@contextmanager
def captured_output(outbox: Outbox, keys: Sequence[JobKey]) -> Iterator[None]:
    """Write what tasks print to the output file of each. Those of a batch have the same file."""
    first, *others = map(outbox.output_file, keys)
    with capped_output(first):
        yield
    with suppress(OSError):  # nothing was printed, or it could not be written
        link_file(first.parents[1], first.parent.name, first.name, [each.name for each in others])


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
