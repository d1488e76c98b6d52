"""Keeps workers busy until the run is done, a limit is reached or something fails.

A raised exception or NaN is a verdict about a config and is recorded at once. But if the very
first evaluations of a call all fail, the objective is at fault: nothing is recorded then, so that
a typo does not poison the study. A job whose worker died is no verdict: it is tried again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING

from deepband import hyperband
from deepband.checkpoints import Checkpoints, Keep, superfluous
from deepband.errors import DeepbandError, InputError, ObjectiveError, StorageError, shown
from deepband.executors.base import Ended, Executor
from deepband.facts import JobKey
from deepband.interrupts import Interrupts
from deepband.objective import Context, Task, training_seed
from deepband.orphans import Orphans
from deepband.outbox import Outbox
from deepband.records import Attempt, Job
from deepband.report import cost_left

if TYPE_CHECKING:
    from deepband.study import Study

FIRST_FAILURES = 3
SECONDS_A_LOOK = 0.1


@dataclass(slots=True)
class Limits:
    """When to stop before the run is done. Cost counts what is really trained."""

    max_seconds: float | None = None
    max_cost: float | None = None
    ahead_limit: float | None = 0
    """How much of `cost` may be spent ahead of the next run."""
    start: float = field(default_factory=time.monotonic)
    cost: float = 0.0
    ahead: float = 0.0

    def __post_init__(self) -> None:
        for name in ("max_seconds", "max_cost", "ahead_limit"):
            limit = getattr(self, name)
            number = isinstance(limit, Real) and not isinstance(limit, bool)
            if limit is not None and not (number and limit >= 0):
                raise InputError(f"{name} is {shown(limit)}: give a number of 0 or more.")

    def out_of_time(self) -> bool:
        return self.max_seconds is not None and time.monotonic() - self.start >= self.max_seconds

    def spend(self, budget: float) -> bool:
        """Count a budget, unless it would go beyond the limit."""
        if self.max_cost is not None and self.cost + budget > self.max_cost:
            return False
        self.cost += budget
        return True

    def spend_ahead(self, budget: float, needed: Fraction) -> bool:
        """The same for a job ahead, which has a limit of its own and leaves the current run what
        that still needs."""
        if self.ahead_limit is not None and self.ahead + budget > self.ahead_limit:
            return False
        if self.max_cost is not None and self.cost + budget + float(needed) > self.max_cost:
            return False
        self.ahead += budget
        self.cost += budget
        return True


class Loop:
    """Carries jobs from a study to an executor, and results back."""

    def __init__(
        self,
        study: Study,
        executor: Executor,
        checkpoints: Checkpoints | None,
        keep: Keep,
        *,
        limits: Limits,
        retries: int = 0,
        first_failures: int = FIRST_FAILURES,
        outbox: Outbox | None = None,
        wait: bool = True,
        on_record: Callable[[], None] | None = None,
    ) -> None:
        self.study = study
        self.executor = executor
        self.checkpoints = checkpoints
        self.keep = keep
        self.limits = limits
        self.retries = retries
        self.first_failures = first_failures
        self.on_record = on_record
        self.outbox = outbox
        self._wait = wait
        self._orphans: Orphans | None = None
        self._running: dict[JobKey, Job] = {}
        self._losses: Counter[JobKey] = Counter()
        """How often a job's worker was lost."""
        self._held: list[Attempt] = []
        """What has come and is not recorded yet: for a moment, or while it is nothing but first
        failures."""
        self._trusted = not first_failures
        self._stopping = False
        self._ahead: Iterator[JobKey] = iter(())
        if limits.ahead_limit != 0:
            self._ahead = hyperband.jobs_ahead(study.state)

    def run(self, interrupts: Interrupts) -> None:
        """Run to the end. An interrupt lets running jobs end; a second one does not."""
        try:
            if self.outbox:
                self._orphans = self._take_in(self.outbox)
            while not interrupts.at_once:
                self._stopping = self._stopping or interrupts.asked or self.limits.out_of_time()
                self._fill()  # first, so that workers are busy while results are recorded
                self._record_trusted()
                self._fill()
                self._fill_ahead()
                if self._is_idle() and not self._settle():
                    break
                self._collect(self.executor.wait(SECONDS_A_LOOK))
                self._adopt()
            self._record()
        except (DeepbandError, KeyboardInterrupt):
            with suppress(DeepbandError):  # what came before it
                self._record_trusted()
            raise
        finally:
            self.executor.close()
            self._give_back()

    def _is_idle(self) -> bool:
        """Whether there is nothing to wait for: not even a place for a job that is ready."""
        if self.study.done:
            return True
        study, crowded = self.study, not self._stopping and not self.executor.free
        return not self._running and not (crowded and hyperband.next_job(study.state, study.group))

    def _take_in(self, outbox: Outbox) -> Orphans:
        """Take what workers left while no driver was there, and see who still runs."""
        outbox.sweep()
        orphans = Orphans(outbox)
        if not self._wait:
            orphans.give_up()
        for job in self.study.reserve(orphans.keys):  # not to be offered
            self._running[job.key] = job
        for attempt in outbox.waiting():
            if attempt.job.key in orphans.keys:
                continue  # it is about to end, and then taken
            reserved = self.study.reserve([attempt.job.key])
            if reserved and self.study.expects(attempt.job):
                self._judge(attempt)
                continue
            for job in reserved:
                self.study.release(job)
            outbox.clear(attempt.job.key)
        return orphans

    def _adopt(self) -> None:
        """Take in the results of orphans that have ended; what they left undone is offered."""
        for key, attempt in self._orphans.ended() if self._orphans else ():
            job = self._running.pop(key, None)
            if job is not None and attempt is not None and self.study.expects(attempt.job):
                self._judge(attempt)
                continue
            if self.outbox:
                self.outbox.clear(key)
            if job is not None:
                self.study.release(job)

    def _fill(self) -> None:
        """Start as many jobs as there is room for."""
        while not self._stopping and self.executor.free and (job := self.study.ask()):
            self._running[job.key] = job
            task = self._task(job)
            begun = task.context.previous_budget if task.context else 0
            if self._losses[job.key] or self.limits.spend(job.budget - begun):
                self.executor.submit(task)
            else:
                self._stopping = True
                self._hand_back(job)

    def _fill_ahead(self) -> None:
        """Start jobs of the next run for which the current one, not done yet, has no use."""
        while not self._stopping and self.executor.free and not self.study.done:
            key = next(self._ahead, None)
            if key is None:
                return
            for job in self.study.reserve([key]):
                self._running[job.key] = job
                if self.limits.spend_ahead(job.budget, cost_left(self.study.state)):
                    self.executor.submit(self._task(job))
                else:
                    self._ahead = iter(())
                    self._hand_back(job)

    def _hand_back(self, job: Job) -> None:
        """Offer a job again that was not started."""
        del self._running[job.key]
        self.study.release(job)

    def _settle(self) -> bool:
        """When nothing runs: tell what is in doubt, if more may then be done."""
        if self._stopping or not self._held:
            return False
        self._record()
        return True

    def _collect(self, all_ended: Sequence[Ended]) -> None:
        for ended in all_ended:
            job = self._running.pop(ended.task.job.key)
            attempt = ended.attempt or self._lose(job, ended.lost or "")
            if attempt is not None:
                self._judge(attempt)

    def _lose(self, job: Job, lost: str) -> Attempt | None:
        """Offer a lost job again, or after too many losses count it as failed."""
        self._losses[job.key] += 1
        if self._losses[job.key] > self.retries:
            return Attempt(job, None, lost)
        self.study.release(job)
        return None

    def _judge(self, attempt: Attempt) -> None:
        self._held.append(attempt)
        if attempt.loss is not None:
            self._trusted = True
        elif not self._trusted and len(self._held) >= self.first_failures:
            self._disown()
            raise ObjectiveError([each.error or "" for each in self._held])

    def _disown(self) -> None:
        """End all that runs and leave no result behind: the objective is at fault."""
        self.executor.close()
        if self.outbox:
            for key in (*self._running, *(attempt.job.key for attempt in self._held)):
                self.outbox.clear(key)

    def _record_trusted(self) -> None:
        """Record what has come, unless nothing but first failures came."""
        if self._trusted:
            self._record()

    def _record(self) -> None:
        """Record what is held; from now on failures are verdicts."""
        attempts, self._trusted = list(self._held), True
        if not attempts:
            return
        self.study.tell_attempts(attempts)
        self._held.clear()
        for attempt in attempts:
            self._prune(attempt.job)
            if self.outbox:
                self.outbox.clear(attempt.job.key)
        if self.on_record:
            self.on_record()

    def _give_back(self) -> None:
        """Offer again what was asked for and not told."""
        for job in [*self._running.values(), *(each.job for each in self._held)]:
            with suppress(DeepbandError):  # the file is gone: what ended the run says so
                self.study.release(job)

    def _task(self, job: Job) -> Task:
        context = self._context(job) if self.checkpoints else None
        return Task(job, context, self.study.maximize, keeps=self.keep != Keep(False, 0))

    def _context(self, job: Job) -> Context:
        assert self.checkpoints is not None
        state, key = self.study.state, job.key
        results = {rung: state.results[job.bracket, rung] for rung in range(job.bracket, job.rung)}
        told = {rung: cell[job.index] for rung, cell in results.items() if job.index in cell}
        saved = [rung for rung, each in told.items() if each.loss is not None]
        rung = self.checkpoints.nearest(key, saved)
        try:
            path, partial = self.checkpoints.begin(key)
        except OSError as error:
            raise StorageError(
                self.checkpoints.folder, f"cannot hold checkpoints: {error}."
            ) from error
        return Context(
            seed=training_seed(state.created.seed, *key),
            path=path,
            previous=None if rung is None else self.checkpoints.path((*key[:2], rung)),
            previous_budget=0 if rung is None else state.run.budgets[rung],
            previous_rung=rung,
            partial=partial,
        )

    def _prune(self, job: Job) -> None:
        """Remove what the new checkpoint of a config, or the end of a rung, makes superfluous."""
        checkpoints = self.checkpoints
        if checkpoints is None or self.keep.all or not checkpoints.path(job.key).exists():
            return
        if self.keep.configs is None:
            for rung in range(job.bracket, job.rung):
                checkpoints.discard((job.bracket, job.index, rung))
        elif self.study.done or self.study.state.is_decided(job.bracket, job.rung):
            for key in superfluous(self.study.state, self.keep, checkpoints.kept()):
                checkpoints.discard(key)
