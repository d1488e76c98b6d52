"""Methods along courses of max_budgets, in many studies at once.

The baseline starts a new study at each max_budget of the course; the three strategies deepen
theirs. All of them sample the same configs, by (seed, bracket, index). The accuracy of a config on
a rung is predicted once for all of them, in batches over methods and seeds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from deepband import open_study
from deepband.analysis.run_table import RunSummary
from deepband.core.facts import Config, JobKey
from deepband.core.records import Evaluation, Job
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.research.benchmark import Benchmark, Rows
from deepband.samplers.uniform import CHUNK, Uniform
from deepband.space.search_space import Space
from deepband.study.study import Study

IH: Final = "ih"
"""The baseline: from scratch with each larger max_budget."""
METHODS = (IH, *STRATEGIES)
Course: TypeAlias = tuple[Fraction, ...]
"""The max_budgets of a first run and of its deepenings, in order."""

SeededKey: TypeAlias = tuple[int, JobKey]


class Row(NamedTuple):
    """One run: totals of a method after one max_budget of its course, with all before it."""

    scenario: str
    instance: str
    eta: int
    seed: int
    method: str
    first_budget: float
    """The first max_budget of the course."""
    runs: int
    """How many runs so far, including the first one."""
    max_budget: float
    accuracy_top: float
    """Of the best config on the max_budget."""
    accuracy_any: float
    """Of the best config on any budget."""
    budget: float
    """Every evaluation pays its whole budget, as in the paper."""
    budget_resumed: float
    """Training continues from the rung below."""
    evaluations: int


class Draws:
    """A sampler for all studies of one benchmark: each config is sampled and encoded once."""

    learns = False

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark = benchmark
        self.space = Space(benchmark.space)
        self._uniform = Uniform(CHUNK)
        self._chunks: dict[tuple[int, int, int], list[Config]] = {}
        """By seed, bracket and number."""
        self._first: dict[tuple[int, int, int], int] = {}
        """Its position in the rows."""
        self._rows = benchmark.encode([])

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        drawn = {number: self._chunk(seed, bracket, number) for number in _chunks_of(indices)}
        return [drawn[index // CHUNK][index % CHUNK] for index in indices]

    def rows(self, jobs: Iterable[SeededKey]) -> Rows:
        """Return the configs of jobs as rows for the benchmark."""
        first = self._first
        return self._rows.take(
            [
                first[seed, bracket, index // CHUNK] + index % CHUNK
                for seed, (bracket, index, _) in jobs
            ]
        )

    def _chunk(self, seed: int, bracket: int, number: int) -> list[Config]:
        key = seed, bracket, number
        if key not in self._chunks:
            indices = range(number * CHUNK, (number + 1) * CHUNK)
            self._chunks[key] = self._uniform.draw(self.space, (), bracket, indices, seed)
            self._first[key] = len(self._rows.categorical)
            self._rows = self._rows.joined(self.benchmark.encode(self._chunks[key]))
        return self._chunks[key]


def _chunks_of(indices: Iterable[int]) -> set[int]:
    return {index // CHUNK for index in indices}


def baseline_name(brackets: int | None) -> str:
    """Return what the baseline is called: infinite-horizon Hyperband, as in the paper, or the same
    with successive halving, which is a single bracket."""
    return "IH-SHA" if brackets == 1 else "IH-HB"


class Walk:
    """A method on a course, with one seed. The first run is the same for all methods: the baseline
    makes it, and the others continue with a copy."""

    def __init__(
        self, draws: Draws, eta: int, course: Course, seed: int, brackets: int | None = None
    ) -> None:
        self.draws, self.eta, self.course, self.seed = draws, eta, course, seed
        self.brackets = brackets
        self.method: StrategyName | Literal["ih"] = IH
        self.runs: list[RunSummary] = []
        """The runs of earlier studies."""
        self.best = -math.inf
        self.step = 0
        self.study = self._begin()

    def copies(self) -> list[Walk]:
        """Return the other methods, after the first run."""
        others = [copy(self) for _ in STRATEGIES]
        for other, method in zip(others, STRATEGIES, strict=True):
            other.method, other.runs, other.study = method, [], self.study.copy()
        return others

    def _begin(self) -> Study:
        return open_study(
            space=self.draws.space,
            eta=self.eta,
            max_budget=self.course[self.step],
            seed=self.seed,
            maximize=True,
            integer_budgets=False,  # the paper counts exact budgets
            sampler=self.draws,
            brackets=self.brackets,
        )

    @property
    def first(self) -> bool:
        """Whether this is the first step of the course."""
        return self.step == 0

    @property
    def last(self) -> bool:
        """Whether this is the last step of the course."""
        return self.step == len(self.course) - 1

    @property
    def done(self) -> bool:
        return self.step == len(self.course)

    def advance(self) -> None:
        """Take the next step of the course, if there is one."""
        self.step += 1
        if self.done:
            return
        if self.method == IH:
            self.runs.extend(self.study.runs)
            self.best = max(self.best, _value(self.study.best))
            self.study = self._begin()
        else:
            self.study.deepen(self.method, to=self.course[self.step])

    def row(self, scenario: str, instance: str) -> Row:
        """Return the totals, once the study has finished its max_budget."""
        top = self.study.best_at(self.study.session.state.schedule.top)
        runs = [*self.runs, *self.study.runs]
        return Row(
            scenario=scenario,
            instance=instance,
            eta=self.eta,
            seed=self.seed,
            method=self.method,
            first_budget=float(self.course[0]),
            runs=self.step + 1,
            max_budget=float(self.course[self.step]),
            accuracy_top=_value(top),
            accuracy_any=max(self.best, _value(self.study.best)),
            budget=float(sum(run.cost for run in runs)),
            budget_resumed=float(sum(run.cost_resumed for run in runs)),
            evaluations=sum(run.evaluations for run in runs),
        )


def _value(best: Evaluation) -> float:
    assert best.value is not None
    return best.value


class Surrogate:
    """The accuracies of jobs on one data set, each predicted once."""

    def __init__(self, draws: Draws, instance: str, last_budget: Fraction) -> None:
        self.draws, self.instance = draws, instance
        self.known: defaultdict[int, dict[JobKey, float]] = defaultdict(dict)
        """By seed, then job."""
        # A budget is a number of epochs, or a share of the last max_budget of the course.
        self._unit = 1 if draws.benchmark.fidelity.whole else last_budget

    def learn(self, asked: Iterable[tuple[int, Sequence[Job]]]) -> None:
        """Predict the jobs of each seed that are not known yet."""
        new: dict[SeededKey, float] = {}
        for seed, jobs in asked:
            known = self.known[seed]
            for job in jobs:
                key = job[:3]
                if key not in known:
                    new[seed, key] = job.budget
        if new:
            self._predict(new)

    def _predict(self, new: dict[SeededKey, float]) -> None:
        repl = np.array([seed % 10 + 1 for seed, _ in new])
        unit = float(self._unit)
        budgets = [budget / unit for budget in new.values()]
        rows = self.draws.rows(new)
        found = self.draws.benchmark.accuracies(rows, self.instance, budgets, repl)
        for (seed, key), accuracy in zip(new, found.tolist(), strict=True):
            self.known[seed][key] = accuracy


def walk(
    draws: Draws,
    instance: str,
    eta: int,
    courses: Sequence[Course],
    seeds: Iterable[int],
    every_step: bool,
    brackets: int | None = None,
) -> Iterator[Row]:
    """Run all methods along all courses on one data set. All courses have the same last max_budget.

    All studies have the first `brackets` brackets only, if it is given. Yields one row for the end
    of each course, or for every step of it.
    """
    (last,) = {course[-1] for course in courses}
    surrogate = Surrogate(draws, instance, last)
    walks = [Walk(draws, eta, course, seed, brackets) for seed in seeds for course in courses]
    while walks:
        asked = [(each, each.study.ask_all()) for each in walks]
        surrogate.learn((each.seed, jobs) for each, jobs in asked)
        for each, jobs in asked:
            known = surrogate.known[each.seed]
            each.study.tell_all([(job, known[job[:3]]) for job in jobs])
        going = [each for each in walks if not each.study.done]
        finished = [each for each in walks if each.study.done]
        finished += [other for each in finished if each.first for other in each.copies()]
        for each in finished:
            if each.last or every_step:
                yield each.row(draws.benchmark.name, instance)
            each.advance()
        walks = going + [each for each in finished if not each.done]
