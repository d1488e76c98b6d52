"""What a Gaussian process learns from: which observations, and as which numbers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from deepband.core.records import Evaluation
from deepband.samplers.gp_regression import Data
from deepband.samplers.observations import best_first, targets
from deepband.space.unit_cube import Floats, Points

GROWTH = 1.1
"""The parameters of the model are fitted again when there are this many times the observations."""
FLOOR = 0.1
"""Losses that are closer to the best, in units of the median distance to it, are equally good. With
a smaller value, the best few losses would be outliers."""
INACTIVE = 0.0
"""What stands for the value of an inactive number."""


class Inputs:
    """The points of a space as inputs of a model: choices in one-hot encoding, no constants."""

    def __init__(self, points: Points) -> None:
        self.points = points
        varies = ~points.is_constant
        self._numbers = np.flatnonzero(varies & ~points.has_no_order)
        self._choices = np.flatnonzero(varies & points.has_no_order)

    def of(self, places: Floats) -> Floats:
        """The inputs of points: one row each. Two different choices have a distance of 1, and an
        inactive one of half the square root of 2 from any."""
        numbers = places[:, self._numbers]
        parts = [np.where(np.isnan(numbers), INACTIVE, numbers)]
        for number in self._choices:
            size = self.points.sizes[number]
            positions = np.floor(places[:, number, None] * size)
            parts.append((positions == np.arange(size)) / np.sqrt(2.0))
        return np.concatenate(parts, axis=1)


def training_set(observations: Sequence[Evaluation], most: int) -> Sequence[Evaluation]:
    """At most so many observations: those on higher rungs first, on each rung the better ones."""
    if len(observations) <= most:
        return observations
    return sorted(best_first(observations), key=attrgetter("rung"), reverse=True)[:most]


def milestone(observations: Sequence[Evaluation]) -> Sequence[Evaluation]:
    """The oldest observations, as many as there were at the last milestone. A model whose
    parameters are fitted to these is fitted again only when there are notably more."""
    count = 1
    while (larger := int(count * GROWTH) + 1) <= len(observations):
        count = larger
    return sorted(observations, key=attrgetter("run", "bracket", "rung", "index"))[:count]


def training_data(inputs: Inputs, observations: Sequence[Evaluation]) -> Data:
    """Observations as numbers. The targets have mean 0 and variance 1."""
    places = inputs.points.of([each.config for each in observations])
    rungs = np.array([each.rung for each in observations], dtype=np.float64)
    raw = targets(observations, FLOOR)
    return Data(inputs.of(places), rungs, (raw - raw.mean()) / (raw.std() or 1.0))
