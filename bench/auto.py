"""The rule for deepening alone against every fixed max_budget and against PASHA's rule, on YAHPO
Gym's surrogates: what it spends, what it finds, and how its threshold was chosen. `deepband
compare` measures the advice as a whole, with widening.

    python bench/auto.py                 if $YAHPO_DATA is a clone of yahpo_data
    python bench/auto.py 20 3            with 20 seeds, beginning eta^3 below the surrogate's top
    python bench/auto.py 20 2 0.3        with noise, as a share of the spread of random configs

A study begins eta^2 below the top of the surrogate and is deepened while a rule says so. Rules see
the same study, since they differ only in when they stop. Regret is that of the best config on the
top rung that was reached, as it was trained: 0 is the best that anybody found on a data set, 1 the
median of configs drawn by chance and trained to the top. With noise, it is what the config is worth
without it.

cost     of a fresh run at the top
ratio    what was spent by the least that a fixed max_budget, known in hindsight, needs for no more
         regret: the mean over studies
         (of a rule that stops early it says little: little was needed for that much regret)
excess   the regret beyond that of spending as much on all data sets alike, whatever their runs say:
         at one fixed max_budget, or at two neighbouring ones in turn; with its standard error over
         data sets
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import deepband
from deepband import Advice, Study
from deepband.analysis.evidence import FEWEST, LEAST_GAIN, decide, look
from deepband.analysis.gains import Losses, losses_by_rung, noise
from deepband.research.benchmark import Problem
from deepband.research.paper.courses import Draws
from deepband.research.yahpo import Scenario
from deepband.samplers import Uniform

if TYPE_CHECKING:
    from deepband.research.benchmark import Floats

DATA = Path(os.environ.get("YAHPO_DATA") or "../shared/yahpo_data")
TUNING = {
    "lcbench": ("3945", "7593", "34539", "126025"),
    "rbv2_xgboost": ("12", "28", "40981", "54"),
}
"""Thresholds are chosen on these data sets alone."""
RUNGS = {2: 6, 3: 4}
"""By eta: as many as lie between the surrogates' smallest and largest budgets."""
THRESHOLDS = (0.0, 0.02, 0.05, LEAST_GAIN, 0.15, 0.2)
Rule = Callable[[Advice, Study], bool]


def least_gain(threshold: float, fewest: int = FEWEST) -> Rule:
    """Our rule, with other constants."""

    def rule(advice: Advice, study: Study) -> bool:
        found = look(losses_by_rung(study.session.state), threshold)
        return decide(found, threshold, fewest)[0]

    return rule


def pasha(advice: Advice, study: Study) -> bool:
    """PASHA's rule alone: go on until the two top rungs agree. On each place of the upper ranking
    stands somebody who is no further than the noise, below, from whom the lower ranking has there.
    """
    low, high = losses_by_rung(study.session.state)[-2:]
    both = [place for place in high if place in low]
    width = noise(losses_by_rung(study.session.state))[0]
    pairs = zip(_ranked(both, low), _ranked(both, high), strict=True)
    agree = all(abs(low[one] - low[other]) <= width for one, other in pairs)
    return not agree or len(both) < 2


def _ranked(places: list[tuple[int, int]], losses: Losses) -> list[tuple[int, int]]:
    return sorted(places, key=lambda place: (losses[place], place))


RULES: dict[str, Rule] = {
    "advice": lambda advice, study: advice.deepening.pays,
    "pasha": pasha,
    "always": lambda advice, study: True,
    **{f"gain > {threshold}": least_gain(threshold) for threshold in THRESHOLDS},
    **{f"{fewest} or more": least_gain(LEAST_GAIN, fewest) for fewest in (1, 3)},
}


@dataclass
class Stop:
    """A finished run."""

    cost: float
    value: float
    going: dict[str, bool]
    """By rule: whether it would deepen here."""


@dataclass
class Course:
    """One study on one data set."""

    best: float
    """The best value seen on the way."""
    median: float
    steps: list[Stop]
    fixed: list[Stop]
    """Fresh runs at each max_budget."""

    def stopped(self, rule: str) -> Stop:
        """Where a rule ends: at the top at the latest."""
        return next((step for step in self.steps if not step.going[rule]), self.steps[-1])


@dataclass
class Simulation:
    """Studies of one data set with one seed."""

    problem: Problem
    draws: Draws
    eta: int
    seed: int
    noise: float

    def budgets(self) -> list[float]:
        top, rungs = float(self.problem.fidelity.high), RUNGS[self.eta]
        return [top / self.eta**level for level in range(rungs - 1, -1, -1)]

    def open(self, max_budget: float) -> Study:
        return deepband.open_study(
            space=self.draws.space,
            sampler=self.draws,
            eta=self.eta,
            min_budget=self.budgets()[0],
            max_budget=max_budget,
            seed=self.seed,
            maximize=True,
        )

    def finish(self, study: Study) -> None:
        while not study.done:
            jobs = study.ask_all()
            found = self.problem.accuracies(
                [job.config for job in jobs], [job.budget for job in jobs]
            )
            told = [
                (job, float(value) + self.noise * random.Random(f"{self.seed} {job.key}").gauss())
                for job, value in zip(jobs, found, strict=True)
            ]
            study.tell_all(told)

    def stop(self, study: Study, rules: dict[str, Rule]) -> Stop:
        best = study.best_at()
        value = self.problem(best.config, best.budget)  # without noise
        advice = study.advice()
        going = {name: rule(advice, study) for name, rule in rules.items()}
        return Stop(float(sum(run.cost for run in study.runs)), value, going)

    def course(self, levels: int, scores: Floats) -> Course:
        study = self.open(self.budgets()[-1 - levels])
        self.finish(study)
        steps = [self.stop(study, RULES)]
        for _ in range(levels):
            study.deepen("preserving")
            self.finish(study)
            steps.append(self.stop(study, RULES))
        fixed = []
        for budget in self.budgets():
            fresh = self.open(budget)
            self.finish(fresh)
            fixed.append(self.stop(fresh, {}))
        best = max(scores.max(), *(each.value for each in [*steps, *fixed]))
        return Course(float(best), float(np.median(scores)), steps, fixed)


def courses(eta: int, seeds: int, levels: int, share: float) -> Iterator[list[Course]]:
    """All studies, a list for each data set."""
    for name, instances in TUNING.items():
        scenario = Scenario(DATA, name)
        draws = Draws(scenario)
        drawn = Uniform().draw(draws.space, (), 0, range(1000), 10**6)
        for instance in instances:
            found = []
            for seed in range(seeds):
                problem = Problem(scenario, instance, seed % 10 + 1)
                scores = problem.accuracies(drawn, [problem.fidelity.high] * len(drawn))
                scale = share * float(np.subtract(*np.percentile(scores, [75, 25])))
                simulation = Simulation(problem, draws, eta, seed, scale)
                found.append(simulation.course(levels, scores))
            yield found


def numbers(same: list[Course], end: Callable[[Course], Stop]) -> list[float]:
    """(cost, regret, ratio): the means over the studies of a data set."""
    best = max(course.best for course in same)
    found = []
    for course in same:
        stop, top = end(course), course.fixed[-1].cost
        enough = [each.cost for each in course.fixed if each.value >= stop.value]
        regret = (best - stop.value) / (best - course.median)
        found.append((stop.cost / top, regret, stop.cost / min(enough, default=stop.cost)))
    return [float(each) for each in np.mean(found, axis=0)]


def fixed_at(level: int) -> Callable[[Course], Stop]:
    return lambda course: course.fixed[level]


def by(rule: str) -> Callable[[Course], Stop]:
    return lambda course: course.stopped(rule)


def excess(ends: Floats, curve: Floats) -> float:
    """The regret beyond that of spending as much on all data sets alike; of one row a data set."""
    cost, regret = ends.mean(axis=0)[:2]
    costs, regrets = curve.mean(axis=1)[:, :2].T
    return float(regret - np.interp(cost, costs, regrets))


def show(found: list[list[Course]], levels: int) -> None:
    """Print a line for each rule, and for each fixed max_budget."""
    reached = range(-1 - levels, 0)
    curve = np.array([[numbers(same, fixed_at(level)) for same in found] for level in reached])
    chance = np.random.default_rng(0)
    samples = chance.integers(len(found), size=(1000, len(found)))
    for rule in RULES:
        ends = np.array([numbers(same, by(rule)) for same in found])
        cost, regret, ratio = ends.mean(axis=0)
        error = np.std([excess(ends[sample], curve[:, sample]) for sample in samples])
        beyond = f"{excess(ends, curve):+.3f} +- {error:.3f}"
        print(f"  {rule:22}  {cost:.3f}  {regret:.3f}   {ratio:.2f}   {beyond}", flush=True)
    for level, (cost, regret, ratio) in zip(reached, curve.mean(axis=1), strict=True):
        print(f"  {f'fixed at top / eta^{-1 - level}':22}  {cost:.3f}  {regret:.3f}   {ratio:.2f}")


def main() -> None:
    given = [*sys.argv[1:], *("20", "2", "0")[len(sys.argv) - 1 :]]
    seeds, levels, share = int(given[0]), int(given[1]), float(given[2])
    if not DATA.is_dir():
        print(f"auto: not measured, no surrogates at {DATA} (set YAHPO_DATA)")
        return
    for eta in RUNGS:
        print(f"eta {eta}, {seeds} seeds, from {levels} levels below the top, noise {share}")
        print(f"  {'rule':22}  cost   regret  ratio  excess")
        show(list(courses(eta, seeds, levels, share)), levels)


if __name__ == "__main__":
    main()
