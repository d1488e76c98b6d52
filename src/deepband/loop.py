"""Runs jobs until the run is done, a limit is reached or something fails.

A raised exception or NaN is a verdict about a config and is recorded at once. But if the very
first evaluations of a call all fail, the objective is at fault: nothing is recorded then, so that
a typo does not poison the study.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deepband.checkpoints import Checkpoints, Keep, superfluous
from deepband.errors import ObjectiveError
from deepband.objective import Context, Objective, evaluate, takes_context, training_seed
from deepband.records import Attempt, Job
from deepband.results import is_failure

if TYPE_CHECKING:
    from deepband.study import Study

FIRST_FAILURES = 3


@dataclass(slots=True)
class Limits:
    """When to stop before the run is done. Cost counts what is really trained."""

    max_seconds: float | None = None
    max_cost: float | None = None
    start: float = field(default_factory=time.monotonic)
    cost: float = 0.0

    def out_of_time(self) -> bool:
        return self.max_seconds is not None and time.monotonic() - self.start >= self.max_seconds

    def spend(self, budget: float) -> bool:
        """Count a budget, unless it would go beyond the limit."""
        if self.max_cost is not None and self.cost + budget > self.max_cost:
            return False
        self.cost += budget
        return True


class Loop:
    """Evaluates one job after the other in this process."""

    def __init__(
        self,
        study: Study,
        objective: Objective,
        keep: Keep,
        on_record: Callable[[], None] | None = None,
    ) -> None:
        self.study = study
        self.objective = objective
        self.checkpoints = study.checkpoints if takes_context(objective) else None
        self.keep = keep
        self.on_record = on_record
        self._doubted: list[Attempt] = []
        """The first failures, while nothing but failures came: not recorded yet."""
        self._trusted = False

    def run(self, limits: Limits) -> None:
        try:
            while not limits.out_of_time():
                job = self.study.ask()
                if job is None and not self._doubted:
                    break
                if job is None:  # nothing else can start before these are told
                    self._trust()
                elif not self._evaluate(job, limits):
                    break
            self._trust()
        finally:
            for attempt in self._doubted:
                self.study.release(attempt.job)

    def _evaluate(self, job: Job, limits: Limits) -> bool:
        """Run a job, unless a limit forbids it."""
        context = self._context(job) if self.checkpoints else None
        if not limits.spend(job.budget - (context.previous_budget if context else 0)):
            self.study.release(job)
            return False
        try:
            attempt = evaluate(self.objective, job, context)
        except BaseException:  # an interrupt: the job is offered again
            self.study.release(job)
            raise
        self._doubted.append(attempt)
        if self._trusted or not is_failure(attempt.result, self.study.maximize):
            self._trust()
        elif len(self._doubted) == FIRST_FAILURES:
            raise ObjectiveError([each.result for each in self._doubted])
        return True

    def _trust(self) -> None:
        """Record what was held back; from now on failures are verdicts."""
        attempts, self._doubted, self._trusted = self._doubted, [], True
        if not attempts:
            return
        if self.checkpoints:
            for attempt in attempts:
                self._seal(self.checkpoints, attempt)
        self.study.tell_attempts(attempts)
        if self.checkpoints:
            for attempt in attempts:
                self._prune(self.checkpoints, attempt.job)
        if self.on_record:
            self.on_record()

    def _context(self, job: Job) -> Context:
        assert self.checkpoints is not None
        state, key = self.study.state, job.key
        results = {rung: state.results[job.bracket, rung] for rung in range(job.bracket, job.rung)}
        told = {rung: cell[job.index] for rung, cell in results.items() if job.index in cell}
        saved = [rung for rung, each in told.items() if each.loss is not None]
        rung = self.checkpoints.nearest(key, saved)
        path, partial = self.checkpoints.begin(key)
        return Context(
            seed=training_seed(state.created.seed, *key),
            path=path,
            previous=None if rung is None else self.checkpoints.path((*key[:2], rung)),
            previous_budget=0 if rung is None else state.run.budgets[rung],
            previous_rung=rung,
            partial=partial,
        )

    def _seal(self, checkpoints: Checkpoints, attempt: Attempt) -> None:
        failed = is_failure(attempt.result, self.study.maximize)
        if failed or self.keep == Keep(False, 0):
            checkpoints.discard(attempt.job.key)
        else:
            checkpoints.finish(attempt.job.key)

    def _prune(self, checkpoints: Checkpoints, job: Job) -> None:
        """Remove what the new checkpoint of a config, or the end of a rung, makes superfluous."""
        if self.keep.all or not checkpoints.path(job.key).exists():
            return
        if self.keep.configs is None:
            for rung in range(job.bracket, job.rung):
                checkpoints.discard((job.bracket, job.index, rung))
        elif self.study.state.fronts[job.bracket].rung > job.rung or self.study.done:
            for key in superfluous(self.study.state, self.keep, checkpoints.kept()):
                checkpoints.discard(key)
