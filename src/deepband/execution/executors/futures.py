"""An executor on top of any `concurrent.futures.Executor`: a pool, MPI, Slurm, Dask or Ray.

Every task ends exactly once: with its result, or lost because its worker died, sent no heartbeat
or took too long. Whatever a lost task still returns is ignored.
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
from deepband.execution.batch import Answer
from deepband.execution.executors.base import Ended, Timeout, ends, seconds_allowed
from deepband.execution.executors.remote import Refused, RemoteOrder, run_remotely
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import SECONDS_SILENT, Outbox
from deepband.system.plain_files import create_file, file_names, remove_file

SECONDS_BETWEEN_CHECKS = 1.0
PROBES = ".driver-"


class Pool:
    """An executor of another library, with what its interface lacks: the number of tasks that run
    concurrently, and a way to end a running task."""

    def __init__(self, executor: Executor, workers: int | None = None) -> None:
        self.executor = executor
        self.workers = workers if workers is not None else getattr(executor, "_max_workers", None)
        if self.workers is None:
            raise InputError(
                f"{type(executor).__name__} does not say how many tasks it runs concurrently: give "
                "`workers`."
            )

    def size(self) -> int:
        """The number of tasks that run concurrently."""
        return self.workers or 1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self.executor.submit(function, *arguments)

    def check(self) -> None:
        """Raise a DeepbandError if the pool is broken, so that no task will ever return."""

    def end(self, future: Future[Any]) -> None:
        """End a task that takes too long, if that is possible."""
        future.cancel()

    def close(self) -> None:
        """Release the executor, but do not shut it down: it belongs to the user."""


@dataclass(slots=True)
class _Pending:
    order: RemoteOrder
    submitted: float
    started: float | None = None
    """When the task was first seen running, on the driver's clock."""
    heartbeat: int = 0
    """When its job file was last touched, on the file system's clock."""
    heard: float = 0.0
    """When that heartbeat was noticed, on the driver's clock."""


class FuturesExecutor:
    """Runs tasks as futures of a pool."""

    def __init__(
        self,
        shipped: bytes | Objective,
        pool: Pool,
        outbox: Outbox,
        timeout: Timeout = None,
        gpu: bool = False,
    ) -> None:
        self.pool = pool
        self._gpu = gpu
        """Whether each call has a GPU."""
        self._shipped = shipped
        self._timeout = timeout
        self._folder = outbox.folder.resolve()
        self._outbox = outbox
        self._probe = f"{_probes()}{secrets.token_hex(8)}"
        self._make_probe()
        self._pending: dict[Future[Any], _Pending] = {}
        self._given_up: set[Future[Any]] = set()
        """Lost tasks that may still occupy a worker."""
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._check_at = 0.0
        self._error: DeepbandError | None = None
        self._broken = False
        """Whether the pool is out of reach, although its workers may still be running tasks."""
        self._shared = False
        """Whether any worker is known to share the study's folder."""

    def _make_probe(self) -> None:
        try:
            for name in file_names(self._folder):
                if name.startswith(PROBES) and not name.startswith(_probes()):
                    remove_file(self._folder, name)  # left by a driver that was killed
            os.close(create_file(self._folder, self._probe))
        except OSError as error:
            raise StorageError(self._folder, f"cannot be written: {error}.") from error

    @property
    def free(self) -> int:
        self._given_up = {future for future in self._given_up if not future.done()}
        with self._pool_errors():
            self.pool.check()
            return max(0, self.pool.size() - len(self._pending) - len(self._given_up))

    def submit(self, tasks: Sequence[Task]) -> None:
        seconds, token = seconds_allowed(self._timeout, tasks), secrets.token_hex(4)
        order = RemoteOrder(
            tasks, token, seconds, self._folder, self._probe, os.getpid(), self._gpu
        )
        with self._pool_errors():
            self.pool.check()
            future = self.pool.submit(run_remotely, self._shipped, order)
        self._pending[future] = _Pending(order, time.monotonic())
        future.add_done_callback(self._done.put)

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            if self._error is not None:
                raise self._error
            with self._pool_errors():
                self.pool.check()
            left = max(0.0, end - time.monotonic())
            ended = self._answers(min(left, SECONDS_BETWEEN_CHECKS)) + self._overdue()
            if ended or time.monotonic() >= end:
                return ended

    def _answers(self, seconds: float) -> list[Ended]:
        """The results of futures that are done. Waits this long for the first one."""
        ended: list[Ended] = []
        with suppress(queue.Empty):
            future = self._done.get(timeout=seconds)
            while True:
                pending = self._pending.pop(future, None)
                if pending is not None:
                    try:
                        ended += self._answered(future, pending)
                    except DeepbandError as error:  # raised once the other results are returned
                        self._error = error
                future = self._done.get_nowait()
        return ended

    @contextmanager
    def _pool_errors(self) -> Iterator[None]:
        """Mark the pool as broken, and raise errors of the pool as DeepbandErrors."""
        try:
            yield
        except DeepbandError:
            self._broken = True
            raise
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            self._broken = True
            raise _broken(error) from error

    def close(self) -> None:
        """Cancel the running tasks. Those of a broken pool cannot be reached: they continue, as if
        the driver had died, and the next driver records their results."""
        for future, pending in self._pending.items() if not self._broken else ():
            self._disown(pending)
            future.cancel()
        with suppress(OSError):  # the next driver removes it
            (self._folder / self._probe).unlink(missing_ok=True)
        self.pool.close()

    def _answered(self, future: Future[Any], pending: _Pending) -> list[Ended]:
        try:
            answer = future.result()
        except (ImportError, AttributeError, PickleError) as error:
            raise ObjectiveError([f"a worker cannot load the objective: {error}"]) from error
        except (Exception, CancelledError) as error:
            with self._pool_errors():
                self.pool.check()
                if isinstance(error, BrokenExecutor):  # it may not be this task's fault
                    raise
            return self._lost(pending, f"WorkerDied: {type(error).__name__}: {error}")
        if isinstance(answer, Refused):
            raise _refusal(answer)
        return ends(pending.order.tasks, answer)

    def _lost(self, pending: _Pending, reason: str) -> list[Ended]:
        """Tasks that returned nothing; their worker may have written results before it died."""
        order = pending.order
        attempts = self._outbox.get(order.keys, order.token)
        self._disown(pending)
        return ends(order.tasks, Answer(attempts, lost=reason))

    def _overdue(self) -> list[Ended]:
        """Tasks that took too long, or whose worker sends no heartbeats."""
        now = time.monotonic()
        if now < self._check_at:
            return []
        self._check_at = now + SECONDS_BETWEEN_CHECKS
        ended: list[Ended] = []
        for future, pending in list(self._pending.items()):
            reason = None if future.done() else self._why_lost(pending, now)
            if reason is not None:
                del self._pending[future]
                ended += self._lost(pending, reason)
                self.pool.end(future)
                self._given_up.add(future)
        return ended

    def _why_lost(self, pending: _Pending, now: float) -> str | None:
        """The reason to give up a task, if there is one."""
        order = pending.order
        with suppress(OSError):
            heartbeat = self._outbox.job_file(order.key, order.token).stat().st_mtime_ns
            pending.started = pending.started or now
            if heartbeat != pending.heartbeat:
                pending.heartbeat, pending.heard = heartbeat, now
            self._shared = True
        # Without a shared folder, the start of a task cannot be observed.
        started = pending.started or (None if self._shared else pending.submitted)
        if order.seconds is not None and started is not None and now - started > order.seconds:
            return f"Timeout: it took more than {order.seconds:.6g} seconds"
        if pending.heartbeat and now - pending.heard > SECONDS_SILENT:
            return f"WorkerDied: no heartbeat for {SECONDS_SILENT:.6g} seconds"
        return None

    def _disown(self, pending: _Pending) -> None:
        """Remove the job file of a task, without which its worker writes no result."""
        order = pending.order
        with suppress(StorageError):  # a late result is ignored anyway
            self._outbox.drop(order.key, order.token)


def _probes() -> str:
    """The common prefix of this process's probes. Several of its threads may run the study."""
    return f"{PROBES}{os.getpid()}-"


def _broken(error: Exception) -> DeepbandError:
    return DeepbandError(
        f"the executor accepts no more tasks: {type(error).__name__}: {error}. Recorded results "
        "are kept. Use `workers` instead of `executor` to survive the death of a worker."
    )


def _refusal(refused: Refused) -> DeepbandError:
    if refused.folder is None:
        return ObjectiveError([f"a worker cannot load the objective: {refused.reason}"])
    return StorageError(
        refused.folder,
        f"is not shared by all workers: {refused.reason}. Checkpoints need a folder that every "
        "worker can access: put the study on a shared file system, or use an objective without a "
        "context.",
    )
