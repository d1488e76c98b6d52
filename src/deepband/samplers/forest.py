"""A random forest over (config, rung) with expected improvement, in the spirit of SMAC's
multi-fidelity facade (Lindauer et al., 2022), on scikit-learn's forests.

The forest learns from all observations on all rungs, at most 1,000 of them, and is asked about the
highest one. Candidates are drawn by chance and around the best; the one with the
largest expected improvement, by the mean and the spread of the trees, is proposed. Each place of a
group has candidates of its own, so that a group does not crowd, and nothing is proposed twice.

Losses are learned as logarithms of their distance to the best one, in units of the median's. So
differences among the good ones count, and one bad loss spoils nothing: beyond ten medians, or
infinite, or failed, all are equally bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.random import RandomState
from sklearn.ensemble import ExtraTreesRegressor

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.model_based import is_by_chance
from deepband.samplers.observations import best_first, is_finite, pool
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points

TREES = 30
MOST = 1000
"""Observations to learn from, at most."""
BY_CHANCE = 150
"""Candidates for a place that are drawn anywhere."""
NEAR = 150
"""Candidates for a place that are neighbours of the best."""
PARENTS = 3
"""How many of the best have neighbours."""
WIDTH = 0.2
"""Of the step to a neighbour, as a share of the range."""
CHANCE = 0.5
"""That a neighbour differs in a parameter."""
FLOOR = 0.01
WORST = 10.0
"""Losses between these two, in units of the median's distance to the best, are told apart."""
INACTIVE = -1.0


def propose(
    space: Space, observations: Sequence[Evaluation], indices: Sequence[int], random: RandomState
) -> list[Config | None]:
    points = Points(space)
    ranked = [each for each in pool(observations) if is_finite(each)]
    wanted = [place for place, index in enumerate(indices) if not is_by_chance(index)]
    proposed: list[Config | None] = [None] * len(indices)
    if ranked and wanted:
        found = _best(points, observations, ranked, len(wanted), random)
        for place, config in zip(wanted, found, strict=True):
            proposed[place] = config
    return proposed


def _best(
    points: Points,
    observations: Sequence[Evaluation],
    ranked: Sequence[Evaluation],
    count: int,
    random: RandomState,
) -> list[Config | None]:
    """So many configs, each the best of candidates of its own."""
    forest = ExtraTreesRegressor(
        TREES, min_samples_split=3, bootstrap=True, random_state=int(random.randint(2**31))
    )
    shown = newest(observations)
    known = points.of([each.config for each in shown])
    forest.fit(_features(known, _rungs(shown)), learned(shown))
    parents = points.of([each.config for each in ranked[:PARENTS]])
    candidates = np.concatenate(
        [_candidates(points, points.filled(parents, random), random) for _ in range(count)]
    )
    configs = points.configs(candidates)
    legal = points.of([config or ranked[0].config for config in configs])
    gain = _improvement(forest, _features(legal, ranked[0].rung))
    gain[[config is None for config in configs]] = -np.inf
    chosen = _new(gain.reshape(count, -1), _keys(legal), set(_keys(known)))
    return [None if number is None else configs[number] for number in chosen]


def _keys(places: Floats) -> list[bytes]:
    """The same for the same config."""
    return [place.tobytes() for place in np.nan_to_num(places, nan=INACTIVE)]


def _new(gain: Floats, keys: Sequence[bytes], taken: set[bytes]) -> Iterator[int | None]:
    """In each row the number of the one with the largest gain that is not taken yet; it is then."""
    numbers = np.arange(gain.size).reshape(gain.shape)
    for row, order in zip(numbers, (-gain).argsort(axis=1, kind="stable"), strict=True):
        legal = row[order][np.isfinite(gain.ravel()[row[order]])].tolist()
        number = next((each for each in legal if keys[each] not in taken), None)
        if number is not None:
            taken.add(keys[number])
        yield number


def newest(observations: Sequence[Evaluation]) -> Sequence[Evaluation]:
    """At most 1,000: those on higher rungs first, and on a rung the better ones."""
    if len(observations) <= MOST:
        return observations
    return sorted(best_first(observations), key=_rung, reverse=True)[:MOST]


def _rung(evaluation: Evaluation) -> int:
    return evaluation.rung


def _rungs(observations: Sequence[Evaluation]) -> Floats:
    return np.array([each.rung for each in observations], dtype=np.float64)


def learned(observations: Sequence[Evaluation]) -> Floats:
    """Losses as the forest learns them."""
    finite = np.array([each.loss for each in observations if is_finite(each)], dtype=np.longdouble)
    best, median = finite.min(), np.median(finite)
    unit = (median - best) or (finite.max() - best) or np.longdouble(1)
    losses = [each.loss if is_finite(each) else np.inf for each in observations]
    distance = (np.array(losses, dtype=np.longdouble) - best) / unit
    return np.asarray(np.log(FLOOR + np.minimum(distance, WORST)), dtype=np.float64)


def _features(places: Floats, rungs: Floats | int) -> Floats:
    """What the forest sees of configs: their points, and the rung."""
    column = np.broadcast_to(np.asarray(rungs, dtype=np.float64), len(places))
    return np.column_stack([np.nan_to_num(places, nan=INACTIVE), column])


def _candidates(points: Points, parents: Floats, random: RandomState) -> Floats:
    anywhere = random.uniform(size=(BY_CHANCE, parents.shape[1]))
    around = parents[random.randint(len(parents), size=NEAR)]
    return np.concatenate([anywhere, points.near(around, WIDTH, CHANCE, random)])


def _improvement(forest: ExtraTreesRegressor, features: Floats) -> Floats:
    """The expected improvement on the least mean, by the mean and the spread of the trees."""
    from scipy.stats import norm

    trees = np.array([tree.predict(features.astype(np.float32)) for tree in forest.estimators_])
    mean, spread = trees.mean(axis=0), trees.std(axis=0) + 1e-9
    ahead = (mean.min() - mean) / spread
    return np.asarray(spread * (ahead * norm.cdf(ahead) + norm.pdf(ahead)))
