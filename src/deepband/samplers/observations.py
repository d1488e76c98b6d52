"""What samplers that learn look at, among all that they are shown."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from deepband.core.records import Evaluation

ENOUGH = 7
"""So many configs must be known on telling rungs before a sampler believes that it learned
something."""


def is_finite(evaluation: Evaluation) -> bool:
    """Whether it has a loss to compare with others."""
    return evaluation.loss is not None and evaluation.loss < math.inf


def by_rung(observations: Iterable[Evaluation]) -> dict[int, list[Evaluation]]:
    """Observations on each rung, in their order."""
    found: defaultdict[int, list[Evaluation]] = defaultdict(list)
    for each in observations:
        found[each.rung].append(each)
    return found


def best_first(observations: Iterable[Evaluation]) -> list[Evaluation]:
    """Finite losses, then infinite ones, then failures; of equals the first stays first."""
    return sorted(observations, key=_standing)


def _standing(evaluation: Evaluation) -> tuple[bool, float]:
    return evaluation.loss is None, 0.0 if evaluation.loss is None else evaluation.loss


def pool(observations: Iterable[Evaluation]) -> list[Evaluation]:
    """Every config on its highest telling rung: those of the highest rung first, and on each the
    best first. Nothing, unless enough have finite losses."""
    found: dict[tuple[int, int], Evaluation] = {}
    for told in _telling(observations):
        for each in best_first(told):
            found.setdefault((each.bracket, each.index), each)
    return list(found.values()) if sum(map(is_finite, found.values())) >= ENOUGH else []


def _telling(observations: Iterable[Evaluation]) -> list[list[Evaluation]]:
    """Observations on the rungs that tell something, the highest first: those above rung 0, from
    half of the highest one up. Who learns from the lowest rungs is misled by them."""
    found = by_rung(observations)
    lowest = max(1, math.ceil(max(found, default=0) / 2))
    return [found[rung] for rung in sorted(found, reverse=True) if rung >= lowest]
