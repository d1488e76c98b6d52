"""The state of a study: the fold of its facts.

Only `State.apply` changes a state, and the outcome depends on the facts alone, not on the order in
which the results of a run arrived. `BracketProgress` holds the rung that a bracket of the current
run is on. When the last config there is evaluated, the run's strategy decides which configs are
promoted. In a frugal run every bracket is on the top rung.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from deepband.core.criteria import Criteria
from deepband.core.facts import (
    Config,
    ConfigsDrawn,
    Confirmed,
    Fact,
    JobFinished,
    JobKey,
    JobReleased,
    JobSkipped,
    JobsLeased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
    RunStopped,
    SpaceChange,
    StudyCreated,
)
from deepband.core.rank_order import Place, Score
from deepband.core.runs import Ahead, BracketProgress, Late, Run, schedule_of
from deepband.core.schedule import Cell, Schedule
from deepband.core.standings import Standings
from deepband.core.strategies import (
    EMPTY,
    Contest,
    discarding,
    frugal,
    promoted,
    strategy_named,
)
from deepband.errors import FactError


class State:
    """The fold of a study's facts. Only `apply` changes it."""

    created: StudyCreated
    criteria: Criteria
    """What the study optimises."""
    standings: Standings
    """How its results rank."""
    full: Run
    """The last run that is not frugal: it has all slots of its schedule."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self.objective: str | None = None
        self.runs: list[Run] = []
        self.progress: list[BracketProgress] = []
        """By bracket, of the current run."""
        self.order: list[int] = []
        """The brackets in the order in which their jobs are handed out: by rung, then bracket."""
        self.changes: list[SpaceChange] = []
        """The changes of the search space, in order."""
        self.configs: list[list[Config]] = []
        """By bracket, then index: the configs sampled so far, as they were sampled."""
        self.origins: dict[tuple[int, int], str] = {}
        """By (bracket, index), of configs that the sampler did not supply."""
        self.results: dict[Cell, dict[int, JobFinished]] = {}
        """By cell, then index: every evaluation of all runs."""
        self.ahead = Ahead()
        self.late = Late()
        self.confirmations: dict[tuple[int, int, int, int], Confirmed] = {}
        """By (bracket, index, rung, repetition). Nothing else depends on them."""
        self.leases: dict[JobKey, dict[str, JobsLeased]] = {}
        """By job, then token: the leases of jobs without a result, whether in force or not."""
        self.apply(facts)

    def copy(self) -> State:
        """An independent copy, in which jobs that were handed out or leased are available
        again."""
        other = State()
        other.created, other.objective = self.created, self.objective
        other.criteria, other.standings = self.criteria, self.standings.copy()
        other.runs = [run.copy() for run in self.runs]
        other.full = other.runs[self.full.number]
        other.progress = [each.released() for each in self.progress]
        other.order, other.changes = list(self.order), list(self.changes)
        other.configs = [list(configs) for configs in self.configs]
        other.origins = dict(self.origins)
        other.results = {cell: dict(results) for cell, results in self.results.items()}
        other.ahead, other.late = Ahead(results=dict(self.ahead.results)), Late(set(self.late.jobs))
        other.confirmations = dict(self.confirmations)
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
        """The schedule that the next full run has if the study is deepened by one level."""
        return self.schedule if self.run.frugal else self.schedule.extended(levels=1)

    @property
    def space(self) -> Mapping[str, Any]:
        """The description of the search space that new configs come from."""
        return self.changes[-1].space if self.changes else self.created.space

    def config(self, bracket: int, index: int) -> Config:
        """A config as jobs carry it: with the values of parameters that were added later."""
        config = self.configs[bracket][index]
        for change in self.changes:
            if not change.applies_to(bracket, index):
                config = config | {
                    name: value for name, value in change.added.items() if name not in config
                }
        return config

    def is_ahead(self, bracket: int, index: int) -> bool:
        """Whether a config belongs to a later full run, and to no run so far."""
        return not self.full.schedule.contains(bracket, index)

    def is_leased(self, key: JobKey, now: float) -> bool:
        """Whether a lease of a job is in force at this time."""
        leases = self.leases.get(key)
        return leases is not None and any(lease.until > now for lease in leases.values())

    def is_late(self, bracket: int, index: int, rung: int) -> bool:
        """Whether an unfinished run left a job behind that the current run does not wait for."""
        if (bracket, index, rung) not in self.late.jobs:
            return False
        progress = self.progress[bracket]
        return progress.rung != rung or not progress.is_open(index)

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
        scores = {
            (bracket, index): self.standings.score(self.results[bracket, top][index])
            for bracket in self.schedule.brackets
            for index in evaluated.get((bracket, top), ())
        }
        return frugal(scores, self.schedule.eta)

    def result(self, bracket: int, index: int, rung: int) -> JobFinished | None:
        """The result of a job, of any run or ahead of the next one, or None."""
        found = self.results.get((bracket, rung), {}).get(index)
        return found or self.ahead.results.get((bracket, index, rung))

    def all_results(self) -> Iterator[JobFinished]:
        """The results of all runs, grouped by cell, without those ahead of the next run."""
        return chain.from_iterable(results.values() for results in self.results.values())

    def scores(self, bracket: int, rung: int) -> dict[int, Score]:
        """By index: what ranks the configs on a rung of a bracket."""
        return self.standings.scores(self.results[bracket, rung])

    def _study_created(self, fact: StudyCreated) -> None:
        self.created = fact
        self.criteria = Criteria(fact.maximize, fact.objectives, fact.constraints)
        self.standings = Standings(self.criteria)

    def _objective_named(self, fact: ObjectiveNamed) -> None:
        self.objective = fact.objective

    def _run_started(self, fact: RunStarted) -> None:
        schedule = schedule_of(fact, self.created, self.runs[-1] if self.runs else None)
        budgets = schedule.job_budgets(self.created.integer_budgets)
        before = {cell: frozenset(results) for cell, results in self.results.items()}
        run = Run(fact.run, fact.strategy, schedule, budgets, before, change=fact.change)
        self.runs.append(run)
        if fact.change is not None:
            self.changes.append(fact.change)
        for cell in schedule.cells():
            self.results.setdefault(cell, {})
        self.configs.extend([] for _ in range(len(self.configs), len(schedule.brackets)))
        self._leave_behind()
        self.progress = [BracketProgress(bracket) for bracket in schedule.brackets]
        if run.frugal:
            self._promote_frugally(run)
        else:
            self.full = run
            self._adopt_results_ahead()
            for bracket in schedule.brackets:
                self._arrive(bracket, bracket, frozenset(range(schedule.start_size(bracket))))

    def _leave_behind(self) -> None:
        """Remember the open jobs of an unfinished run, which is extended."""
        for bracket, progress in enumerate(self.progress):
            running = {(bracket, index, progress.rung) for index in progress.running}
            waiting = {(bracket, index, progress.rung) for index in progress.waiting}
            self.late.running |= running
            self.late.jobs |= running | waiting
            self.runs[-2].left_open += progress.open

    def _promote_frugally(self, run: Run) -> None:
        order, slots = self.frugal_contest(run)
        for bracket in run.schedule.brackets:
            chosen = frozenset(index for of, index in order[:slots] if of == bracket)
            self._arrive(bracket, run.schedule.top, chosen)

    def _adopt_results_ahead(self) -> None:
        """Move the results ahead to the run that starts, if its schedule contains their configs.
        A wider run may not contain all of them."""
        ahead, self.ahead = self.ahead, Ahead()
        self.ahead.running = {key for key in ahead.running if self.is_ahead(*key[:2])}
        self.late.running |= ahead.running - self.ahead.running  # they run in the new run
        for key, result in ahead.results.items():
            bracket, index, rung = key
            if self.is_ahead(bracket, index):
                self.ahead.results[key] = result
                continue
            # They name the run that was next when they arrived; a frugal run may have come first.
            fact = result._replace(run=self.run.number)
            self.results[bracket, rung][index] = fact
            self.standings.note(fact)

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
            if self.late.jobs or self.is_ahead(bracket, max(indices)):
                indices = [job[1] for job in jobs if not self._started_elsewhere(job)]
            if indices:
                self.progress[bracket].start(indices)

    def _started_elsewhere(self, job: JobKey) -> bool:
        """Whether a job that was handed out is not one of the current run: it is ahead, or a
        process found one that an unfinished run had left behind."""
        if self.is_ahead(*job[:2]):
            self.ahead.running.add(job)
        elif self.is_late(*job):
            self.late.running.add(job)
        else:
            return False
        return True

    def _job_released(self, fact: JobReleased) -> None:
        bracket, index, rung = fact.job
        is_current = bracket < len(self.progress) and not self.is_late(bracket, index, rung)
        if fact.job in self.ahead.running:
            self.ahead.running.remove(fact.job)
        elif is_current and index in self.progress[bracket].running:
            self.progress[bracket].release(index)
        self.late.running.discard(fact.job)

    def _jobs_leased(self, fact: JobsLeased) -> None:
        for key in fact.jobs:
            if self.result(*key) is None:
                self.leases.setdefault(key, {})[fact.token] = fact

    def _job_finished(self, fact: JobFinished) -> None:
        bracket, index, rung, run = fact[:4]
        if self.leases:
            self.leases.pop((bracket, index, rung), None)
        if bracket < len(self.progress) and run == self.runs[-1].number:
            progress = self.progress[bracket]
            if progress.rung == rung and progress.finish(index):
                self.results[bracket, rung][index] = fact
                self.standings.note(fact)
                if not progress.waiting and not progress.running:
                    self._climb(bracket)
                return
        self._finished_elsewhere(fact)

    def _finished_elsewhere(self, fact: JobFinished) -> None:
        """Keep a result that the current run does not wait for now: one ahead of a later run, an
        imported one, or a late one of an unfinished run. If the config of the other two arrives on
        that rung, it is not evaluated again."""
        bracket, index, rung, run = fact[:4]
        if run != self.run.number or self.is_ahead(bracket, index):
            self._finished_ahead(fact)
            return
        expected = fact.imported or (bracket, index, rung) in self.late.jobs
        if not expected or index in self.results.get((bracket, rung), (index,)):
            raise FactError(f"{fact} is not expected, or is already recorded")
        self.late.running.discard((bracket, index, rung))
        self.results[bracket, rung][index] = fact
        self.standings.note(fact)

    def _finished_ahead(self, fact: JobFinished) -> None:
        bracket, index, rung, run = fact[:4]
        key = bracket, index, rung
        fits = 0 < run <= self.run.number + 1 and rung == bracket and self.is_ahead(bracket, index)
        if not fits or key in self.ahead.results:
            raise FactError(f"{fact} fits neither run {self.run.number} nor the next one")
        self.standings.check(fact)
        self.ahead.running.discard(key)
        self.ahead.results[key] = fact

    def _job_skipped(self, fact: JobSkipped) -> None:
        bracket, index, rung, number, risk = fact
        run, cell = self.run, (bracket, rung)
        progress = self.progress[bracket] if bracket < len(self.progress) else None
        fits = number == run.number and rung > bracket and not run.frugal
        if progress is None or not fits or progress.rung != rung or not progress.finish(index):
            raise FactError(f"{fact} does not skip a promotion that has no result")
        run.arrived[cell] -= {index}
        run.skipped.setdefault(cell, {})[index] = risk
        if not progress.open:
            self._climb(bracket)

    def _run_stopped(self, fact: RunStopped) -> None:
        number, risk = fact
        if not 0 <= number < len(self.runs) or not 0.0 <= (risk or 0.0) <= 1.0:
            raise FactError(f"{fact} does not stop a run of the study")
        self.runs[number].stopped = risk

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

    def _confirmed(self, fact: Confirmed) -> None:
        bracket, index, rung, _ = fact.key
        evaluated = index in self.results.get((bracket, rung), ())
        if not evaluated or fact.repetition < 1 or fact.key in self.confirmations:
            raise FactError(f"{fact} confirms nothing, or is already recorded")
        self.confirmations[fact.key] = fact

    def _arrive(self, bracket: int, rung: int, indices: frozenset[int]) -> None:
        """Let configs arrive on a rung, and move on while none of them has to be evaluated."""
        self.run.arrived[bracket, rung] = indices
        progress = self.progress[bracket]
        progress.rung = rung
        self.order = sorted(range(len(self.progress)), key=lambda each: self.progress[each].rung)
        progress.waiting = sorted(indices.difference(self.results[bracket, rung]), reverse=True)
        if self.late.running:
            late = [i for i in progress.waiting if (bracket, i, rung) in self.late.running]
            progress.start(late[::-1])
        if not progress.open:
            self._climb(bracket)

    def _climb(self, bracket: int) -> None:
        """Promote the configs that the strategy chooses, now that the rung is evaluated."""
        run, rung = self.run, self.progress[bracket].rung
        if rung == run.schedule.top:
            return
        contest = self.contest(run, bracket, rung)
        slots = run.schedule.slots(bracket, rung + 1)
        self._arrive(bracket, rung + 1, promoted(contest, self.scores(bracket, rung), slots))


_APPLY: dict[type, Callable[[State, Any], None]] = {
    StudyCreated: State._study_created,
    RunStarted: State._run_started,
    ConfigsDrawn: State._configs_drawn,
    JobsStarted: State._jobs_started,
    JobFinished: State._job_finished,
    JobReleased: State._job_released,
    JobsLeased: State._jobs_leased,
    JobSkipped: State._job_skipped,
    RunStopped: State._run_stopped,
    JobsReopened: State._jobs_reopened,
    Confirmed: State._confirmed,
    ObjectiveNamed: State._objective_named,
}
