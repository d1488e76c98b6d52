"""What samplers that learn look at, among all that they are shown."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from deepband.records import Evaluation


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


def highest_filled(observations: Iterable[Evaluation], least: int) -> Sequence[Evaluation]:
    """All on the highest rung that has at least so many finite losses, best first."""
    for _, told in sorted(by_rung(observations).items(), reverse=True):
        if sum(map(is_finite, told)) >= least:
            return best_first(told)
    return ()
