"""What more budget has gained so far: gains from rung to rung, their noise, and exchanged ranks.

All numbers are computed from finite, feasible losses. A gain is the decrease of a loss, so that it
is positive for an improvement even if the study maximizes. With several objectives, hypervolumes
take the place of losses (`front_volumes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import TypeAlias

from deepband.analysis.chart_data import is_drawable
from deepband.analysis.front_volumes import FrontVolumes, counts
from deepband.core.rank_order import Place
from deepband.core.state import State

Losses: TypeAlias = Mapping[Place, float]
"""The finite losses on a rung, by (bracket, index)."""

NOISE_SHARE = 0.9
"""The noise is this quantile of the distances of pairs that cross back and forth: the 90th
percentile, as in PASHA."""


@dataclass(frozen=True, slots=True)
class Gain:
    """What a rung gained over the one below it."""

    budgets: tuple[int | float, int | float]
    incumbent: float | None
    """By how much its best loss is smaller than the best one below; with several objectives, by how
    much the hypervolume of its front is larger."""
    promoted: float | None
    """The median decrease of the losses of the configs on both rungs."""
    configs: int
    """How many configs are on both rungs."""


def losses_by_rung(state: State) -> list[dict[Place, float]]:
    """The finite losses of feasible configs on each rung, over all brackets. None of a study with
    several objectives, whose losses `FrontVolumes` has."""
    found: list[dict[Place, float]] = [{} for _ in range(state.schedule.top + 1)]
    for (bracket, rung), results in sorted(state.results.items()):
        for index, result in sorted(results.items()):
            if is_drawable(result.number) and counts(state, result):
                found[rung][bracket, index] = result.number
    return found


def gains(
    rungs: Sequence[Losses], budgets: Sequence[int | float], volumes: FrontVolumes | None = None
) -> tuple[Gain, ...]:
    """The gain of each rung but the lowest."""
    best = [best_loss(rungs, rung, volumes) for rung in range(len(rungs))]
    return tuple(
        _gain(low, high, between, ends)
        for (low, high), between, ends in zip(
            pairwise(rungs), pairwise(budgets), pairwise(best), strict=True
        )
    )


def best_loss(
    rungs: Sequence[Losses], rung: int, volumes: FrontVolumes | None = None
) -> float | None:
    """The best loss on a rung, or minus the hypervolume of its front; None if it is empty."""
    if volumes is not None and rungs[rung]:
        return 0.0 - volumes.of(rung)
    return min(rungs[rung].values(), default=None)


def _gain(
    low: Losses,
    high: Losses,
    budgets: tuple[int | float, int | float],
    best: tuple[float | None, float | None],
) -> Gain:
    own = [low[place] - high[place] for place in high if place in low]
    below, here = best
    gain = None if below is None or here is None else below - here
    return Gain(budgets, gain, median(own) if own else None, len(own))


def noise(rungs: Sequence[Losses]) -> tuple[float, int]:
    """The largest difference of losses that means nothing, and the number of pairs behind it.

    Estimated as in PASHA: where two curves cross once, one config may have overtaken the other;
    where they cross back, their order is random. The noise is a quantile of the distances of such
    pairs on the top rung, or 0 if there are none.
    """
    distances = sorted(_distances(rungs, list(rungs[-1])))
    return (_quantile(distances, NOISE_SHARE) if distances else 0.0), len(distances)


def _distances(rungs: Sequence[Losses], places: Sequence[Place]) -> Iterator[float]:
    """The distances on the top rung of all pairs that cross back and forth."""
    for one, other in combinations(places, 2):
        apart = [rung[one] - rung[other] for rung in rungs if one in rung and other in rung]
        ahead = [distance > 0 for distance in apart if distance]
        if sum(before != after for before, after in pairwise(ahead)) > 1:
            yield abs(apart[-1])


def _quantile(ascending: Sequence[float], share: float) -> float:
    """A quantile of ascending numbers, interpolated linearly."""
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def exchanges(low: Losses, high: Losses, noise: float) -> int:
    """How many pairs two rungs order differently, with a distance beyond the noise on both."""
    both = [place for place in high if place in low]
    apart = [(low[a] - low[b], high[b] - high[a]) for a, b in combinations(both, 2)]
    return sum(min(pair) > noise or max(pair) < -noise for pair in apart)
