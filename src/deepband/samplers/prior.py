"""The user's prior, mixed with random configs and the best so far, as in PriorBand (Mallik et al.,
2023: "PriorBand: Practical Hyperparameter Optimization in the Age of Deep Learning").

A parameter with a prior (normal, beta, or weights of choices) is sampled from it. Any other is
sampled from a normal distribution around its default value with a standard deviation of a quarter
of its range or, if it is categorical, with half of the weight on the default. Once there are enough
observations, some samples are neighbours of the best config on the highest rung instead. Their
share depends on which of the two explains the best third better: each counts by the density it
gives to these configs, weighted by rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ConfigSpace.hyperparameters import (
    BetaFloatHyperparameter,
    BetaIntegerHyperparameter,
    CategoricalHyperparameter,
    NormalFloatHyperparameter,
    NormalIntegerHyperparameter,
)
from numpy.random import RandomState

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.model_based import is_random
from deepband.samplers.observations import is_finite, pool
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points, reflected

WIDTH = 0.25
"""The standard deviation around a default value or the best config, as a share of the range."""
ON_DEFAULT = 0.5
"""The weight of the default among choices."""
CHANCE = 0.5
"""The probability that a neighbour differs in a parameter."""
MOST = 20
"""How many of the best configs decide the share of neighbours, at most."""
SHAPED = (
    NormalFloatHyperparameter,
    NormalIntegerHyperparameter,
    BetaFloatHyperparameter,
    BetaIntegerHyperparameter,
)


def propose(
    space: Space,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    indices: Sequence[int],
    random: RandomState,
) -> list[Config | None]:
    points, count = Points(space), len(indices)
    default = _default(points)
    sampled = _from_prior(points, default, count, random)
    ranked = [each for each in pool(observations) if is_finite(each)]
    if ranked:
        best = points.of([each.config for each in ranked[: max(3, min(MOST, len(ranked) // 3))]])
        best = points.filled(best, random)
        near = points.near(np.repeat(best[:1], count, axis=0), WIDTH, CHANCE, random)
        chosen = random.uniform(size=count) < _trust(points, default, best)
        sampled = np.where(chosen[:, None], near, sampled)
    uniform = random.uniform(size=sampled.shape)
    at_random = np.array([is_random(index) for index in indices])
    return points.configs(np.where(at_random[:, None], uniform, sampled))


def _default(points: Points) -> Floats:
    """The point of the default config, including the defaults of inactive parameters."""
    values = {each.name: each.default_value for each in points.parameters}
    point: Floats = points.of([values])[0]
    return point


def _is_shaped(parameter: Any) -> bool:
    """Whether the space gives a parameter a prior."""
    if isinstance(parameter, CategoricalHyperparameter):
        return len(set(parameter.probabilities)) > 1
    return isinstance(parameter, SHAPED)


def _from_prior(points: Points, default: Floats, count: int, random: RandomState) -> Floats:
    shape = count, len(default)
    moved = reflected(default + random.normal(scale=WIDTH, size=shape))
    chosen = np.where(random.uniform(size=shape) < ON_DEFAULT, default, random.uniform(size=shape))
    sampled = np.where(points.has_no_order, chosen, moved)
    for number, parameter in enumerate(points.parameters):
        if _is_shaped(parameter):
            vector = parameter.sample_vector(count, seed=random)
            listed, size = points.is_listed[number], points.sizes[number]
            sampled[:, number] = (vector + 0.5) / size if listed else vector
    return sampled


def _trust(points: Points, default: Floats, best: Floats) -> float:
    """The share of neighbours of the best config among the configs that are not random."""
    weights = np.log(np.arange(len(best), 0, -1))
    prior = np.logaddexp.reduce(weights + _log_prior(points, default, best))
    near = np.logaddexp.reduce(weights + _log_near(points, best[0], best))
    return float(1.0 / (1.0 + np.exp(np.clip(prior - near, -700, 700))))


def _log_prior(points: Points, default: Floats, found: Floats) -> Floats:
    """The logarithm of the density of the prior at points, up to a constant."""
    same = np.floor(found * points.sizes) == np.floor(default * points.sizes)
    parts = _log_around(points, default, found, same, ON_DEFAULT)
    for number, parameter in enumerate(points.parameters):
        if _is_shaped(parameter):
            column, size = found[:, number], points.sizes[number]
            vector = np.floor(column * size) if points.is_listed[number] else column
            density = parameter.pdf_vector(np.clip(vector, 0.0, None))
            parts[:, number] = np.log(np.maximum(density, 1e-12))
    return np.asarray(parts.sum(axis=1))


def _log_near(points: Points, best: Floats, found: Floats) -> Floats:
    """The same for neighbours of the best config, which keep or move each parameter."""
    same = np.floor(found * points.sizes) == np.floor(best * points.sizes)
    return np.asarray(_log_around(points, best, found, same, 1.0 - CHANCE).sum(axis=1))


def _log_around(points: Points, centre: Floats, found: Floats, same: Any, weight: float) -> Floats:
    """By parameter: the log density of a normal around `centre`, or `weight` on one choice."""
    normal = -0.5 * ((found - centre) / WIDTH) ** 2 - np.log(WIDTH * np.sqrt(2 * np.pi))
    rest = (1.0 - weight) / points.sizes
    listed = np.log(np.where(same, weight + rest, rest) * points.sizes)
    parts: Floats = np.where(points.has_no_order, listed, normal)
    return parts
