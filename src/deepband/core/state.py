"""The state of a study: the fold of its facts.

Only `State.apply` changes a state, and the outcome depends on the facts alone, not on the order in
which the results of a run arrived. `BracketProgress` holds the rung that a bracket of the current
run is on. When the last config there is evaluated, the run's strategy decides which configs are
promoted. In a frugal run every bracket is on the top rung.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any

from deepband.core.facts import (
    Config,
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
    StudyCreated,
)
from deepband.core.runs import Ahead, BracketProgress, Run
from deepband.core.schedule import Cell, Schedule
from deepband.core.strategies import (
    EMPTY,
    FRUGAL,
    Contest,
    Place,
    discarding,
    frugal,
    promoted,
    strategy_named,
)
from deepband.errors import FactError


class State:
    """The fold of a study's facts. Only `apply` changes it."""

    created: StudyCreated
    full: Run
    """The last run that is not frugal: it has all slots of its schedule."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.objective: str | None = None
        self.runs: list[Run] = []
        self.progress: list[BracketProgress] = []
        """By bracket, of the current run."""
        self.configs: list[list[Config]] = []
        """By bracket, then index: the configs sampled so far."""
        self.origins: dict[tuple[int, int], str] = {}
        """By (bracket, index), of configs that the sampler did not supply."""
        self.results: dict[Cell, dict[int, JobFinished]] = {}
        """By cell, then index: every evaluation of all runs."""
        self.leaders: dict[int, JobFinished] = {}
        """By rung: the evaluation with the smallest finite loss, if there is one."""
        self.ahead = Ahead()
        self.apply(facts)

    def copy(self) -> State:
        """An independent copy, in which jobs that were handed out are available again."""
        other = State()
        other.created, other.objective = self.created, self.objective
        other.runs = [replace(run, arrived=dict(run.arrived)) for run in self.runs]
        other.full = other.runs[self.full.number]
        other.progress = [
            BracketProgress(each.rung, sorted([*each.waiting, *each.running], reverse=True))
            for each in self.progress
        ]
        other.configs = [list(configs) for configs in self.configs]
        other.origins = dict(self.origins)
        other.results = {cell: dict(results) for cell, results in self.results.items()}
        other.leaders = dict(self.leaders)
        other.ahead = Ahead(results=dict(self.ahead.results))
        return other

    def apply(self, facts: Iterable[Fact]) -> None:
        """Update the state with facts that are already recorded."""
        for fact in facts:
            _APPLY[type(fact)](self, fact)

    @property
    def run(self) -> Run:
        """The current run."""
        return self.runs[-1]

    @property
    def schedule(self) -> Schedule:
        """The schedule of the current run."""
        return self.runs[-1].schedule

    @property
    def coming(self) -> Schedule:
        """The smallest schedule that the next full run can have."""
        return self.schedule if self.run.frugal else self.schedule.deepened()

    def is_ahead(self, bracket: int, index: int) -> bool:
        """Whether a config belongs to the next full run, and to no run so far."""
        schedule = self.full.schedule
        return bracket > schedule.top or index >= schedule.start_size(bracket)

    def is_decided(self, bracket: int, rung: int) -> bool:
        """Whether the current run has decided which configs of a cell are promoted."""
        return bracket < len(self.progress) and self.progress[bracket].rung > rung

    def contest(self, run: Run, bracket: int, rung: int) -> Contest:
        """Which configs compete for promotion in a cell where all that arrived are evaluated."""
        # The first run has no earlier evaluations, so that any strategy is plain Hyperband.
        strategy = discarding if run.strategy is None else strategy_named(run.strategy)
        return strategy(
            run.arrived[bracket, rung],
            run.before.get((bracket, rung), EMPTY),
            run.before.get((bracket, rung + 1), EMPTY),
        )

    def frugal_contest(self, run: Run | None = None) -> tuple[list[Place], int]:
        """Which configs of all brackets compete, best first, and for how many slots of the new top
        rung: in a frugal run, or if the current run, which is done, is deepened frugally."""
        evaluated: Mapping[Cell, Collection[int]] = run.before if run else self.results
        top = run.schedule.top - 1 if run else self.schedule.top
        losses = {
            (bracket, index): self.results[bracket, top][index].loss
            for bracket in range(top + 1)
            for index in evaluated[bracket, top]
        }
        return frugal(losses, self.schedule.eta)

    def result(self, bracket: int, index: int, rung: int) -> JobFinished | None:
        """The result of a job, of any run or ahead of the next one, or None."""
        found = self.results.get((bracket, rung), {}).get(index)
        return found or self.ahead.results.get((bracket, index, rung))

    def all_results(self) -> Iterator[JobFinished]:
        """The results of all runs, grouped by cell, without those ahead of the next run."""
        return chain.from_iterable(results.values() for results in self.results.values())

    def value(self, loss: float) -> float:
        """A loss in the user's direction."""
        return -loss if self.created.maximize else loss

    def losses(self, bracket: int, rung: int) -> dict[int, float | None]:
        """The losses on a rung of a bracket, by index; None is a failure."""
        return {index: result.loss for index, result in self.results[bracket, rung].items()}

    def _study_created(self, fact: StudyCreated) -> None:
        self.created = fact

    def _objective_named(self, fact: ObjectiveNamed) -> None:
        self.objective = fact.objective

    def _run_started(self, fact: RunStarted) -> None:
        schedule = self._schedule_of(fact)
        budgets = schedule.job_budgets(self.created.integer_budgets)
        before = {cell: frozenset(results) for cell, results in self.results.items()}
        run = Run(fact.run, fact.strategy, schedule, budgets, before)
        self.runs.append(run)
        for cell in schedule.cells():
            self.results.setdefault(cell, {})
        self.configs.extend([] for _ in range(len(self.configs), schedule.top + 1))
        self.progress = [BracketProgress(bracket) for bracket in schedule.brackets]
        if run.frugal:
            self._promote_frugally(run)
        else:
            self.full = run
            self._adopt_results_ahead()
            for bracket in schedule.brackets:
                self._arrive(bracket, bracket, frozenset(range(schedule.start_size(bracket))))

    def _schedule_of(self, fact: RunStarted) -> Schedule:
        """The schedule of a run that starts: a larger one, or the current one that it fills."""
        created, frugally = self.created, fact.strategy == FRUGAL
        if not self.runs:
            if frugally:
                raise FactError(f"{fact} cannot be the first run")
            return Schedule.of(created.eta, created.min_budget, created.max_budget)
        schedule = self.schedule if self.run.frugal and not frugally else self.schedule.deepened()
        while schedule.max_budget < fact.max_budget and not frugally:
            schedule = schedule.deepened()
        if schedule.max_budget != fact.max_budget:
            raise FactError(f"{fact} does not deepen {self.run}")
        return schedule

    def _promote_frugally(self, run: Run) -> None:
        order, slots = self.frugal_contest(run)
        for bracket in run.schedule.brackets:
            chosen = frozenset(index for of, index in order[:slots] if of == bracket)
            self._arrive(bracket, run.schedule.top, chosen)

    def _adopt_results_ahead(self) -> None:
        """Move the results ahead to the run that starts."""
        ahead, self.ahead = self.ahead.results, Ahead()
        for (bracket, index, rung), result in ahead.items():
            # They name the run that was next when they arrived; a frugal run may have come first.
            fact = result._replace(run=self.run.number)
            self.results[bracket, rung][index] = fact
            self._update_leader(fact)

    def _configs_drawn(self, fact: ConfigsDrawn) -> None:
        self.configs.extend([] for _ in range(len(self.configs), fact.bracket + 1))
        configs = self.configs[fact.bracket]
        if fact.first != len(configs):
            raise FactError(f"the next config is {len(configs)}, not {fact.first}")
        if fact.origin is not None:
            indices = range(fact.first, fact.first + len(fact.configs))
            self.origins |= {(fact.bracket, index): fact.origin for index in indices}
        configs.extend(fact.configs)

    def _jobs_started(self, fact: JobsStarted) -> None:
        for bracket, same in groupby(fact.jobs, key=itemgetter(0)):
            jobs = list(same)
            indices = [index for _, index, _ in jobs]
            if self.is_ahead(bracket, max(indices)):
                ahead = {job for job in jobs if self.is_ahead(bracket, job[1])}
                self.ahead.running |= ahead
                indices = [job[1] for job in jobs if job not in ahead]
            if indices:
                self.progress[bracket].start(indices)

    def _job_released(self, fact: JobReleased) -> None:
        bracket, index, _ = fact.job
        if fact.job in self.ahead.running:
            self.ahead.running.remove(fact.job)
        else:
            self.progress[bracket].release(index)

    def _job_finished(self, fact: JobFinished) -> None:
        bracket, index, rung, run = fact[:4]
        current = self.runs[-1]
        if run != current.number or (current.frugal and self.is_ahead(bracket, index)):
            self._finished_ahead(fact)
            return
        progress = self.progress[bracket]
        if fact.origin is not None and not (rung == progress.rung and progress.is_open(index)):
            self._imported_early(fact)
            return
        if rung != progress.rung:
            raise FactError(f"{fact} does not fit {progress}")
        progress.finish(index)
        self.results[bracket, rung][index] = fact
        self._update_leader(fact)
        if not progress.waiting and not progress.running:
            self._climb(bracket)

    def _imported_early(self, fact: JobFinished) -> None:
        """Keep an imported result that the run does not wait for now. If its config arrives on that
        rung, it is not evaluated again."""
        bracket, index, rung = fact[:3]
        if index in self.results[bracket, rung]:
            raise FactError(f"{fact} is already recorded")
        self.results[bracket, rung][index] = fact
        self._update_leader(fact)

    def _finished_ahead(self, fact: JobFinished) -> None:
        bracket, index, rung, run = fact[:4]
        key = bracket, index, rung
        next_runs = range(self.full.number + 1, self.run.number + 2)
        fits = run in next_runs and rung == bracket and self.is_ahead(bracket, index)
        if not fits or key in self.ahead.results:
            raise FactError(f"{fact} fits neither run {self.run.number} nor the next one")
        self.ahead.running.discard(key)
        self.ahead.results[key] = fact

    def _update_leader(self, fact: JobFinished) -> None:
        loss, leader = fact.loss, self.leaders.get(fact.rung)
        if loss is None or loss == math.inf:
            return
        if leader is not None and loss > leader.loss:  # type: ignore[operator] # a leader has one
            return  # nearly always
        if leader is None or _precedence(fact) < _precedence(leader):
            self.leaders[fact.rung] = fact

    def _jobs_reopened(self, fact: JobsReopened) -> None:
        for key in fact.jobs:
            bracket, index, rung = key
            if key in self.ahead.results:
                del self.ahead.results[key]
                continue
            progress = self.progress[bracket]
            result = self.results[bracket, rung].pop(index)
            if (progress.rung, result.loss, result.imported) != (rung, None, False):
                raise FactError(f"{result} cannot be reopened")
            progress.reopen(index)

    def _arrive(self, bracket: int, rung: int, indices: frozenset[int]) -> None:
        """Let configs arrive on a rung, and move on while none of them has to be evaluated."""
        self.run.arrived[bracket, rung] = indices
        progress = self.progress[bracket]
        progress.rung = rung
        progress.waiting = sorted(indices.difference(self.results[bracket, rung]), reverse=True)
        if not progress.waiting:
            self._climb(bracket)

    def _climb(self, bracket: int) -> None:
        """Promote the configs that the strategy chooses, now that the rung is evaluated."""
        run, rung = self.run, self.progress[bracket].rung
        if rung == run.schedule.top:
            return
        contest = self.contest(run, bracket, rung)
        slots = run.schedule.slots(bracket, rung + 1)
        self._arrive(bracket, rung + 1, promoted(contest, self.losses(bracket, rung), slots))


_precedence = attrgetter("loss", "bracket", "index")


_APPLY: dict[type, Callable[[State, Any], None]] = {
    StudyCreated: State._study_created,
    RunStarted: State._run_started,
    ConfigsDrawn: State._configs_drawn,
    JobsStarted: State._jobs_started,
    JobFinished: State._job_finished,
    JobReleased: State._job_released,
    JobsReopened: State._jobs_reopened,
    ObjectiveNamed: State._objective_named,
}
