"""A place for one worker process, and the order that it works on.

A worker is replaced after a failed evaluation, because whatever broke, such as an assertion on a
GPU, must not affect the next config. From the first failure on, a spare worker with the objective
loaded is kept ready, so that a replacement takes no time.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deepband.core.records import Attempt
from deepband.errors import ObjectiveError
from deepband.execution.batch import Answer
from deepband.execution.executors.base import Ended, Order, ends
from deepband.execution.executors.worker_process import WorkerProcess
from deepband.execution.executors.worker_supply import WorkerSupply
from deepband.execution.objective import Task
from deepband.execution.outbox import Outbox, read_job_file

SECONDS_TO_TERMINATE = 2.0
SECONDS_TO_START = 60.0
SECONDS_TO_SEND = 10.0
"""How long a worker that has released its job may take to send the result."""
STARTS = 3
"""How many workers in a row may die before one of them starts a job."""


class WorkerSlot:
    """A worker, and the order that it works on. Tasks of an order that have ended are removed from
    it."""

    def __init__(self, number: int, workers: WorkerSupply, outbox: Outbox) -> None:
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
