"""Runs tasks in worker processes, which may die.

A worker is one process and one pipe, so that the death of a worker harms no other. Who died is told
by the kernel: it closes the pipe, and drops the lock that the worker holds on its job, whatever the
way in which the process ended.

The worker of a failed evaluation is ended: whatever broke it, such as an assertion on a GPU, must
not meet another config. From the first failure on a spare worker is kept, with the objective
loaded, so that a failure costs no start.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait
from typing import Any

from deepband.core.records import Attempt
from deepband.errors import DeepbandError, ObjectiveError
from deepband.execution.executors.base import Ended, Timeout, check_seconds
from deepband.execution.executors.transport import ship
from deepband.execution.executors.worker import Order
from deepband.execution.executors.worker_process import WorkerProcess, end_workers
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import Outbox, look

SECONDS_A_CHECK = 0.1
SECONDS_TO_TERMINATE = 2.0
SECONDS_TO_BEGIN = 60.0
SECONDS_TO_SEND = 10.0
"""How long a worker that has let go of its job may take to send the result."""
STARTS = 3
"""How many workers in a row may die before one of them begins a job."""
SECONDS_BETWEEN_STARTS = 0.2
"""A fork server that is being killed refuses connections a moment before the kernel reports its
death, and only then is another one started."""


class ProcessExecutor:
    """A number of worker processes, each ended with all that it started."""

    def __init__(
        self, objective: Objective, workers: int, outbox: Outbox, timeout: Timeout = None
    ) -> None:
        self._folder = outbox.folder
        self._timeout = timeout
        self._workers = _Workers(ship(objective))
        self._slots = [_Slot(number, self._workers, outbox) for number in range(workers)]

    @property
    def free(self) -> int:
        return sum(slot.order is None for slot in self._slots)

    def submit(self, task: Task) -> None:
        slot = next(slot for slot in self._slots if slot.order is None)
        seconds = self._timeout(task.job.budget) if callable(self._timeout) else self._timeout
        check_seconds("timeout", seconds)
        if task.context is not None:
            task = replace(task, context=replace(task.context, slot=slot.number))
        slot.start(Order(task, secrets.token_hex(4), seconds, self._folder))

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            signs = [sign for slot in self._slots if slot.order for sign in slot.signs]
            if signs:  # not longer than a moment, because a timeout shows no sign
                wait(signs, min(left, SECONDS_A_CHECK))
            else:
                time.sleep(left)
            ended = [ended for slot in self._slots if (ended := slot.look()) is not None]
            if ended or time.monotonic() >= end:
                return ended

    def close(self) -> None:
        end_workers([worker for slot in self._slots if (worker := slot.give_up()) is not None])
        self._workers.close()


class _Workers:
    """Starts workers, and keeps a spare one from the first failure on."""

    def __init__(self, shipped: bytes) -> None:
        self._shipped = shipped
        self._spare: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        """A worker that lives: the spare one if it does, or another."""
        spare = self._spare
        if spare is not None and spare.is_idle():
            self._spare = None
            return spare
        if spare is not None and spare.is_gone():
            self.close()
        return self._start(loads=False)

    def keep_spare(self) -> None:
        if self._spare is None:
            self._spare = self._start(loads=True)

    def close(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _start(self, loads: bool) -> WorkerProcess:
        """A new worker. The fork server may have been killed meanwhile: the next start makes
        another one."""
        for _ in range(STARTS):
            try:
                return WorkerProcess(self._shipped, loads)
            except (OSError, EOFError) as error:
                reason = f"{type(error).__name__}: {error}"
                time.sleep(SECONDS_BETWEEN_STARTS)
        raise DeepbandError(
            f"worker processes cannot be started: {reason}. What was recorded is kept; run again "
            "to continue."
        )


class _Slot:
    """Room for one worker, and the order it works on."""

    def __init__(self, number: int, workers: _Workers, outbox: Outbox) -> None:
        self.number = number
        self.outbox = outbox
        self.order: Order | None = None
        self._workers = workers
        self._worker: WorkerProcess | None = None
        self._starts = 0
        self._started = 0.0
        self._seen: float | None = None
        """Since when the worker was seen to run the order."""
        self._let_go: float | None = None
        """Since when the worker does not hold its job any more, though it has not answered."""
        self._late: str | None = None
        self._kill_at = 0.0

    @property
    def signs(self) -> list[Any]:
        """What becomes ready when there is something to look at."""
        return self._worker.signs if self._worker else []

    def start(self, order: Order) -> None:
        self.order, self._starts = order, 0
        self._late, self._seen, self._let_go = None, None, None
        self._send()

    def _send(self) -> None:
        """Hand the order to a worker that lives."""
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

    def look(self) -> Ended | None:
        """What became of the order, if it has ended."""
        if self.order is None or self._worker is None:
            return None
        answer = self._worker.answer()
        if isinstance(answer, Attempt):
            return self._answered(answer)
        if answer is not None:  # the objective could not even be loaded there
            raise ObjectiveError([answer])
        running = look(self.outbox.job_file(self.order.task.job.key, self.order.token))
        if running is not None:
            self._seen = self._seen or time.monotonic()
        if running is not None and running.held:
            self._let_go = None
            self._check_time(self.order)
            return None
        if self._worker.is_gone():
            return self._died()
        return self._silent()

    def _answered(self, attempt: Attempt) -> Ended | None:
        assert self.order is not None
        if attempt.failed:
            if self._late:  # it failed because it was told to end
                return self._lost(self._late)
            self._replace_worker()
            self._workers.keep_spare()
        ended = Ended(self.order.task, attempt._replace(job=self.order.task.job))
        self.order = None
        return ended

    def _died(self) -> Ended | None:
        """The worker is gone. If it had not begun the job, another one does that."""
        assert self.order is not None
        assert self._worker is not None
        begun = self._seen or self.outbox.get(self.order.task.job.key, self.order.token)
        if not begun and self._starts < STARTS:
            self._send()
            return None
        return self._lost(f"WorkerDied: the worker ended with {self._worker.how()}")

    def _silent(self) -> Ended | None:
        """The worker lives, as far as can be told, and does not hold its job."""
        now = time.monotonic()
        if self._seen is None:
            late = now - self._started > SECONDS_TO_BEGIN
            return self._lost("WorkerDied: the worker did not begin") if late else None
        self._let_go = self._let_go or now
        if now - self._let_go > SECONDS_TO_SEND:
            return self._lost("WorkerDied: the worker ended without an answer")
        return None

    def _lost(self, reason: str) -> Ended:
        """The worker is lost: look for what it left."""
        assert self.order is not None
        order, late = self.order, self._late
        if (worker := self.give_up()) is not None:
            worker.end()
        attempt = self.outbox.get(order.task.job.key, order.token)
        if late and attempt is not None and attempt.failed:
            attempt = None
        if attempt is None:
            self.outbox.clear(order.task.job.key)
        self.outbox.drop(order.task.job.key, order.token)
        return Ended(order.task, attempt, None if attempt else late or reason)

    def _check_time(self, order: Order) -> None:
        """End a worker that takes too long: first asking, then not. Time is the driver's own,
        which stands still while a laptop sleeps."""
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
        """Forget the order and the worker, which the caller ends."""
        worker, self._worker, self.order = self._worker, None, None
        return worker
