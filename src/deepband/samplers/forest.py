"""A random forest over (config, rung) with expected improvement, in the spirit of SMAC's
multi-fidelity facade (Lindauer et al., 2022), on scikit-learn's forests.

The forest is trained on observations of all rungs, at most 1,000, and predicts losses on the
highest one. Candidates are sampled at random and around the best configs. The one with the largest
expected improvement, by the mean and the standard deviation of the trees, is proposed. Each config
of a group has candidates of its own, so that the group is spread out, and none is proposed twice.

The target is the logarithm of a loss's distance to the best one, in units of the median distance.
Thus differences among good losses count, and a single bad one does no harm: all losses beyond ten
units, infinite ones and failures are equally bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

import numpy as np
from numpy.random import RandomState
from sklearn.ensemble import ExtraTreesRegressor

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.model_based import is_random
from deepband.samplers.observations import best_first, is_finite, pool, targets
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points

TREES = 30
MOST = 1000
"""How many observations the forest is trained on at most."""
RANDOM = 150
"""How many candidates for a config are sampled at random."""
NEAR = 150
"""How many candidates for a config are neighbours of the best configs."""
PARENTS = 3
"""How many of the best configs have neighbours."""
WIDTH = 0.2
"""The standard deviation of the step to a neighbour, as a share of the range."""
CHANCE = 0.5
"""The probability that a neighbour differs in a parameter."""
FLOOR = 0.01
"""Losses that are closer to the best, in units of the median distance to it, are equally good."""
INACTIVE = -1.0


def propose(
    space: Space,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    indices: Sequence[int],
    random: RandomState,
) -> list[Config | None]:
    points = Points(space)
    ranked = [each for each in pool(observations) if is_finite(each)]
    wanted = [place for place, index in enumerate(indices) if not is_random(index)]
    proposed: list[Config | None] = [None] * len(indices)
    if ranked and wanted:
        found = _best(points, observations, ranked, pending, len(wanted), random)
        for place, config in zip(wanted, found, strict=True):
            proposed[place] = config
    return proposed


def _best(
    points: Points,
    observations: Sequence[Evaluation],
    ranked: Sequence[Evaluation],
    pending: Sequence[Config],
    count: int,
    random: RandomState,
) -> list[Config | None]:
    """`count` configs, each the best of its own candidates, and none of them known or pending."""
    forest = ExtraTreesRegressor(
        TREES, min_samples_split=3, bootstrap=True, random_state=int(random.randint(2**31))
    )
    used = training_set(observations)
    known = points.of([each.config for each in used])
    rungs = np.array([each.rung for each in used], dtype=np.float64)
    forest.fit(_features(known, rungs), targets(used, FLOOR))
    parents = points.of([each.config for each in ranked[:PARENTS]])
    candidates = np.concatenate(
        [_candidates(points, points.filled(parents, random), random) for _ in range(count)]
    )
    configs = points.configs(candidates)
    legal = points.of([config or ranked[0].config for config in configs])
    gain = _improvement(forest, _features(legal, ranked[0].rung))
    gain[[config is None for config in configs]] = -np.inf
    chosen = _new(
        gain.reshape(count, -1), _keys(legal), {*_keys(known), *_keys(points.of(pending))}
    )
    return [None if number is None else configs[number] for number in chosen]


def _keys(places: Floats) -> list[bytes]:
    """Points as bytes, which are equal for equal configs."""
    return [place.tobytes() for place in np.nan_to_num(places, nan=INACTIVE)]


def _new(gain: Floats, keys: Sequence[bytes], taken: set[bytes]) -> Iterator[int | None]:
    """In each row, the number of the largest gain whose key is not taken yet, or None."""
    numbers = np.arange(gain.size).reshape(gain.shape)
    for row, order in zip(numbers, (-gain).argsort(axis=1, kind="stable"), strict=True):
        legal = row[order][np.isfinite(gain.ravel()[row[order]])].tolist()
        number = next((each for each in legal if keys[each] not in taken), None)
        if number is not None:
            taken.add(keys[number])
        yield number


def training_set(observations: Sequence[Evaluation]) -> Sequence[Evaluation]:
    """At most 1,000 observations: those on higher rungs first, and on each rung the better ones."""
    if len(observations) <= MOST:
        return observations
    return sorted(best_first(observations), key=attrgetter("rung"), reverse=True)[:MOST]


def _features(places: Floats, rungs: Floats | int) -> Floats:
    """The inputs of the forest: points, and the rung."""
    column = np.broadcast_to(np.asarray(rungs, dtype=np.float64), len(places))
    return np.column_stack([np.nan_to_num(places, nan=INACTIVE), column])


def _candidates(points: Points, parents: Floats, random: RandomState) -> Floats:
    anywhere = random.uniform(size=(RANDOM, parents.shape[1]))
    around = parents[random.randint(len(parents), size=NEAR)]
    return np.concatenate([anywhere, points.near(around, WIDTH, CHANCE, random)])


def _improvement(forest: ExtraTreesRegressor, features: Floats) -> Floats:
    """The expected improvement on the smallest mean, from the mean and standard deviation of the
    trees."""
    from scipy.stats import norm

    inputs = features.astype(np.float32)  # as trees have them: checks are not needed
    trees = np.array([tree.predict(inputs, check_input=False) for tree in forest.estimators_])
    mean, spread = trees.mean(axis=0), trees.std(axis=0) + 1e-9
    ahead = (mean.min() - mean) / spread
    return np.asarray(spread * (ahead * norm.cdf(ahead) + norm.pdf(ahead)))
