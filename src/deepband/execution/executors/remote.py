"""The function that executors of other libraries call in their threads, processes or nodes."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import cloudpickle

from deepband.core.records import Attempt
from deepband.errors import StorageError
from deepband.execution.batch import Answer, perform_tasks
from deepband.execution.devices import assigned_device
from deepband.execution.executors.base import Order
from deepband.execution.objective import Objective, Task, not_started
from deepband.execution.outbox import SECONDS_BETWEEN_HEARTBEATS, Outbox

AnyOrder = TypeVar("AnyOrder", bound=Order)


@dataclass(frozen=True, slots=True)
class RemoteOrder(Order):
    """Tasks on their way to another library's worker."""

    probe: str
    """A file in the study's folder. A worker that sees it shares the folder."""
    driver: int
    """The process id of the driver."""
    gpu: bool = False
    """Whether each call has a GPU."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why no task can run on a worker."""

    reason: str
    folder: Path | None = None
    """The folder that is not shared, if that is why."""


class RanTwiceError(Exception):
    """The executor retried a task by itself, which only the driver may do."""


class GivenUpError(Exception):
    """The executor started a task that the driver has already given up."""


def run_remotely(shipped: bytes | Objective, order: RemoteOrder) -> Answer | Refused:
    """Run tasks. If the worker shares the study's folder, it also writes the results there, and a
    heartbeat while the tasks run."""
    _ignore_interrupts(order.driver)
    shared = (order.folder / order.probe).exists()
    if not shared and order.tasks[0].context is not None:
        return Refused(f"{socket.gethostname()} cannot see it", order.folder)
    if order.gpu:
        order = with_device(order)
    try:
        objective = _load(shipped) if isinstance(shipped, bytes) else shipped
    except Exception as error:
        return Refused(f"{type(error).__name__}: {error}")
    if not shared:  # then there are no contexts, so that no task is finished before the others
        return perform_tasks(objective, order.tasks, lambda attempt: None, interruptible=False)
    return _run_shared(objective, order)


def with_device(order: AnyOrder) -> AnyOrder:
    """An order whose tasks know the GPU that this worker has."""
    device = assigned_device(os.environ)
    tasks = [
        task._replace(context=task.context and replace(task.context, device=device.name))
        for task in order.tasks
    ]
    return replace(order, tasks=tasks, device=device.visible)


def _run_shared(objective: Objective, order: RemoteOrder) -> Answer:
    outbox = Outbox(order.folder)
    try:
        earlier = outbox.get(order.keys, order.token)
        if len(earlier) == len(order.tasks):
            return Answer(earlier)
        file = outbox.job_file(order.key, order.token)
        if file.exists():
            raise RanTwiceError(f"{file} already exists")
        finished: list[Attempt] = []
        held_file = outbox.hold(order.keys, order.token, order.seconds, order.device)
        with held_file as held, heartbeat(file):
            _check_wanted(order.tasks[0])

            def leave(attempt: Attempt) -> None:
                finished.append(attempt)
                held.leave([attempt])

            answer = perform_tasks(objective, order.tasks, leave, interruptible=False)
            held.leave(answer.attempts)
    except (OSError, StorageError) as error:
        return Answer([not_started(task, error) for task in order.tasks])
    return answer._replace(attempts=[*finished, *answer.attempts])


def _check_wanted(task: Task) -> None:
    """Raise for a task that started too late: the driver has given it up and removed its folder."""
    if task.context is not None and not task.context.path.is_dir():
        raise GivenUpError(f"{task.context.path} does not exist any more")


def _ignore_interrupts(driver: int) -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes, except in the driver itself."""
    here = threading.current_thread() is threading.main_thread()
    if here and os.getpid() != driver:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@lru_cache(maxsize=4)
def _load(shipped: bytes) -> Objective:
    objective: Objective = cloudpickle.loads(shipped)
    return objective


@contextmanager
def heartbeat(file: Path) -> Iterator[None]:
    """Touch a file every few seconds, as long as it exists."""
    done = threading.Event()
    threading.Thread(target=_beat, args=(file, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _beat(file: Path, done: threading.Event) -> None:
    while not done.wait(SECONDS_BETWEEN_HEARTBEATS):
        try:
            os.utime(file)
        except OSError:  # the driver has given the job up
            return
