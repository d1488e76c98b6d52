"""Studies on data sets whose losses are all known, for `curves.py`.

A world is a data set with a seed: the configs of a study with max_budget 27 and the loss of each on
every rung. Losses are 1 - accuracy. Evaluations run one after another, bracket after bracket, as on
a virtual clock with one worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import deepband
from deepband.core.facts import ConfigsDrawn, JobFinished, JobKey, StudyCreated
from deepband.core.runs import started
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.research.benchmark import Benchmark
from deepband.research.paper.courses import Draws
from deepband.research.suites import SYNTHETIC, suite

ETA, LARGEST = 3, 27
FULL = Schedule.of(ETA, 1, LARGEST)
RANDOM = 2000
"""How many random configs define the median and, with all others, the best loss of a data set."""


@dataclass(frozen=True)
class World:
    """A data set with a seed."""

    group: str
    data_set: str
    seed: int
    losses: Mapping[JobKey, float]
    """By (bracket, index, rung)."""
    best: float
    """The best known loss of the data set with the full budget."""
    median: float
    """The median loss of random configs with the full budget."""
    created: Mapping[int, StudyCreated]
    """By the first max_budget."""
    drawn: tuple[ConfigsDrawn, ...]
    reports: bool = False
    """Whether evaluations report a learning curve: the losses at the budgets of lower rungs."""

    def regret(self, loss: float) -> float:
        return (loss - self.best) / self.unit

    @property
    def unit(self) -> float:
        return self.median - self.best

    def begin(self, max_budget: int, state: State) -> State:
        """Let a state without facts start a study in this world."""
        first = started(0, None, Schedule.of(ETA, 1, max_budget))
        state.apply([self.created[max_budget], *self.drawn, first])
        return state

    def deepen(self, state: State) -> None:
        larger = state.schedule.extended(levels=1)
        state.apply([started(state.run.number + 1, "preserving", larger)])

    def run(self, state: State) -> Iterator[tuple[int, int]]:
        """Evaluate the current run. Yields every cell (bracket, rung) that was completed, before
        anything else is evaluated."""
        for bracket, progress in enumerate(state.progress):
            while progress.waiting:
                rung, index = progress.rung, progress.waiting[-1]
                state.apply([self._evaluated(state, bracket, index, rung)])
                if progress.rung != rung or not progress.waiting:
                    yield bracket, rung

    def _evaluated(self, state: State, bracket: int, index: int, rung: int) -> JobFinished:
        curve = [
            (float(FULL.budget(each)), self.losses[bracket, index, each])
            for each in range(rung + 1)
        ]
        loss, points = curve[-1][1], tuple(curve) if self.reports else None
        return JobFinished(bracket, index, rung, state.run.number, loss, curve=points)

    def finish(self, state: State) -> State:
        for _ in self.run(state):
            pass
        return state


def data_sets(data: str, chosen: str) -> dict[str, tuple[str, ...]]:
    """The data sets of a list ("tuning" or "reporting") by benchmark. nb301 is in neither list,
    because its best config is hardly better than the median; here it is reported, too."""
    lists = dict(suite(data).instances[chosen])
    if data != SYNTHETIC and chosen == "reporting" and Path(data, "nb301").is_dir():
        lists["nb301"] = ("CIFAR10",)
    return lists


def worlds(data: str, chosen: str, seeds: int) -> Iterator[World]:
    """All worlds of a list of data sets, seed after seed."""
    for name, instances in data_sets(data, chosen).items():
        benchmark = suite(data).read(name)
        yield from _worlds(benchmark, instances, seeds)


def _worlds(benchmark: Benchmark, instances: tuple[str, ...], seeds: int) -> Iterator[World]:
    draws = Draws(benchmark)
    jobs = [
        (bracket, index, rung)
        for bracket in FULL.brackets
        for index in range(FULL.start_size(bracket))
        for rung in range(FULL.top + 1)
    ]
    high = benchmark.fidelity.high
    budgets = [high * float(FULL.budget(rung) / FULL.max_budget) for *_, rung in jobs]
    drawn = {seed: _drawn(draws, seed) for seed in range(seeds)}
    random = benchmark.encode(
        deepband.samplers.Uniform().draw(draws.space, (), 0, range(RANDOM), 10**6)
    )
    created = {size: _created(draws, size) for size in (9, LARGEST)}
    for instance in instances:
        scores = 1 - benchmark.accuracies(random, instance, [high] * RANDOM)
        tables = []
        for seed in drawn:
            rows = draws.rows((seed, job) for job in jobs)
            tables.append(1 - benchmark.accuracies(rows, instance, budgets))
        best = float(min(scores.min(), *(table.min() for table in tables)))
        group = benchmark.name.partition("_")[0]
        for seed, table in enumerate(tables):
            losses = dict(zip(jobs, table.tolist(), strict=True))
            median = float(np.median(scores))
            yield World(
                group,
                f"{benchmark.name} {instance}",
                seed,
                losses,
                best,
                median,
                created,
                drawn[seed],
            )


def _drawn(draws: Draws, seed: int) -> tuple[ConfigsDrawn, ...]:
    return tuple(
        ConfigsDrawn(
            bracket,
            0,
            tuple(draws.draw(draws.space, (), bracket, range(FULL.start_size(bracket)), seed)),
        )
        for bracket in FULL.brackets
    )


def _created(draws: Draws, max_budget: int) -> StudyCreated:
    study = deepband.open_study(space=draws.space, max_budget=max_budget, eta=ETA)
    return study.session.state.created
