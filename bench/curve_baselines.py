"""Other models of learning curves, to compare with deepband's own.

mean_change  the loss changes from rung to rung as that of other configs did: the mean and the
             deviation of all observed changes, those between the same rungs weighted more
regression   a power law: the change from one rung to the next is linear in the loss, with priors
gp           the Gaussian process of the sampler of that name, over (config, rung)
forest       a random forest over config, rung and last loss, fitted to observed changes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from deepband.analysis.learning_curves.curve_data import Inputs, LossScale, observations
from deepband.analysis.learning_curves.curve_model import LossDistribution
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.samplers.gp_regression import NOISE, Data, Regression, fitted
from deepband.space.unit_cube import Floats

Jobs: TypeAlias = Sequence[tuple[Place, int]]
FEW, MANY = 3.0, 30.0
"""Degrees of freedom."""


class Curves:
    """The targets of configs by rung, and all changes from one rung to the next."""

    def __init__(self, state: State) -> None:
        found = observations(state)
        self.scale = LossScale([each.loss for each in found])
        targets = self.scale.targets(np.array([each.loss for each in found]))
        self.targets: dict[Place, dict[int, float]] = {}
        for each, target in zip(found, targets.tolist(), strict=True):
            self.targets.setdefault(each.place, {})[each.rung] = target
        changes = [
            (place, rung, target, own[rung + 1] - target)
            for place, own in self.targets.items()
            for rung, target in own.items()
            if rung + 1 in own
        ]
        self.places = [each[0] for each in changes]
        self.rungs, self.starts, self.changes = (
            np.array([each[1:] for each in changes], dtype=np.float64).reshape(-1, 3).T
        )

    def last(self, place: Place) -> tuple[int, float]:
        """The highest rung of a config, and the target there."""
        rung = max(self.targets[place])
        return rung, self.targets[place][rung]

    def result(self, mean: float, spread: float, degrees: float) -> LossDistribution:
        arrays = np.array([1.0]), np.array([mean]), np.array([max(spread, 1e-6)])
        return LossDistribution(self.scale, degrees, *arrays)


def mean_change(state: State, jobs: Jobs) -> list[LossDistribution]:
    curves = Curves(state)

    def change(rung: int) -> tuple[float, float]:
        weights = np.append(0.3 ** np.abs(curves.rungs - rung), 1.0)
        changes = np.append(curves.changes, -0.2)  # before anything is observed
        squares = np.append((curves.changes - changes.mean()) ** 2, 0.09)
        return float(np.average(changes, weights=weights)), float(
            np.average(squares, weights=weights)
        )

    found = []
    for place, rung in jobs:
        first, target = curves.last(place)
        steps = [change(each) for each in range(first, rung)]
        mean, variance = np.sum(steps, axis=0)
        found.append(curves.result(target + mean, float(variance) ** 0.5, FEW))
    return found


def regression(state: State, jobs: Jobs) -> list[LossDistribution]:
    curves = Curves(state)
    # Found on tuning data sets, like the numbers of the model itself.
    prior, certainty, scale, count, decay = np.array([-0.1, 0.0]), 3.0 * np.eye(2), 0.3, 2.0, 0.6

    def fit(rung: int) -> tuple[Floats, Floats, float]:
        inputs = np.stack([np.ones_like(curves.starts), curves.starts], axis=1)
        weights = 0.3 ** np.abs(curves.rungs - rung)
        scaled = weights / decay ** (2 * (curves.rungs - rung))
        precision = certainty + inputs.T @ (scaled[:, None] * inputs)
        right = certainty @ prior + inputs.T @ (scaled * curves.changes)
        best = np.linalg.solve(precision, right)
        squares = count * scale**2 + scaled @ curves.changes**2
        squares += prior @ certainty @ prior - best @ precision @ best
        inverse = np.asarray(np.linalg.inv(precision), dtype=np.float64)
        return best, inverse, float(max(squares, 1e-9) / (count + weights.sum()))

    found = []
    for place, rung in jobs:
        first, mean = curves.last(place)
        variance = 0.0
        for each in range(first, rung):
            best, inverse, squares = fit(each)
            inputs = np.array([1.0, mean])
            variance *= (1.0 + best[1]) ** 2
            variance += squares * (1.0 + inputs @ inverse @ inputs)
            mean += float(inputs @ best)
        found.append(curves.result(mean, variance**0.5, FEW))
    return found


def gp(state: State, jobs: Jobs) -> list[LossDistribution]:
    curves, inputs = Curves(state), Inputs(state)
    rows = [(place, rung) for place, own in curves.targets.items() for rung in own]
    targets = np.array([curves.targets[place][rung] for place, rung in rows])
    middle, unit = targets.mean(), targets.std() or 1.0
    points = inputs.of([state.config(*place) for place, _ in rows])
    rungs = np.array([rung for _, rung in rows], dtype=np.float64)
    data = Data(points, rungs, (targets - middle) / unit)
    process = Regression(data, fitted(data))
    noise = np.exp(process.parameters[NOISE])
    found = []
    for place, rung in jobs:
        (mean,), (spread,) = process.predict(inputs.of([state.config(*place)]), float(rung))
        spread = unit * float(np.hypot(spread, noise**0.5))
        found.append(curves.result(float(middle + unit * mean), spread, MANY))
    return found


def forest(state: State, jobs: Jobs) -> list[LossDistribution]:
    """As `mean_change` until ten changes have been observed."""
    curves, inputs = Curves(state), Inputs(state)
    if len(curves.changes) < 10:
        return mean_change(state, jobs)
    from sklearn.ensemble import RandomForestRegressor

    own = inputs.of([state.config(*place) for place in curves.places])
    features = np.column_stack([own, curves.rungs, curves.starts])
    trees = RandomForestRegressor(50, min_samples_leaf=2, random_state=0, oob_score=True)
    trees.fit(features, curves.changes)
    noise = float(np.mean((trees.oob_prediction_ - curves.changes) ** 2))
    rungs, means = (np.array(each) for each in zip(*(curves.last(p) for p, _ in jobs), strict=True))
    points, variances = inputs.of([state.config(*place) for place, _ in jobs]), np.zeros(len(jobs))
    goals = np.array([rung for _, rung in jobs])
    while (going := np.flatnonzero(rungs < goals)).size:
        rows = np.column_stack([points, rungs, means])[going]
        votes = np.array([tree.predict(rows) for tree in trees.estimators_])
        means[going] += votes.mean(axis=0)
        variances[going] += votes.var(axis=0) + noise
        rungs[going] += 1
    pairs = zip(means.tolist(), variances.tolist(), strict=True)
    return [curves.result(mean, variance**0.5, FEW) for mean, variance in pairs]


BASELINES: dict[str, Callable[[State, Jobs], list[LossDistribution]]] = {
    "mean_change": mean_change,
    "regression": regression,
    "gp": gp,
    "forest": forest,
}
