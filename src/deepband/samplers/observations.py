"""The observations that samplers learn from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from deepband.core.records import Evaluation
from deepband.space.unit_cube import Floats

ENOUGH = 7
"""How many configs with finite losses a sampler needs before it makes proposals."""
WORST = 10.0
"""Losses farther from the best, in units of the median distance to it, are equally bad."""


def is_finite(evaluation: Evaluation) -> bool:
    """Whether an evaluation has a finite loss."""
    return evaluation.loss is not None and evaluation.loss < math.inf


def best_first(observations: Iterable[Evaluation]) -> list[Evaluation]:
    """Finite losses, then infinite ones, then failures. Ties keep their order."""
    return sorted(observations, key=_by_loss)


def _by_loss(evaluation: Evaluation) -> tuple[bool, float]:
    return evaluation.loss is None, 0.0 if evaluation.loss is None else evaluation.loss


def pool(observations: Iterable[Evaluation]) -> list[Evaluation]:
    """Each config by its result on the highest informative rung it reached: higher rungs first, and
    on each rung the best first. Infeasible results follow, if there are any. Empty if too few
    losses are finite."""
    found: dict[tuple[int, int], Evaluation] = {}
    for on_rung in _informative(observations):
        for each in best_first(on_rung):
            found.setdefault((each.bracket, each.index), each)
    ranked = list(found.values())
    if sum(map(is_finite, ranked)) < ENOUGH:
        return []
    return sorted(ranked, key=_is_bad) if any(map(_is_infeasible, ranked)) else ranked


def _is_infeasible(evaluation: Evaluation) -> bool:
    """Whether it violates constraints, to an extent that is known."""
    return is_finite(evaluation) and not evaluation.feasible


def _is_bad(evaluation: Evaluation) -> tuple[bool, bool]:
    """Sorts feasible results first, then infeasible ones, then rejected configs and failures."""
    return not is_finite(evaluation), not evaluation.feasible


def _informative(observations: Iterable[Evaluation]) -> list[list[Evaluation]]:
    """The observations on each informative rung, highest first: those above rung 0 and in the upper
    half. Losses on the lowest rungs often say little about final performance."""
    found: defaultdict[int, list[Evaluation]] = defaultdict(list)
    for each in observations:
        found[each.rung].append(each)
    lowest = max(1, math.ceil(max(found, default=0) / 2))
    return [found[rung] for rung in sorted(found, reverse=True) if rung >= lowest]


def targets(observations: Sequence[Evaluation], floor: float) -> Floats:
    """What a model learns to predict for these observations: the logarithm of a loss's distance to
    the best one, in units of the median distance. `floor` is added to the distance: differences
    among losses that are closer to the best count little.

    Thus differences among good losses count, and a single bad one does no harm. At least one loss
    must be finite."""
    finite = np.array([each.loss for each in observations if is_finite(each)], dtype=np.longdouble)
    best, median = finite.min(), np.median(finite)
    unit = (median - best) or (finite.max() - best) or np.longdouble(1)
    losses = [each.loss if is_finite(each) else np.inf for each in observations]
    distance = (np.array(losses, dtype=np.longdouble) - best) / unit
    return np.asarray(np.log(floor + np.minimum(distance, WORST)), dtype=np.float64)
