"""What more budget brought so far: gains from rung to rung, their noise, and exchanged ranks.

All numbers are of finite losses; a failure says nothing about what more budget brings. A gain is a
loss that became smaller, so that it is positive for those who maximise, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import TypeAlias

from deepband.analysis.chart_data import is_drawable
from deepband.core.state import State
from deepband.core.strategies import Place

Losses: TypeAlias = Mapping[Place, float]
"""The finite losses on a rung, by (bracket, index)."""

NOISE_SHARE = 0.9
"""The noise is the distance that this share of pairs that cross back and forth stay within: PASHA's
90th percentile."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rung brought, beyond the one below it."""

    budgets: tuple[int | float, int | float]
    incumbent: float | None
    """By how much the best loss on it is smaller than the best one below."""
    promoted: float | None
    """By how much the losses of those on both became smaller: the median."""
    configs: int
    """How many are on both."""


def losses_by_rung(state: State) -> list[dict[Place, float]]:
    """The finite losses on each rung, over all brackets."""
    found: list[dict[Place, float]] = [{} for _ in range(state.schedule.top + 1)]
    for (bracket, rung), results in sorted(state.results.items()):
        for index, told in sorted(results.items()):
            if is_drawable(told.loss):
                found[rung][bracket, index] = told.loss
    return found


def gains(rungs: Sequence[Losses], budgets: Sequence[int | float]) -> tuple[Gain, ...]:
    """For each rung but the lowest."""
    return tuple(
        _gain(low, high, between)
        for (low, high), between in zip(pairwise(rungs), pairwise(budgets), strict=True)
    )


def _gain(low: Losses, high: Losses, budgets: tuple[int | float, int | float]) -> Gain:
    own = [low[place] - high[place] for place in high if place in low]
    best = min(low.values()) - min(high.values()) if low and high else None
    return Gain(budgets, best, median(own) if own else None, len(own))


def noise(rungs: Sequence[Losses]) -> tuple[float, int]:
    """How far apart two configs can be whose order means nothing, and how many pairs tell so.

    As PASHA estimates it: where two curves cross once, one config may have overtaken the other;
    where they cross and cross back, their order is chance. Each pair of the top rung that does so
    has a distance there. Without any there is no sign of noise, and it is 0.
    """
    distances = sorted(_distances(rungs, list(rungs[-1])))
    return (_share(distances, NOISE_SHARE) if distances else 0.0), len(distances)


def _distances(rungs: Sequence[Losses], places: Sequence[Place]) -> Iterator[float]:
    """Those of all pairs that cross back and forth."""
    for one, other in combinations(places, 2):
        apart = [rung[one] - rung[other] for rung in rungs if one in rung and other in rung]
        ahead = [distance > 0 for distance in apart if distance]
        if sum(before != after for before, after in pairwise(ahead)) > 1:
            yield abs(apart[-1])


def _share(ascending: Sequence[float], share: float) -> float:
    """The number that a share of them stay within, between two of them where it falls so."""
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def exchanges(low: Losses, high: Losses, noise: float) -> int:
    """How many pairs stand the other way round on the higher of two rungs, further apart than the
    noise on both."""
    both = [place for place in high if place in low]
    return sum(
        _exceeds(low[one] - low[other], high[other] - high[one], noise)
        for one, other in combinations(both, 2)
    )


def _exceeds(below: float, above: float, noise: float) -> bool:
    return min(below, above) > noise or max(below, above) < -noise
