"""A study as the loop uses it when several processes share it: jobs are leased one by one.

Every step locks the study for a moment and first reads what other processes have written. A thread
renews the leases of the jobs that are running. When a process has died, another one takes over what
it left: results that were not recorded, and workers that are still running.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

from deepband.core.facts import JobKey, Outcome
from deepband.core.leases import abandoned_jobs, read_token
from deepband.core.records import Attempt, Job
from deepband.core.state import State
from deepband.errors import BusyWarning, DeepbandError, LockedError, show_warning
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.execution.outbox import Outbox
from deepband.execution.progress import Meter
from deepband.execution.runner import RunOptions, run_jobs
from deepband.execution.training_watch import TrainingWatch
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep
from deepband.study.fact_log import SECONDS_TO_WAIT
from deepband.study.leased_jobs import (
    end_dead_leases,
    is_taken_over,
    lease_keys,
    release_leased,
    running_keys,
)
from deepband.study.session import Session
from deepband.system.process_identity import this_process

SECONDS_OF_LEASE = 300.0
SECONDS_TO_RENEW = 60.0
"""How long a lease lasts, and how often it is renewed. If the host of a process is lost, its jobs
wait that long; on the same host, other processes notice that it has ended."""
SHORTEST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds between two looks while all remaining jobs are leased to others."""

Found = TypeVar("Found")


class LeasingSession:
    """Jobs of an open study that are leased to this process while they run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[JobKey, Job] = {}
        """The jobs that are leased to this process."""
        self._patience = SECONDS_TO_WAIT
        self._pause = SHORTEST_WAIT
        self._succeeded = _successes(session.state)
        """How many evaluations had succeeded at first, with those of this process."""
        self.has_leftovers = False

    # What it is

    @property
    def state(self) -> State:
        return self._session.state

    @property
    def learns(self) -> bool:
        return self._session.learns

    @property
    def parallel(self) -> int | None:
        return self._session.parallel

    @property
    def persistent(self) -> bool:
        return self._session.persistent

    @property
    def maximize(self) -> bool:
        return self._session.maximize

    @property
    def keep(self) -> Keep:
        return self._session.keep

    @property
    def files(self) -> Path:
        return self._session.files

    @property
    def checkpoints(self) -> Checkpoints:
        return self._session.checkpoints

    @property
    def done(self) -> bool:
        return self._session.done

    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None:
        return self._session.read_state(function, seconds)

    def meter(self, workers: int, begun: float) -> Meter:
        return self._session.meter(workers, begun)

    def resumable(self, job: Job) -> list[int]:
        return self._session.resumable(job)

    def seed(self, job: Job) -> int:
        return self._session.seed(job)

    def watch(self, job: Job) -> TrainingWatch | None:
        return self._session.watch(job)

    # Jobs

    def lock(self) -> None:
        """Read what other processes have written. The study stays unlocked."""
        with self.turn():
            pass

    @property
    def has_ready_job(self) -> bool:
        with self.turn():
            return self._session.has_ready_job

    def ask(self) -> Job | None:
        return next(iter(self._lease(self._startable)), None)

    def ready_batch(self) -> list[JobKey]:
        with self.turn():
            keys = self._available(None)
        lowest = min((rung for _, _, rung in keys), default=0)
        return [key for key in keys if key[2] == lowest]

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        return self._lease(lambda: self._session.ready_among(keys))

    def expects(self, job: Job) -> bool:
        return self._session.expects(job)

    def release(self, job: Job) -> None:
        with self.turn():
            release_leased(self._session, self._held.pop(job.key, job))

    def record_outcomes(
        self, pairs: Iterable[tuple[Job, Outcome]], origin: str | None = None
    ) -> None:
        pairs = list(pairs)
        with self.turn():
            self._session.record_outcomes(pairs, origin)
        for job, outcome in pairs:
            self._held.pop(job.key, None)
            self._succeeded += outcome.succeeded

    def _lease(self, choose: Callable[[], list[JobKey]]) -> list[Job]:
        with self.turn():
            until = time.time() + SECONDS_OF_LEASE
            jobs = lease_keys(self._session, choose(), this_process(), until)
            self._held |= {job.key: job for job in jobs}
        if jobs:
            self._pause = SHORTEST_WAIT
        return jobs

    def _startable(self) -> list[JobKey]:
        return self._available(1)

    def _available(self, limit: int | None) -> list[JobKey]:
        """The jobs that can start, at most this many, without those that a process which has ended
        left results or workers for: the loop takes them over first."""
        keys = self._session.startable(limit)
        if not keys and end_dead_leases(self._session):
            keys = self._session.startable(None)
        left = set(abandoned_jobs(self.state, time.time())).intersection(keys)
        traces = self._traces() & left if left else left
        self.has_leftovers = bool(traces)
        if not traces:
            return keys[:limit]
        return [key for key in self._session.startable(None) if key not in traces][:limit]

    def _traces(self) -> set[JobKey]:
        """The jobs that any process has left results for, or a worker that is running."""
        if not self.persistent:
            return set()
        waiting = Outbox(self.files).waiting()
        return running_keys(self._session) | {each.job.key for one in waiting for each in one}

    # Other processes

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lock the study for a moment. At first, a process that has locked it for long is an error;
        later, when there may be results to record, it is waited for."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._session.turn(SECONDS_TO_WAIT))
            except LockedError as error:
                if self._patience < float("inf"):
                    raise
                show_warning(f"{error.args[0]} deepband waits until it is unlocked.", BusyWarning)
                stack.enter_context(self._session.turn(float("inf")))
            self._patience = float("inf")
            yield

    @property
    def any_succeeded(self) -> bool:
        return _successes(self.state) > self._succeeded

    def is_taken(self, key: JobKey) -> bool:
        return self.state.is_leased(key, time.time())

    def wanted(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        found = [attempt for attempt in attempts if self._is_wanted(attempt)]
        for attempt in attempts:
            self._held.pop(attempt.job.key, None)
        return found

    def _is_wanted(self, attempt: Attempt) -> bool:
        """Whether no other process has recorded the job. A failure after the end of the lease is
        not wanted either if another process may have taken the folder of the job."""
        job = attempt.job
        if not self._session.expects(job):
            return False
        held = self._held.get(job.key)
        return not (attempt.outcome.failed and held and is_taken_over(self._session, held))

    def wait(self) -> bool:
        if self.has_leftovers:
            return True
        if not any(map(self.is_taken, self.state.leases)):
            return self.has_ready_job  # of a lease that has just ended
        time.sleep(self._pause)
        self._pause = min(1.5 * self._pause, LONGEST_WAIT)
        return True

    @contextmanager
    def renewing(self) -> Iterator[None]:
        """Renew the leases of jobs that are running, in a thread."""
        stop = Event()
        thread = Thread(target=self._renew_until, args=[stop], name="deepband leases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _renew_until(self, stop: Event) -> None:
        while not stop.wait(SECONDS_TO_RENEW):
            with suppress(DeepbandError):  # the loop meets it, too
                self.renew()

    def renew(self) -> None:
        """Extend the leases of the jobs that are running, unless another process has them now."""
        with self._session.turn():
            until, leases = time.time() + SECONDS_OF_LEASE, self.state.leases
            held = list(self._held.values())
            jobs = [job for job in held if not is_taken_over(self._session, job)]
            known = [(job, leases.get(job.key, {}).get(read_token(job.token)[1])) for job in jobs]
            facts = [each._replace(jobs=(job.key,), until=until) for job, each in known if each]
            if facts:
                self._session.renew(facts)


def _successes(state: State) -> int:
    """How many evaluations of the study neither failed nor diverged."""
    return sum(result.succeeded for result in state.all_results())


def work(session: Session, objective: Objective, limits: Limits, options: RunOptions) -> None:
    """Run jobs of a study, together with other processes, until the current run is done or a limit
    is reached."""
    assert session.space is not None  # imports what sampling needs, while the study is not locked
    leasing = LeasingSession(session)
    with leasing.renewing():
        run_jobs(leasing, objective, limits, options, leasing)
