"""A study: ask for jobs, tell their results, deepen when the budget was too small."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deepband import explain as explaining
from deepband import hyperband, report
from deepband import quote as quoting
from deepband.errors import (
    ClosedError,
    DeepbandError,
    InputError,
    JobError,
    SmallSpaceWarning,
    UnfinishedError,
)
from deepband.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobKey,
    JobReleased,
    JobsStarted,
    RunStarted,
    StudyCreated,
)
from deepband.records import Evaluation, Job
from deepband.results import read_result
from deepband.samplers import Sampler, make_sampler
from deepband.schedule import Budget, Schedule, as_number, read_budget
from deepband.space import Space
from deepband.state import State
from deepband.storage import MemoryStorage, Storage
from deepband.strategies import strategy_named

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

CHUNK = 64


def open_study(
    storage: str | None = None,
    *,
    space: ConfigurationSpace | Mapping[str, Any],
    max_budget: Budget,
    min_budget: Budget = 1,
    eta: int = 3,
    seed: int = 0,
    maximize: bool = False,
    integer_budgets: bool = False,
    sampler: str | Sampler = "uniform",
) -> Study:
    """Open a study, kept in memory.

    Hyperband runs between `min_budget` and `max_budget`, in whatever unit the objective
    understands, with `eta` times the budget from rung to rung. Where the budgets between them
    are not whole, `integer_budgets` floors what jobs carry; costs count the exact ones.

    >>> study = open_study(space={"lr": (1e-4, 1e-1, "log")}, max_budget=9)
    >>> while job := study.ask():
    ...     study.tell(job, abs(job.config["lr"] - 0.01) / job.budget)
    >>> study.done, len(study.evaluations)
    (True, 22)
    """
    if storage not in (None, ":memory:"):
        raise InputError(f"storage is {storage!r}: leave it out or give ':memory:'.")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed is {seed!r}: give a whole number of 0 or more.")
    schedule = Schedule.of(eta, min_budget, max_budget)
    if integer_budgets and schedule.unit < 1:
        raise InputError(
            f"integer_budgets would floor the smallest budget, {as_number(schedule.unit)}, to "
            "zero: choose another unit, or a min_budget of 1 or more."
        )
    sampler_name, sampler = make_sampler(sampler, CHUNK)
    parameters = Space(space)
    created = StudyCreated(
        study=secrets.token_hex(8),
        space=parameters.describe(),
        eta=schedule.eta,
        min_budget=read_budget("min_budget", min_budget),
        max_budget=read_budget("max_budget", max_budget),
        seed=int(seed),
        maximize=bool(maximize),
        integer_budgets=bool(integer_budgets),
        sampler=sampler_name,
        chunk=CHUNK,
    )
    kept = MemoryStorage()
    kept.append([created, RunStarted(0, schedule.max_budget, None)])
    return Study(kept, parameters, sampler)


class Study:
    """A study that is open. Made by `open_study`; used by one thread."""

    def __init__(self, storage: Storage, space: Space, sampler: Sampler) -> None:
        self._storage = storage
        self._space = space
        self._sampler = sampler
        self._state = State(storage.load())
        self._closed = False
        self._observed: tuple[int, Sequence[Evaluation]] = (0, ())

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        run = self._state.run
        return (
            f"<deepband study: run {run.number}, max_budget {self.max_budget}, "
            f"{hyperband.open_jobs(self._state)} jobs open>"
        )

    # Running it

    def ask(self) -> Job | None:
        """The next job, handed out once, or None when nothing can start now.

        None does not mean that the run is done: it may wait for jobs that are running.
        """
        key = hyperband.next_job(self._state)
        return None if key is None else self._hand_out([key])[0]

    def ask_all(self) -> list[Job]:
        """All jobs that can start now, handed out once."""
        return self._hand_out(list(hyperband.ready_jobs(self._state)))

    def release(self, job: Job) -> None:
        """Offer a job that was asked for again, because nobody runs it any more."""
        key = self._check_open(job)
        if job.index in self._state.fronts[job.bracket].running:
            self._record([JobReleased(key)])

    def tell(self, job: Job, result: object) -> None:
        """Record the result of a job, whoever asked for it.

        A result is a real number, a mapping with "loss" (its other values are kept as metrics),
        or an exception for a failed evaluation; NaN is a failure too. Anything else raises, and
        the job stays open.
        """
        self.tell_all([(job, result)])

    def tell_all(self, pairs: Iterable[tuple[Job, object]]) -> None:
        """Record many results together: all of them, or none if it raises."""
        run, maximize = self._state.run.number, self._state.created.maximize
        finished: dict[JobKey, JobFinished] = {}
        for job, result in pairs:
            outcome = read_result(result, maximize)
            key = self._check_open(job)
            if key in finished:
                raise JobError(*key, "it stands twice in what is told.")
            finished[key] = JobFinished(*key, run, *outcome)
        self._record([*self._draw_for(finished), *finished.values()])

    @property
    def done(self) -> bool:
        """Whether every job of the current run is told."""
        return hyperband.is_done(self._state)

    def close(self) -> None:
        """Let go of the storage. Closing twice does nothing."""
        self._closed = True
        self._storage.close()

    # Going deeper

    def deepen(self, strategy: str = "preserving", to: Budget | None = None) -> None:
        """Go on with a larger max_budget: eta times the current one, or `to`.

        What was evaluated is re-used. `to` may be any max_budget * eta**j; one where this study
        has already been does nothing, so that a script can be run again.
        """
        strategy_named(strategy)
        schedule = hyperband.deepened(self._state, to)
        if schedule == self._state.schedule:
            return
        self._check_done("deepen")
        number = self._state.run.number + 1
        self._record([RunStarted(number, schedule.max_budget, strategy)])

    def quote(self, strategy: str = "preserving", to: Budget | None = None) -> quoting.Quote:
        """What deepening would re-use, add and cost, before anything is spent."""
        strategy_named(strategy)
        self._check_done("quote a deepening")
        return quoting.quote(self._state, strategy, hyperband.deepened(self._state, to))

    # Looking at it

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the smallest loss on any budget; None before any finite loss."""
        return report.best(self._state)

    def best_at(self, rung: int | None = None) -> Evaluation | None:
        """The best on one rung, by default the highest one that has a finite loss."""
        return report.best_at(self._state, rung)

    @property
    def max_budget(self) -> int | float:
        """That of the current run."""
        return as_number(self._state.schedule.max_budget)

    @property
    def runs(self) -> tuple[report.RunSummary, ...]:
        """What each run did and what it cost."""
        return report.runs(self._state, self.done)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation, sorted by bracket, index and rung."""
        return list(report.evaluations(self._state))

    def explain(self, bracket: int, index: int) -> tuple[explaining.Verdict, ...]:
        """Why a config was or was not promoted, on each rung of each run."""
        return explaining.explain(self._state, bracket, index)

    def plan(self) -> report.Plan:
        """How many configs the current run puts on which budget.

        Warns when the space has fewer values than that.
        """
        plan = report.plan(self._state)
        if self._space.size < plan.configs:
            warnings.warn(
                f"the space has at most {self._space.size} different configs and the run needs "
                f"{plan.configs}: some will be evaluated more than once. Widen the space, or "
                "raise min_budget for fewer configs.",
                SmallSpaceWarning,
                stacklevel=2,
            )
        return plan

    # Within

    def _record(self, facts: Sequence[Fact]) -> None:
        """Keep facts, then let the state follow."""
        if self._closed:
            raise ClosedError
        self._storage.append(facts)
        for fact in facts:
            self._state.apply(fact)

    def _hand_out(self, keys: Sequence[JobKey]) -> list[Job]:
        state = self._state
        self._record([*self._draw_for(keys), JobsStarted(tuple(keys))])
        configs, budgets, study = state.configs, state.run.budgets, state.created.study
        return [
            Job(bracket, index, rung, budgets[rung], dict(configs[bracket][index]), study)
            for bracket, index, rung in keys
        ]

    def _draw_for(self, keys: Iterable[JobKey]) -> Iterator[ConfigsDrawn]:
        """The configs that these jobs need and that are not drawn yet, in whole chunks."""
        configs, chunk = self._state.configs, self._state.created.chunk
        ends: dict[int, int] = {}
        for bracket, index, _ in keys:
            if index >= ends.get(bracket, len(configs[bracket])):
                ends[bracket] = (index // chunk + 1) * chunk
        for bracket, end in ends.items():
            start, size = len(configs[bracket]), self._state.schedule.start_size(bracket)
            yield self._draw(bracket, range(start, min(end, size)))

    def _draw(self, bracket: int, indices: range) -> ConfigsDrawn:
        seed = self._state.created.seed
        drawn = self._sampler.draw(self._space, self._observations(), bracket, indices, seed)
        if len(drawn) != len(indices):
            raise DeepbandError(
                f"the sampler {self._state.created.sampler!r} was asked for {len(indices)} "
                f"configs and drew {len(drawn)}."
            )
        return ConfigsDrawn(bracket, indices.start, tuple(drawn))

    def _observations(self) -> Sequence[Evaluation]:
        """The evaluations of earlier runs, for a sampler that learns."""
        run = self._state.run.number
        if self._sampler.learns and self._observed[0] < run:
            earlier = (each for each in report.evaluations(self._state) if each.run < run)
            self._observed = (run, tuple(earlier))
        return self._observed[1]

    def _check_open(self, job: Job) -> JobKey:
        if not isinstance(job, Job):
            raise InputError(
                f"{job!r} is not a job: give what ask() handed out, or a deepband.Job made of "
                "what was noted of it."
            )
        bracket, index, rung, *_, study = job
        if study and study != self._state.created.study:
            raise JobError(bracket, index, rung, "another study handed it out.")
        if not hyperband.is_open(self._state, bracket, index, rung):
            if index in self._state.results.get((bracket, rung), {}):
                raise JobError(bracket, index, rung, "its result is known already.")
            raise JobError(bracket, index, rung, "the current run does not wait for it.")
        return bracket, index, rung

    def _check_done(self, action: str) -> None:
        if not self.done:
            raise UnfinishedError(action, hyperband.open_jobs(self._state))
