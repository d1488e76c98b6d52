"""The loop that keeps workers busy until the run is done, a limit is reached or something fails.

An exception or NaN is a result of the config and is recorded at once. But if the first evaluations
of a call all fail, the objective is at fault: nothing is recorded then, so that a typo does not
spoil the study. A job whose worker died says nothing about its config and is run again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Protocol, TypeVar

from deepband.analysis.durations import trained
from deepband.analysis.summary import cost_left
from deepband.core import hyperband
from deepband.core.facts import JobKey, Outcome
from deepband.core.records import Attempt, Job
from deepband.core.state import State
from deepband.errors import DeepbandError, ObjectiveError, StorageError
from deepband.execution.executors.base import Ended, Executor
from deepband.execution.limits import Limits
from deepband.execution.objective import Context, Task
from deepband.execution.orphans import Orphans
from deepband.execution.outbox import Outbox
from deepband.execution.pace import Started
from deepband.execution.progress import Meter
from deepband.execution.pruner import Pruner
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep
from deepband.system.interrupts import Interrupts

FIRST_FAILURES = 3
POLL_SECONDS = 0.1
Found = TypeVar("Found")
PLAIN = {str, int, float, bool, type(None)}
"""Types of values that can be pickled without cloudpickle."""


class JobSession(Protocol):
    """The part of an open study that the loop uses: jobs to run, and recording their outcomes."""

    @property
    def state(self) -> State: ...
    @property
    def keep(self) -> Keep: ...
    @property
    def maximize(self) -> bool: ...
    @property
    def learns(self) -> bool: ...
    @property
    def group(self) -> int | None: ...
    @property
    def persistent(self) -> bool: ...
    @property
    def files(self) -> Path: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def done(self) -> bool: ...
    @property
    def has_ready_job(self) -> bool: ...
    def lock(self) -> None: ...
    def ask(self) -> Job | None: ...
    def reserve(self, keys: Iterable[JobKey]) -> list[Job]: ...
    def expects(self, job: Job) -> bool: ...
    def release(self, job: Job) -> None: ...
    def record_outcomes(self, pairs: Iterable[tuple[Job, Outcome]]) -> None: ...
    def resumable(self, job: Job) -> list[int]: ...
    def seed(self, job: Job) -> int: ...
    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None: ...
    def meter(self, workers: int, begun: float) -> Meter: ...


class Loop:
    """Carries jobs from a study to an executor, and results back."""

    def __init__(
        self,
        session: JobSession,
        executor: Executor,
        checkpoints: Checkpoints | None,
        *,
        limits: Limits,
        retries: int = 0,
        first_failures: int = FIRST_FAILURES,
        outbox: Outbox | None = None,
        wait: bool = True,
    ) -> None:
        self.session = session
        self.executor = executor
        self.checkpoints = checkpoints
        self.limits = limits
        self.retries = retries
        self.first_failures = first_failures
        self.outbox = outbox
        self.recorded: Callable[[], None] | None = None
        """Called after each commit of results."""
        self.running: dict[JobKey, Started] = {}
        """The jobs that have no result yet. Other threads may read it."""
        self._wait = wait
        self._orphans: Orphans | None = None
        self._losses: Counter[JobKey] = Counter()
        """How often a job's worker was lost."""
        self._faults: Counter[JobKey] = Counter()
        """How often a job failed because of the machine."""
        self._held: list[Attempt] = []
        """Outcomes that are not recorded yet: for a moment, or as long as there are only first
        failures."""
        self._trusted = not first_failures
        self._stopping = False
        self._pruner = Pruner(session, checkpoints) if checkpoints else None
        self._ahead: Iterator[JobKey] = iter(())
        if limits.ahead_limit != 0:
            self._ahead = hyperband.jobs_ahead(session.state)

    def run(self, interrupts: Interrupts) -> None:
        """Run until there is nothing left to do. After an interrupt, running jobs finish; a second
        interrupt ends them."""
        try:
            if self.outbox:
                self._orphans = self._recover(self.outbox)
            self._sweep()
            while not interrupts.at_once:
                self._stopping = self._stopping or interrupts.asked or self.limits.out_of_time()
                self._fill()  # first, so that workers are busy while results are recorded
                self._record_trusted()
                self._fill()
                self._fill_ahead()
                if self._is_idle():
                    if not self._settle():
                        break
                    continue
                self._collect(self.executor.wait(POLL_SECONDS))
                self._record_orphans()
            self._record()
        except (DeepbandError, KeyboardInterrupt):
            with suppress(DeepbandError):  # results that arrived before the error
                self._record_trusted()
            raise
        finally:
            self.executor.close()
            self._release_running()
            self._sweep()

    def _is_idle(self) -> bool:
        """Whether there is nothing to wait for, not even room for a job that is ready."""
        if self.session.done:
            return True
        crowded = not self._stopping and not self.executor.free
        return not self.running and not (crowded and self.session.has_ready_job)

    def _recover(self, outbox: Outbox) -> Orphans:
        """Record what workers left while there was no driver, and find those still running."""
        outbox.sweep()
        orphans = Orphans(outbox)
        if not self._wait:
            orphans.give_up()
        for job in self.session.reserve(orphans.keys):  # so that they are not handed out again
            since = time.monotonic() - orphans.seconds(job.key)
            self.running[job.key] = Started(job, since)
        for attempt in outbox.waiting():
            if attempt.job.key in orphans.keys:
                continue  # its worker is about to end, and the result is recorded then
            reserved = self.session.reserve([attempt.job.key])
            if reserved and self.session.expects(attempt.job):
                self._judge(attempt)
                continue
            for job in reserved:
                self.session.release(job)
            if self._pruner:
                self._pruner.prune_recorded(attempt.job)
            outbox.clear(attempt.job.key)
        return orphans

    def _record_orphans(self) -> None:
        """Record the results of orphans that have ended, and release the jobs of those that left
        none."""
        for key, attempt in self._orphans.ended() if self._orphans else ():
            started = self.running.pop(key, None)
            if started is not None and attempt is not None and self.session.expects(attempt.job):
                self._judge(attempt)
                continue
            if self.outbox:
                self.outbox.clear(key)
            if started is not None:
                self.session.release(started.job)

    def _fill(self) -> None:
        """Start as many jobs as the executor has room for."""
        while not self._stopping and self.executor.free and (job := self.session.ask()):
            self.running[job.key] = Started(job, time.monotonic())
            task = self._task(job)
            again = self._losses[job.key] or self._faults[job.key]
            if again or self.limits.spend(self._cost(task)):
                self.executor.submit(task)
            else:
                self._stopping = True
                self._hand_back(job)

    def _fill_ahead(self) -> None:
        """Use workers that the current run leaves idle for jobs of the next one."""
        while not self._stopping and self.executor.free and not self.session.done:
            key = next(self._ahead, None)
            if key is None:
                return
            for job in self.session.reserve([key]):
                self.running[job.key] = Started(job, time.monotonic())
                budget = self.session.state.schedule.charge(job.rung)
                if self.limits.spend_ahead(budget, cost_left(self.session.state)):
                    self.executor.submit(self._task(job))
                else:
                    self._ahead = iter(())
                    self._hand_back(job)

    def _cost(self, task: Task) -> Fraction:
        """What a task trains: the budget of its rung, less that of the checkpoint it resumes
        from."""
        begun = task.context.previous_rung if task.context else None
        return trained(self.session.state.schedule, task.job.rung, begun)

    def _hand_back(self, job: Job) -> None:
        """Release a job that was not started."""
        del self.running[job.key]
        self.session.release(job)

    def _settle(self) -> bool:
        """When nothing runs, record unconfirmed failures, if that may make more jobs ready."""
        if self._stopping or not self._held:
            return False
        self._record()
        return True

    def _collect(self, all_ended: Sequence[Ended]) -> None:
        for ended in all_ended:
            job = self.running.pop(ended.task.job.key).job
            attempt = ended.attempt or self._lose(job, ended.lost or "")
            if attempt is not None and attempt.environment:
                self._try_again(attempt)
            elif attempt is not None:
                self._judge(attempt)

    def _try_again(self, attempt: Attempt) -> None:
        """Run a job again that failed because of the machine, once; then stop. The second attempt
        has a new worker, because the first one may have leaked what is missing."""
        self._faults[attempt.job.key] += 1
        self.session.release(attempt.job)
        if self._faults[attempt.job.key] > 1:
            reason = (attempt.outcome.error or "").partition("\n")[0]
            raise StorageError(
                self.session.files,
                f"the objective failed twice because of the machine, not of its config: {reason}. "
                "Nothing was recorded for it. Free what is missing (disk space, quota, open files) "
                "and run again to continue.",
            )

    def _lose(self, job: Job, lost: str) -> Attempt | None:
        """Release a lost job, or after too many losses count it as failed."""
        self._losses[job.key] += 1
        if self._losses[job.key] > self.retries:
            return Attempt(job, Outcome(None, lost))
        self.session.release(job)
        return None

    def _judge(self, attempt: Attempt) -> None:
        self._held.append(attempt)
        if not attempt.outcome.failed:
            self._trusted = True
        elif not self._trusted and len(self._held) >= self.first_failures:
            self._disown()
            raise ObjectiveError(
                [each.outcome.error or "" for each in self._held], _hint(self._held[0])
            )

    def _disown(self) -> None:
        """End all running jobs and remove their results: the objective is at fault."""
        self.executor.close()
        if self.outbox:
            for key in (*self.running, *(attempt.job.key for attempt in self._held)):
                self.outbox.clear(key)

    def _record_trusted(self) -> None:
        """Record the outcomes, unless there are only first failures."""
        if self._trusted:
            self._record()

    def _record(self) -> None:
        """Record all outcomes; from now on, failures are recorded at once."""
        attempts, self._trusted = list(self._held), True
        if not attempts:
            return
        self._accept(attempts)
        self.session.record_outcomes((each.job, each.outcome) for each in attempts)
        self._held.clear()
        for attempt in attempts:
            if self._pruner:
                self._pruner.prune(attempt.job)
            if self.outbox:
                self.outbox.clear(attempt.job.key)
        if self.recorded:
            self.recorded()

    def _accept(self, attempts: Sequence[Attempt]) -> None:
        """Turn what attempts saved into the checkpoints of their jobs."""
        for attempt in attempts:
            if self.checkpoints and attempt.saved is not None:
                with suppress(OSError):  # then it has a result without a checkpoint
                    self.checkpoints.accept(attempt.job.key, attempt.saved)

    def _sweep(self) -> None:
        """Remove what attempts saved for jobs that are no longer open. A job ahead may have left
        its result as the run ended, or may still run on an executor that cannot end it: the next
        call records it, with its checkpoint."""
        if self.checkpoints:
            state = self.session.state
            with suppress(OSError, StorageError):
                waiting = self.outbox.waiting() if self.outbox else []
                running = self.outbox.running() if self.outbox else []
                spared = {attempt.job.key for attempt in waiting} | {each.key for each in running}
                self.checkpoints.sweep(lambda key: key in spared or hyperband.is_open(state, *key))

    def _release_running(self) -> None:
        """Release the jobs that have no recorded result."""
        running = [started.job for started in self.running.values()]
        for job in [*running, *(each.job for each in self._held)]:
            with suppress(DeepbandError):  # the file is gone: what ended the run says so
                self.session.release(job)

    def _task(self, job: Job) -> Task:
        context = self._context(job) if self.checkpoints else None
        if not PLAIN.issuperset(map(type, job.config.values())):
            from deepband.execution.executors.serialization import (
                CarriedConfig,  # loads cloudpickle
            )

            job = job._replace(config=CarriedConfig(job.config))
        return Task(job, context, self.session.maximize, keeps=self.session.keep != Keep(False, 0))

    def _context(self, job: Job) -> Context:
        assert self.checkpoints is not None
        state, key = self.session.state, job.key
        nearest = self.checkpoints.nearest(key, self.session.resumable(job))
        rung, previous = nearest or (None, None)
        try:
            path, partial = self.checkpoints.begin(key)
        except OSError as error:
            raise StorageError(
                self.checkpoints.folder, f"cannot store checkpoints: {error}."
            ) from error
        return Context(
            seed=self.session.seed(job),
            path=path,
            previous=previous,
            previous_budget=0 if rung is None else state.run.budgets[rung],
            previous_rung=rung,
            partial=partial,
        )


def _hint(failed: Attempt) -> str:
    """The likely cause of a failure, if it is a fractional budget used as a count."""
    budget, error = failed.job.budget, failed.outcome.error or ""
    if isinstance(budget, int) or "as an integer" not in error:
        return ""
    return (
        f"The budget of the first one is {budget:.6g}, which is not a whole number: make the study "
        "with integer_budgets=True, or use int(budget). "
    )
