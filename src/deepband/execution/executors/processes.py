"""An executor that runs tasks in worker processes and survives their death.

Every worker has its own process and pipe, so that the death of one does not affect the others. The
kernel reports it: however a process ends, its pipe is closed and the lock on its job is released.

A worker is replaced after a failed evaluation, because whatever broke, such as an assertion on a
GPU, must not affect the next config. From the first failure on, a spare worker with the objective
loaded is kept ready, so that a replacement takes no time.
"""

from __future__ import annotations

import secrets
import signal
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

from deepband.core.records import Attempt
from deepband.errors import DeepbandError, ObjectiveError
from deepband.execution.batch import Answer
from deepband.execution.devices import Device
from deepband.execution.executors.base import Ended, Order, Timeout, ends, seconds_allowed
from deepband.execution.executors.serialization import ship
from deepband.execution.executors.worker_process import WorkerProcess, end_workers
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import Outbox, RunningJobs, read_job_file

SECONDS_BETWEEN_CHECKS = 0.1
SECONDS_TO_TERMINATE = 2.0
SECONDS_TO_START = 60.0
SECONDS_TO_SEND = 10.0
"""How long a worker that has released its job may take to send the result."""
STARTS = 3
"""How many workers in a row may die before one of them starts a job."""
SECONDS_BETWEEN_STARTS = 0.2
"""A fork server that is being killed refuses connections shortly before the kernel reports its
death, and another one is started only then."""


class ProcessExecutor:
    """Runs tasks in one process per device; None stands for a process without a device."""

    def __init__(
        self,
        objective: Objective,
        devices: Sequence[Device | None],
        outbox: Outbox,
        timeout: Timeout = None,
    ) -> None:
        self._folder = outbox.folder
        self._timeout = timeout
        shipped = ship(objective)
        self._workers = {device: _Workers(shipped, device) for device in devices}
        self._slots = [
            _Slot(number, self._workers[device], outbox) for number, device in enumerate(devices)
        ]
        self._orphans = [each for each in outbox.running() if _uses_gpu_here(each)]
        """Jobs that workers of a dead driver run on a GPU of this machine."""

    @property
    def free(self) -> int:
        return len(self._idle())

    def _idle(self) -> list[_Slot]:
        """The slots that can take a task. A GPU that orphans still use has fewer."""
        idle = [slot for slot in self._slots if slot.order is None]
        if not self._orphans:
            return idle
        now = map(read_job_file, [each.path for each in self._orphans])
        self._orphans = [each for each in now if each is not None and each.held]
        taken = Counter(each.device for each in self._orphans)
        for slot in reversed(list(idle)):
            if taken[slot.gpu] > 0:
                taken[slot.gpu] -= 1
                idle.remove(slot)
        return idle

    def submit(self, tasks: Sequence[Task]) -> None:
        slot = self._idle()[0]
        seconds = seconds_allowed(self._timeout, tasks)
        located = [slot.located(task) for task in tasks]
        slot.start(Order(located, secrets.token_hex(4), seconds, self._folder, device=slot.gpu))

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            events = [event for slot in self._slots if slot.order for event in slot.events]
            if events:  # wait only briefly, because a timeout is not an event
                wait(events, min(left, SECONDS_BETWEEN_CHECKS))
            else:
                time.sleep(left)
            ended = [ended for slot in self._slots for ended in slot.poll()]
            if ended or time.monotonic() >= end:
                return ended

    def close(self) -> None:
        end_workers([worker for slot in self._slots if (worker := slot.give_up()) is not None])
        for workers in self._workers.values():
            workers.close()


def _uses_gpu_here(running: RunningJobs) -> bool:
    return running.device != "" and running.host == socket.gethostname()


class _Workers:
    """Starts workers for a device, and keeps a spare one after the first failure."""

    def __init__(self, shipped: bytes, device: Device | None) -> None:
        self.device = device
        self._shipped = shipped
        self._spare: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        """A worker that is ready: the spare one, or a new one."""
        spare = self._spare
        if spare is not None and spare.is_idle():
            self._spare = None
            return spare
        if spare is not None and spare.is_gone():
            self.close()
        return self._start(preload=False)

    def keep_spare(self) -> None:
        if self._spare is None:
            self._spare = self._start(preload=True)

    def close(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _start(self, preload: bool) -> WorkerProcess:
        """A new worker. If the fork server was killed, the next attempt starts another one."""
        for _ in range(STARTS):
            try:
                return WorkerProcess(self._shipped, preload, self.device)
            except (OSError, EOFError) as error:
                reason = f"{type(error).__name__}: {error}"
                time.sleep(SECONDS_BETWEEN_STARTS)
        raise DeepbandError(
            f"worker processes cannot be started: {reason}. Recorded results are kept; run again "
            "to continue."
        )


class _Slot:
    """A worker, and the order that it works on. Tasks of an order that have ended are removed from
    it."""

    def __init__(self, number: int, workers: _Workers, outbox: Outbox) -> None:
        self.number = number
        self.outbox = outbox
        self.order: Order | None = None
        self._open: Sequence[Task] = ()
        """The tasks of the order that have not ended."""
        self._workers = workers
        self._worker: WorkerProcess | None = None
        self._starts = 0
        self._started = 0.0
        self._seen: float | None = None
        """When the worker was first seen running the order."""
        self._released: float | None = None
        """When the worker was seen to have released its job without having answered."""
        self._late: str | None = None
        self._kill_at = 0.0

    def located(self, task: Task) -> Task:
        """A task whose context names this worker and its device."""
        if task.context is None:
            return task
        device = self._workers.device.name if self._workers.device else None
        return task._replace(context=replace(task.context, slot=self.number, device=device))

    @property
    def gpu(self) -> str:
        """The GPU of the worker, as CUDA_VISIBLE_DEVICES names it; empty if it has none."""
        return self._workers.device.visible if self._workers.device else ""

    @property
    def events(self) -> list[Any]:
        """Objects that become ready when the worker has answered or died."""
        return self._worker.events if self._worker else []

    def start(self, order: Order) -> None:
        self.order, self._open, self._starts = order, order.tasks, 0
        self._late, self._seen, self._released = None, None, None
        self._send()

    def _send(self) -> None:
        """Send the order to a worker that is alive."""
        self._starts += 1
        self._started = time.monotonic()
        if self._worker is None or not self._worker.is_idle():
            self._replace_worker()
        assert self._worker is not None
        assert self.order is not None
        self._worker.send(self.order)

    def _replace_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
        self._worker = self._workers.take()

    def poll(self) -> list[Ended]:
        """The tasks of the order that have ended since the last call."""
        if self.order is None or self._worker is None:
            return []
        ended: list[Ended] = []
        while self.order is not None and (answer := self._worker.answer()) is not None:
            if isinstance(answer, str):  # the objective could not be loaded
                raise ObjectiveError([answer])
            ended += self._answered(self.order, answer)
        if ended or self.order is None:
            return ended
        running = read_job_file(self.outbox.job_file(self.order.key, self.order.token))
        if running is not None:
            self._seen = self._seen or time.monotonic()
        if running is not None and running.held:
            self._released = None
            self._check_time(self.order)
            return []
        if self._worker.is_gone():
            return self._died()
        return self._unanswered()

    def _answered(self, order: Order, answer: Answer) -> list[Ended]:
        if answer.more:
            return self._end(ends(self._open, answer))
        raised = answer.lost or _has_failed(order, answer.attempts)
        if raised and self._late:  # because it was terminated
            return self._lost(self._late)
        if raised:
            self._replace_worker()
            self._workers.keep_spare()
        self.order = None
        return self._end(ends(self._open, answer))

    def _end(self, ended: list[Ended]) -> list[Ended]:
        """Remove tasks from those that are open."""
        keys = {each.task.job.key for each in ended}
        self._open = [task for task in self._open if task.job.key not in keys]
        return ended

    def _died(self) -> list[Ended]:
        """The worker is dead. If it had not started the job, another worker runs it."""
        assert self.order is not None
        assert self._worker is not None
        started = self._seen or self.outbox.get(self.order.keys, self.order.token)
        if not started and self._starts < STARTS:
            self._send()
            return []
        return self._lost(f"WorkerDied: the worker ended with {self._worker.exit_reason()}")

    def _unanswered(self) -> list[Ended]:
        """The worker seems alive, but does not hold its job and has not answered."""
        now = time.monotonic()
        if self._seen is None:
            late = now - self._started > SECONDS_TO_START
            return self._lost("WorkerDied: the worker did not start the job") if late else []
        self._released = self._released or now
        if now - self._released > SECONDS_TO_SEND:
            return self._lost("WorkerDied: the worker ended without a result")
        return []

    def _lost(self, reason: str) -> list[Ended]:
        """Kill the worker, and return the results that it may have written."""
        assert self.order is not None
        order, late = self.order, self._late
        if (worker := self.give_up()) is not None:
            worker.end()
        attempts = self.outbox.get(order.keys, order.token)
        if late and _has_failed(order, attempts):
            attempts = []
        if not attempts:
            self.outbox.clear(order.keys)
        self.outbox.drop(order.key, order.token)
        return self._end(ends(self._open, Answer(attempts, lost=late or reason)))

    def _check_time(self, order: Order) -> None:
        """Terminate a worker that takes too long, and kill it if it does not end. The driver's
        monotonic clock stands still while a laptop sleeps."""
        now = time.monotonic()
        assert self._worker is not None
        if order.seconds is None or now - (self._seen or now) < order.seconds:
            return
        if self._late is None:
            self._late = f"Timeout: it took more than {order.seconds:.6g} seconds"
            self._kill_at = now + SECONDS_TO_TERMINATE
            self._worker.signal(signal.SIGTERM)
        elif now > self._kill_at:
            self._worker.signal(signal.SIGKILL)

    def give_up(self) -> WorkerProcess | None:
        """Forget the order, and return the worker for the caller to end."""
        worker, self._worker, self.order = self._worker, None, None
        return worker


def _has_failed(order: Order, attempts: Sequence[Attempt]) -> bool:
    """Whether the task of an order failed. In a batch, failures are results that were returned."""
    return len(order.tasks) == 1 and any(each.outcome.failed for each in attempts)
