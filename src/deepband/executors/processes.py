"""Runs tasks in processes that may die.

Every worker is a Pebble pool of one: a worker that is killed while it holds its pipe then breaks
no pipe but its own. Pebble starts processes and carries messages; who died is told by the lock
that a worker holds on its job, which the kernel drops with the process, whatever its exit code.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.spawn
import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from pebble import ProcessExpired, ProcessPool

from deepband.errors import ObjectiveError
from deepband.executors.base import Ended, Timeout, check_seconds
from deepband.executors.shipping import ship
from deepband.executors.working import Order, begin, work
from deepband.objective import Objective, Task
from deepband.outbox import Outbox, look
from deepband.records import Attempt

SECONDS_A_CHECK = 0.1
SECONDS_TO_TERMINATE = 2.0
SECONDS_TO_BEGIN = 60.0
SECONDS_TO_EXPIRE = 0.5
"""How long Pebble may take to notice that a worker died."""
SECONDS_TO_ANSWER = 10.0
"""How long a worker that has let go of its job may take to send the result."""


class ProcessExecutor:
    """So many worker processes, each ended with all that it started."""

    def __init__(
        self, objective: Objective, workers: int, outbox: Outbox, timeout: Timeout = None
    ) -> None:
        shipped = ship(objective)
        self._folder = outbox.folder
        self._timeout = timeout
        self._slots = [_Slot(number, shipped, outbox) for number in range(workers)]

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
            futures = [slot.future for slot in self._slots if slot.future is not None]
            if futures:  # not longer than a moment, because a timeout completes no future
                wait(futures, timeout=min(left, SECONDS_A_CHECK), return_when=FIRST_COMPLETED)
            else:
                time.sleep(left)
            ended = [ended for slot in self._slots if (ended := slot.look()) is not None]
            if ended or time.monotonic() >= end:
                return ended

    def close(self) -> None:
        ending = [slot.close() for slot in self._slots]
        for thread in ending:
            if thread is not None:
                thread.join(SECONDS_TO_ANSWER)


class _Slot:
    """A place for one worker, and the order it works on."""

    def __init__(self, number: int, shipped: bytes, outbox: Outbox) -> None:
        self.number = number
        self.shipped = shipped
        self.outbox = outbox
        self.order: Order | None = None
        self.future: Future[tuple[int, Attempt]] | None = None
        self._pool: ProcessPool | None = None
        self._pid = 0
        self._started = 0.0
        self._seen: float | None = None
        """Since when the worker was seen to run the order."""
        self._let_go: float | None = None
        """Since when the worker does not hold its job any more, though it has not answered."""
        self._late: str | None = None
        self._kill_at = 0.0

    def start(self, order: Order) -> None:
        if self._pool is None:
            now = (self.shipped, dict(os.environ), os.getcwd())
            self._pool = ProcessPool(
                max_workers=1, initializer=begin, initargs=now, context=_CONTEXT
            )
        self.order, self._let_go, self._late, self._seen = order, None, None, None
        self._started = time.monotonic()
        self.future = self._pool.schedule(work, args=(order,))

    def look(self) -> Ended | None:
        """What became of the order, if it has ended."""
        if self.order is None or self.future is None:
            return None
        if self.future.done():
            return self._answered(self.future)
        running = look(self.outbox.job_file(self.order.task.job.key, self.order.token))
        if running is not None:
            self._pid, self._seen = running.pid, self._seen or time.monotonic()
        if running is not None and running.held:
            self._let_go = None
            self._check_time(self.order)
        elif running is not None and self._has_let_go_for(SECONDS_TO_EXPIRE):
            # It died in the middle. Pebble says how before this, unless the exit code was 0.
            return self._lost("WorkerDied: the worker ended without a result")
        elif self._seen and self._has_let_go_for(SECONDS_TO_ANSWER):
            return self._lost("WorkerDied: the worker ended without an answer")
        elif not self._seen and time.monotonic() - self._started > SECONDS_TO_BEGIN:
            return self._lost("WorkerDied: the worker did not begin")
        return None

    def _has_let_go_for(self, seconds: float) -> bool:
        """Whether it is so long since the worker was seen to hold its job."""
        if self._let_go is None:
            self._let_go = time.monotonic()
        return time.monotonic() - self._let_go > seconds

    def _answered(self, future: Future[tuple[int, Attempt]]) -> Ended:
        assert self.order is not None
        try:
            self._pid, attempt = future.result()
        except ProcessExpired as death:
            return self._lost(f"WorkerDied: the worker ended with {_how(death)}")
        except (CancelledError, BrokenExecutor, OSError) as error:
            # The worker, not the objective, is at fault: it died before it began, say.
            return self._lost(f"WorkerDied: {type(error).__name__}: {error}")
        except Exception as error:  # the objective could not even be loaded there
            raise ObjectiveError([f"{type(error).__name__}: {error}"]) from error
        if self._late and attempt.loss is None:  # it failed because it was told to end
            return self._lost(self._late)
        ended = Ended(self.order.task, attempt)
        self.order, self.future = None, None
        return ended

    def _lost(self, reason: str) -> Ended:
        """The worker is gone: look for what it left, and start anew."""
        assert self.order is not None
        order = self.order
        self.close()
        attempt = self.outbox.get(order.task.job.key, order.token)
        if self._late and attempt is not None and attempt.loss is None:
            attempt = None
        if attempt is None:
            self.outbox.clear(order.task.job.key)
        self.outbox.job_file(order.task.job.key, order.token).unlink(missing_ok=True)
        return Ended(order.task, attempt, None if attempt else self._late or reason)

    def _check_time(self, order: Order) -> None:
        """End a worker that takes too long: first asking, then not. Time is the driver's own,
        which stands still while a laptop sleeps."""
        now = time.monotonic()
        if order.seconds is None or now - (self._seen or now) < order.seconds:
            return
        if self._late is None:
            self._late = f"Timeout: it took more than {order.seconds:.6g} seconds"
            self._kill_at = now + SECONDS_TO_TERMINATE
            _signal_group(self._pid, signal.SIGTERM)
        elif now > self._kill_at:
            _signal_group(self._pid, signal.SIGKILL)
            if self.future is not None:
                self.future.cancel()  # Pebble knows the process, even if its file does not

    def close(self) -> threading.Thread | None:
        """End the worker and all that it started. When the thread ends, it is gone."""
        if self.order is not None:
            running = look(self.outbox.job_file(self.order.task.job.key, self.order.token))
            self._pid = running.pid if running else self._pid
        _signal_group(self._pid, signal.SIGKILL)
        pool, future = self._pool, self.future
        self._pool, self.order, self.future, self._pid = None, None, None, 0
        if pool is None:
            return None
        if future is not None:
            future.cancel()
        pool.stop()  # type: ignore[no-untyped-call] # Pebble has few types
        thread = threading.Thread(target=pool.join, daemon=True)
        thread.start()
        return thread


def _how(death: ProcessExpired) -> str:
    code = death.exitcode
    return f"signal {-code}" if isinstance(code, int) and code < 0 else f"exit code {code}"


def _signal_group(pid: int, number: signal.Signals) -> None:
    if pid > 0:  # 0 would be our own
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


class _Process(ForkServerProcess):
    """A process that does not import the user's main script again: what it needs of it travels
    with the objective, and a script without a guard would run itself anew."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 # the name is multiprocessing's
        original = multiprocessing.spawn.get_preparation_data

        def without_main(name: str) -> dict[str, Any]:
            data = original(name)
            return {key: value for key, value in data.items() if not key.startswith("init_main")}

        with _POPEN:
            multiprocessing.spawn.get_preparation_data = without_main
            try:
                return ForkServerProcess._Popen(process_obj)
            finally:
                multiprocessing.spawn.get_preparation_data = original


class _Context(ForkServerContext):
    """Workers are forked from a server that has loaded what they need and has no threads."""

    Process = _Process


_POPEN = threading.Lock()
_CONTEXT = _Context()
_CONTEXT.set_forkserver_preload(["deepband.executors.working"])
