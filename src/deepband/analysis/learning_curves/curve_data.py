"""What predictions of losses are learned from: finite losses on rungs, as numbers for a model."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from deepband.analysis.chart_data import Axis, axes, is_drawable
from deepband.core.facts import Config, JobFinished, JobKey
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.space.unit_cube import Floats

MOST = 200
"""How many losses are used at most: the time grows with the third power."""
STRETCH = 1.0
"""Losses are compared on a linear scale up to about this many units from the best one."""
WORST = 10.0
"""Losses farther from the best one, in units, are equally bad: a few configs that diverge must not
make all predictions uncertain."""
FARTHEST = 1e100
"""No prediction is farther from the best loss than this, in units."""
SAME = 1e-6
"""A reported loss is the returned one if it differs by less than this share."""
AGREEMENT = 0.1
"""Curves agree with evaluations if they differ by no more than this share of the distance from the
best loss to the median: the median over configs counts."""
ALMOST = 0.9
"""A curve ends at a budget if it reaches at least this share of it, or all but one unit."""
Losses: TypeAlias = dict[JobKey, float]


class Observation(NamedTuple):
    """A finite loss of a config on a rung."""

    place: Place
    rung: int
    loss: float


def observations(state: State, results: Iterable[JobFinished] | None = None) -> list[Observation]:
    """The finite losses of these results, by default of all, and those of reported curves, sorted
    by config and rung."""
    results = list(state.all_results() if results is None else results)
    found = {
        (result.bracket, result.index, result.rung): result.number
        for result in results
        if is_drawable(result.number)
    }
    complete = [each for each in results if each.stopped_after is None]
    comparable = len(complete) == len(results) or curves_are_comparable(state, results)
    reported = _reported(state, results if comparable else complete)
    if _agree(found, reported):
        found = reported | found
    return [Observation((b, i), rung, loss) for (b, i, rung), loss in sorted(found.items())]


def _agree(evaluated: Losses, reported: Losses) -> bool:
    """Whether curves show what evaluations with less budget return. They do not if the learning
    rate depends on the budget, for example; it shows on configs that have both."""
    both = [abs(reported[key] - evaluated[key]) for key in reported if key in evaluated]
    losses = list(evaluated.values())
    return not both or bool(np.median(both) <= AGREEMENT * (np.median(losses) - min(losses)))


def curves_are_comparable(state: State, results: Iterable[JobFinished]) -> bool:
    """Whether the reported curves of these results pass the budgets of lower rungs, end at that of
    their own or one step before, with the loss that was returned, and show what evaluations with
    less budget return. Those on the lowest rung pass none."""
    complete = [each for each in results if each.stopped_after is None]
    evaluated = {each[:3]: each.number for each in complete if is_drawable(each.number)}
    with_curves = [each for each in complete if each.curve and each.rung]
    comparable = sum(_has_steps_of_budget(state, each) for each in with_curves)
    mostly = comparable > len(with_curves) / 2
    return mostly and _agree(evaluated, _reported(state, with_curves))


def _has_steps_of_budget(state: State, result: JobFinished) -> bool:
    budget, curve = float(state.run.budgets[result.rung]), _losses_of(result)
    begun = result.resumed_from
    passed = state.run.budgets[result.rung - 1 if begun is None else min(begun + 1, result.rung)]
    if not curve or curve[0][0] > passed:
        return False
    return min(budget - 1.0, ALMOST * budget) <= curve[-1][0] <= budget


def _reported(state: State, results: Iterable[JobFinished]) -> Losses:
    """What configs reported on their way, at the budgets of lower rungs, by job."""
    found: Losses = {}
    with_curves = (result for result in results if result.curve and result.rung)
    for result in sorted(with_curves, key=attrgetter("bracket", "index", "rung")):
        curve, end = _losses_of(result), None
        if result.stopped_after is not None:
            curve, end = _losses_until_stopped(state, result), state.run.budgets[result.rung]
        steps, losses = [step for step, _ in curve], [loss for _, loss in curve]
        for rung in range(result.rung) if curve else ():
            step = (end or steps[-1]) / state.schedule.eta ** (result.rung - rung)
            if steps[0] <= step <= steps[-1]:
                job = result.bracket, result.index, rung
                found[job] = float(np.interp(step, steps, losses))
    return found


def _losses_until_stopped(state: State, result: JobFinished) -> list[tuple[float, float]]:
    """The (step, loss) pairs of training that was stopped early. Its steps are in the unit of the
    budget."""
    curve = sorted(point for point in result.curve or () if is_drawable(point[1]))
    return [(step, -value if state.created.maximize else value) for step, value in curve]


def _losses_of(result: JobFinished) -> list[tuple[float, float]]:
    """The (step, loss) pairs that a result was reported with, or none if the last of them is not
    the loss that was returned: then they measure something else. A value to be maximised was
    recorded as it was reported."""
    curve = sorted(point for point in result.curve or () if is_drawable(point[1]))
    if not curve or not is_drawable(result.number):
        return []
    for sign in (1.0, -1.0):
        if abs(sign * curve[-1][1] - result.number) <= SAME * abs(result.number):
            return [(step, sign * loss) for step, loss in curve]
    return []


def selected(found: Sequence[Observation], places: Sequence[Place]) -> list[Observation]:
    """At most MOST observations, and all of the given configs. The configs on the highest rungs
    come first, because more is known about their curves."""
    if len(found) <= MOST:
        return list(found)
    counts = Counter(each.place for each in found)
    highest = {each.place: each.rung for each in found}
    order = sorted(highest, key=lambda place: (place not in places, -highest[place], place))
    totals = accumulate(counts[place] for place in order)
    kept = {place for place, total in zip(order, totals, strict=True) if total <= MOST}
    return [each for each in found if each.place in kept or each.place in places]


class LossScale:
    """A scale on which the losses of a study are compared: about linear near the best loss and
    below it, and logarithmic far above it. The unit is the distance of the median to the best."""

    def __init__(self, losses: Sequence[float]) -> None:
        self.best = min(losses)
        unit = float(np.median(losses)) - self.best or max(losses) - self.best
        self.unit = max(STRETCH * (unit or abs(self.best) or 1.0), sys.float_info.min)

    def targets(self, losses: Floats) -> Floats:
        """Losses on the scale: 0 is the best one."""
        farthest = FARTHEST * self.unit  # a tiny unit would make the quotient overflow
        apart = np.clip(losses - self.best, -farthest, farthest) / self.unit
        return np.where(apart > 0.0, np.log1p(np.maximum(apart, 0.0)), apart)

    def observed(self, losses: Floats) -> Floats:
        """Observed losses on the scale, in which very bad ones are equal."""
        return self.targets(np.minimum(losses, self.best + WORST * self.unit))

    def losses(self, targets: Floats) -> Floats:
        """What is on the scale, as losses."""
        above = np.expm1(np.clip(targets, 0.0, np.log(FARTHEST)))
        return np.asarray(self.best + self.unit * np.where(targets > 0.0, above, targets))


class Inputs:
    """The parameters of configs as numbers: choices in one-hot encoding, no constants. `known` are
    the configs, by default all, that say how large a parameter without bounds is."""

    def __init__(self, state: State, known: Sequence[Config] | None = None) -> None:
        self._axes = [axis for axis in axes(state, known) if len(axis.choices or "ab") > 1]

    def of(self, configs: Sequence[Config]) -> Floats:
        """One row for each config. Two different choices have a distance of 1."""
        rows = [[each for axis in self._axes for each in _inputs(axis, c)] for c in configs]
        return np.array(rows, dtype=np.float64).reshape(len(configs), -1)


def _inputs(axis: Axis, config: Config) -> list[float]:
    place = axis.position(config[axis.name]) if axis.name in config else None
    if axis.choices is None:
        return [0.0 if place is None else place]
    size = len(axis.choices)
    chosen = -1 if place is None else int(place * size)
    return [(number == chosen) * 0.5**0.5 for number in range(size)]
