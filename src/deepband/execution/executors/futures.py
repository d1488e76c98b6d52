"""Runs tasks by any `concurrent.futures.Executor`: a pool, MPI, Slurm, a cluster of Dask or Ray.

Whoever owns the workers, a task ends once here: with its result, or lost because its worker died,
shows no sign of life any more, or took too long. What a lost task still does is not wanted.
"""

from __future__ import annotations

import os
import queue
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pickle import PickleError
from typing import Any

from deepband.errors import DeepbandError, InputError, ObjectiveError, StorageError
from deepband.execution.executors.base import Ended, Timeout, check_seconds
from deepband.execution.executors.remote import Refused, RemoteOrder, run_remotely
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import SECONDS_SILENT, Outbox
from deepband.system.plain_files import create_file, file_names, remove_file

SECONDS_A_CHECK = 1.0
PROBES = ".driver-"


class Pool:
    """Somebody's executor, with what executors do not tell: how many tasks run at once, and how
    one that runs is ended."""

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.executor = executor
        self.workers = workers if workers is not None else getattr(executor, "_max_workers", None)
        if self.workers is None:
            raise InputError(
                f"{type(executor).__name__} does not tell how many tasks it runs at once: give "
                "workers."
            )

    def size(self) -> int:
        """How many tasks run at once."""
        return self.workers or 1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self.executor.submit(function, *arguments)

    def check(self) -> None:
        """Raise a DeepbandError if the pool is beyond repair: no task will be answered any more."""

    def end(self, future: Future[Any]) -> None:
        """End a task that runs for too long, if that can be done."""
        future.cancel()

    def close(self) -> None:
        """Let go of the executor; it is its owner's to shut down."""


@dataclass(slots=True)
class _Pending:
    order: RemoteOrder
    submitted: float
    begun: float | None = None
    """When the task was first seen to run, by this driver's clock."""
    beat: int = 0
    """When its job file was last touched, by that file system's clock."""
    heard: float = 0.0
    """When that was noticed here."""


class FuturesExecutor:
    """Tasks as futures of a pool."""

    def __init__(
        self, shipped: bytes | Objective, pool: Pool, outbox: Outbox, timeout: Timeout = None
    ) -> None:
        self.pool = pool
        self._shipped = shipped
        self._timeout = timeout
        self._folder = outbox.folder.resolve()
        self._outbox = outbox
        self._probe = f"{_probes()}{secrets.token_hex(8)}"
        self._make_probe()
        self._pending: dict[Future[Any], _Pending] = {}
        self._given_up: set[Future[Any]] = set()
        """Tasks that may still take the place of others."""
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._check_at = 0.0
        self._fault: DeepbandError | None = None
        self._broken = False
        """Whether the pool answers no more, though its workers may still be running tasks."""
        self._shared = False
        """Whether any worker was seen to use the study's folder."""

    def _make_probe(self) -> None:
        try:
            for name in file_names(self._folder):
                if name.startswith(PROBES) and not name.startswith(_probes()):
                    remove_file(self._folder, name)  # of a driver that was killed
            os.close(create_file(self._folder, self._probe))
        except OSError as error:
            raise StorageError(self._folder, f"cannot be written: {error}.") from error

    @property
    def free(self) -> int:
        self._given_up = {future for future in self._given_up if not future.done()}
        with self._breaks():
            self.pool.check()
            return max(0, self.pool.size() - len(self._pending) - len(self._given_up))

    def submit(self, task: Task) -> None:
        seconds = self._timeout(task.job.budget) if callable(self._timeout) else self._timeout
        check_seconds("timeout", seconds)
        token = secrets.token_hex(4)
        order = RemoteOrder(task, token, seconds, self._folder, self._probe, os.getpid())
        with self._breaks():
            self.pool.check()
            future = self.pool.submit(run_remotely, self._shipped, order)
        self._pending[future] = _Pending(order, time.monotonic())
        future.add_done_callback(self._done.put)

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            if self._fault is not None:
                raise self._fault
            with self._breaks():
                self.pool.check()
            left = max(0.0, end - time.monotonic())
            ended = self._answers(min(left, SECONDS_A_CHECK)) + self._overdue()
            if ended or time.monotonic() >= end:
                return ended

    def _answers(self, seconds: float) -> list[Ended]:
        """What the futures that are done answered, waiting so long for the first one."""
        ended = []
        with suppress(queue.Empty):
            future = self._done.get(timeout=seconds)
            while True:
                pending = self._pending.pop(future, None)
                if pending is not None:
                    with self._faults():
                        ended.append(self._answered(future, pending))
                future = self._done.get_nowait()
        return ended

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Keep an error that ends the run until the other results are taken."""
        try:
            yield
        except DeepbandError as error:
            self._fault = error

    @contextmanager
    def _breaks(self) -> Iterator[None]:
        """Note that the pool broke, and say so in words of ours."""
        try:
            yield
        except DeepbandError:
            self._broken = True
            raise
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            self._broken = True
            raise _broken(error) from error

    def close(self) -> None:
        """End the tasks that run. Those of a broken pool are left to the next driver instead, as
        if this one had died: they are out of reach, and their results are worth having."""
        for future, pending in self._pending.items() if not self._broken else ():
            self._disown(pending)
            future.cancel()
        with suppress(OSError):  # the next driver removes it
            (self._folder / self._probe).unlink(missing_ok=True)
        self.pool.close()

    def _answered(self, future: Future[Any], pending: _Pending) -> Ended:
        try:
            answer = future.result()
        except (ImportError, AttributeError, PickleError) as error:
            raise ObjectiveError([f"it cannot be loaded there: {error}"]) from error
        except (Exception, CancelledError) as error:
            with self._breaks():
                self.pool.check()
                if isinstance(error, BrokenExecutor):  # nobody knows whose fault it was
                    raise
            return self._lost(pending, f"WorkerDied: {type(error).__name__}: {error}")
        if isinstance(answer, Refused):
            raise _refusal(answer)
        return Ended(pending.order.task, answer)

    def _lost(self, pending: _Pending, reason: str) -> Ended:
        """A task without an answer: perhaps it left its result before its worker died."""
        order = pending.order
        attempt = self._outbox.get(order.task.job.key, order.token)
        self._disown(pending)
        return Ended(order.task, attempt, None if attempt else reason)

    def _overdue(self) -> list[Ended]:
        """Tasks that took too long, or whose workers are silent."""
        now = time.monotonic()
        if now < self._check_at:
            return []
        self._check_at = now + SECONDS_A_CHECK
        ended = []
        for future, pending in list(self._pending.items()):
            reason = None if future.done() else self._look(pending, now)
            if reason is not None:
                del self._pending[future]
                attempt = self._outbox.get(pending.order.task.job.key, pending.order.token)
                self._disown(pending)
                self.pool.end(future)
                self._given_up.add(future)
                ended.append(Ended(pending.order.task, attempt, None if attempt else reason))
        return ended

    def _look(self, pending: _Pending, now: float) -> str | None:
        """Why a task is given up, if it is."""
        order = pending.order
        with suppress(OSError):
            beat = self._outbox.job_file(order.task.job.key, order.token).stat().st_mtime_ns
            pending.begun = pending.begun or now
            if beat != pending.beat:
                pending.beat, pending.heard = beat, now
            self._shared = True
        # Where the folder is not shared, nobody sees a task begin.
        begun = pending.begun or (None if self._shared else pending.submitted)
        if order.seconds is not None and begun is not None and now - begun > order.seconds:
            return f"Timeout: it took more than {order.seconds:.6g} seconds"
        if pending.beat and now - pending.heard > SECONDS_SILENT:
            return f"WorkerDied: no sign of life for {SECONDS_SILENT:.6g} seconds"
        return None

    def _disown(self, pending: _Pending) -> None:
        """Want a task's result no more: a worker without its job file leaves none."""
        order = pending.order
        with suppress(StorageError):  # then a result may come that nobody takes
            self._outbox.drop(order.task.job.key, order.token)


def _probes() -> str:
    """How the names of this process's probes begin: another thread may run the study, too."""
    return f"{PROBES}{os.getpid()}-"


def _broken(error: Exception) -> DeepbandError:
    return DeepbandError(
        f"the executor takes no more tasks: {type(error).__name__}: {error}. What was recorded is "
        "kept. With `workers` instead of `executor`, workers may die."
    )


def _refusal(refused: Refused) -> DeepbandError:
    if refused.folder is None:
        return ObjectiveError([f"it cannot be loaded there: {refused.reason}"])
    return StorageError(
        refused.folder,
        f"is not shared by all workers: {refused.reason}. Checkpoints need a path that every "
        "worker sees: put the study on a shared file system, or give an objective that takes no "
        "context.",
    )
