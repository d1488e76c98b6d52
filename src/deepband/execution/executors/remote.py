"""What runs at the other end of somebody else's executor: in a thread, a process or a node."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import cloudpickle

from deepband.core.records import Attempt
from deepband.errors import StorageError
from deepband.execution.objective import Objective, Task, cannot_hold, perform
from deepband.execution.outbox import SECONDS_A_BEAT, Outbox


@dataclass(frozen=True, slots=True)
class RemoteOrder:
    """A task on its way to where it runs."""

    task: Task
    token: str
    seconds: float | None
    """How long it may take."""
    folder: Path
    """The folder of the study, as the driver calls it."""
    probe: str
    """A file in it, by which others see that it is the same folder."""
    driver: int
    """The driver's process."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a task cannot run there, now or later."""

    reason: str
    folder: Path | None = None
    """The folder that is not shared, if that is why."""


class RanTwiceError(Exception):
    """The executor runs a task again whose first run did not end well: that is for the driver to
    decide."""


class GivenUpError(Exception):
    """The executor runs a task that nobody waits for any more."""


def run_remotely(shipped: bytes | Objective, order: RemoteOrder) -> Attempt | Refused:
    """Run a task. Where the study's folder can be seen, its result is also left there, and a sign
    of life while it runs."""
    _leave_interrupts(order.driver)
    shared = (order.folder / order.probe).exists()
    if not shared and order.task.context is not None:
        return Refused(f"{socket.gethostname()} cannot see it", order.folder)
    try:
        objective = _load(shipped) if isinstance(shipped, bytes) else shipped
    except Exception as error:
        return Refused(f"{type(error).__name__}: {error}")
    if not shared:
        return perform(objective, order.task, interruptible=False)
    return _run_shared(objective, order)


def _run_shared(objective: Objective, order: RemoteOrder) -> Attempt:
    outbox, key = Outbox(order.folder), order.task.job.key
    try:
        known = outbox.get(key, order.token)
        if known is not None:
            return known
        place = outbox.job_file(key, order.token)
        if place.exists():
            raise RanTwiceError(f"{place} is there already")
        with outbox.hold(key, order.token, order.seconds), beating(place):
            _check_wanted(order.task)
            attempt = perform(objective, order.task, interruptible=False)
            outbox.leave(attempt, order.token)
    except (OSError, StorageError) as error:
        return cannot_hold(order.task, error)
    return attempt


def _check_wanted(task: Task) -> None:
    """Raise for a task that began too late: a driver that waits for it no more has removed what it
    would save into."""
    if task.context is not None and not task.context.path.is_dir():
        raise GivenUpError(f"{task.context.path} is gone")


def _leave_interrupts(driver: int) -> None:
    """Leave Ctrl-C, which a terminal sends to all processes, to the driver."""
    here = threading.current_thread() is threading.main_thread()
    if here and os.getpid() != driver:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@lru_cache(maxsize=4)
def _load(shipped: bytes) -> Objective:
    objective: Objective = cloudpickle.loads(shipped)
    return objective


@contextmanager
def beating(place: Path) -> Iterator[None]:
    """Touch a file every few seconds, as long as it is there."""
    done = threading.Event()
    threading.Thread(target=_beat, args=(place, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _beat(place: Path, done: threading.Event) -> None:
    while not done.wait(SECONDS_A_BEAT):
        try:
            os.utime(place)
        except OSError:  # the driver has given the job up
            return
