"""Differential evolution as a sampler, in the spirit of DEHB (Awad, Mallik and Hutter, 2021).

The parents are the better half, 4 to 20, of the configs in `observations.pool`, where a higher rung
counts more than a smaller loss. A child is a mutant a + F (b - c) of three of them, crossed with a
fourth: each parameter is the mutant's with probability one half, and at least one is. Points that
leave the unit cube are mirrored back; choices and integers are rounded in the cube. A child that a
forbidden clause excludes is replaced by a random config.

DEHB keeps a population on every rung and replaces its members one by one. Here Hyperband decides
which configs are promoted, and the parents are chosen again for every group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import RandomState

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.model_based import is_random
from deepband.samplers.observations import is_finite, pool
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points, reflected

FACTOR = 0.5
CROSSOVER = 0.5
FEWEST, MOST = 4, 20
"""The number of parents."""


def propose(
    space: Space,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    indices: Sequence[int],
    random: RandomState,
) -> list[Config | None]:
    points = Points(space)
    ranked = [each for each in pool(observations) if is_finite(each)]
    if not ranked:
        return [None] * len(indices)
    best = ranked[: max(FEWEST, min(MOST, len(ranked) // 2))]
    parents = points.of([each.config for each in best])
    children = points.configs(_children(points.filled(parents, random), len(indices), random))
    return [
        None if is_random(index) else child for index, child in zip(indices, children, strict=True)
    ]


def _children(parents: Floats, count: int, random: RandomState) -> Floats:
    """`count` children of four or more parents."""
    order = random.uniform(size=(count, len(parents))).argsort(axis=1)
    base, plus, minus, other = (parents[order[:, place]] for place in range(4))
    mutants = reflected(base + FACTOR * (plus - minus))
    crossed = random.uniform(size=mutants.shape) < CROSSOVER
    crossed[np.arange(count), random.randint(mutants.shape[1], size=count)] = True
    return np.where(crossed, mutants, other)
