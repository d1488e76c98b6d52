"""The order of configs on a rung: the one function that ranks, for any criteria.

With one objective, smaller losses come first, then configs whose training was stopped early, then
+inf, then failures. With several objectives or with constraints:

1. Feasible configs whose losses are all finite come first, front by front (non-dominated sorting).
2. Those whose training was stopped early follow: those that were trained longer first, and among
   equals those with the smaller last loss.
3. Those with a loss of +inf follow, front by front.
4. Infeasible configs follow, by their total violation. The violation of each constraint is divided
   by the largest finite one in the pool; a config that was rejected before it was trained is last.
5. Failures come last.

Within each of these, a tie goes to the smaller index. Only one front can be split by the number of
slots, and only if it is one of the first kind, it is thinned, so that its promoted configs are
spread over the front: the first one has the smallest sum of scaled losses, and each of the others
is the farthest from those before it. Each objective is scaled by its range over the configs of the
first kind in the pool; a range of 0 scales to 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:  # loaded only with several objectives or constraints
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Place: TypeAlias = tuple[int, int]
"""A config by its (bracket, index)."""
Key = TypeVar("Key", int, Place)


class Standing(NamedTuple):
    """What ranks a config if there are several objectives or constraints."""

    losses: tuple[float, ...] | None
    """None for a failure."""
    violations: tuple[float, ...] = ()
    """By constraint; +inf if the config was rejected before it was trained."""
    stopped: tuple[float, float] | None = None
    """If training was stopped early, so that the losses are +inf: the negative of the budget after
    which it was, and the last loss reported."""

    @property
    def feasible(self) -> bool:
        """Whether it did not fail and no bound is violated."""
        return self.losses is not None and not any(self.violations)

    @property
    def finite(self) -> bool:
        """Whether it is feasible, and all losses are finite."""
        return self.feasible and self.losses is not None and max(self.losses) < math.inf


Score: TypeAlias = float | Standing | None
"""What ranks a config: a loss, None for a failure or, where a loss does not say it all, a standing.
The scores of a pool are all standings or none of them is."""


def ranked(pool: Set[Key], scores: Mapping[Key, Score], slots: int | None = None) -> list[Key]:
    """The pool, best first. With `slots`, the first that many are those to promote."""
    if isinstance(next(iter(scores.values()), None), Standing):
        return _by_front(_standings(pool, scores), slots)
    losses = [(loss, key) for key in pool if (loss := scores[key]) is not None]
    losses.sort()
    if len(losses) == len(pool):
        return [key for _, key in losses]
    return [key for _, key in losses] + sorted(key for key in pool if scores[key] is None)


def is_failure(score: Score) -> bool:
    return score is None or (isinstance(score, Standing) and score.losses is None)


def _standings(pool: Set[Key], scores: Mapping[Key, Score]) -> dict[Key, Standing]:
    """The standings of a pool, sorted by key."""
    found = ((key, scores[key]) for key in sorted(pool))
    return {key: score for key, score in found if isinstance(score, Standing)}


def _by_front(standings: Mapping[Key, Standing], slots: int | None) -> list[Key]:
    order: list[Key] = []
    for front in fronts(standings):
        free = 0 if slots is None else slots - len(order)
        split = 0 < free < len(front) and standings[front[0]].finite
        order += _spread(front, standings, free) if split else front
    return order


def fronts(standings: Mapping[Key, Standing]) -> list[list[Key]]:
    """Groups of configs, best first; within each one in the order of `standings`. Nothing but
    thinning and the index orders the configs of a group."""
    groups: list[list[Key]] = _fronts(
        [key for key, each in standings.items() if each.finite], standings
    )
    infinite = [key for key, each in standings.items() if each.feasible and not each.finite]
    stopped = {key: each for key in infinite if (each := standings[key].stopped) is not None}
    groups += ([key] for key in sorted(stopped, key=lambda key: stopped[key]))
    groups += _fronts([key for key in infinite if key not in stopped], standings)
    infeasible = [key for key, each in standings.items() if each.losses and not each.feasible]
    groups += _by_number(infeasible, total_violations([standings[key] for key in infeasible]))
    failed = [key for key, each in standings.items() if each.losses is None]
    if failed:
        groups.append(failed)
    return groups


def non_dominated(vectors: Sequence[tuple[float, ...]]) -> list[int]:
    """The positions of vectors that no other one dominates. Equal vectors do not dominate each
    other."""
    numbers = _front_numbers(vectors)
    best = min(numbers, default=0)
    return [position for position, number in enumerate(numbers) if number == best]


def _fronts(keys: Sequence[Key], standings: Mapping[Key, Standing]) -> list[list[Key]]:
    return _by_number(keys, _front_numbers([standings[key].losses or () for key in keys]))


def _front_numbers(vectors: Sequence[tuple[float, ...]]) -> Sequence[float]:
    """By vector: the number of its front, 0 for those that no other one dominates."""
    if not vectors:
        return []
    if len(vectors[0]) == 1:
        return [loss for (loss,) in vectors]  # any numbers in this order do
    import moocore
    import numpy as np

    losses = np.array(vectors, dtype=np.float64)
    if not np.isfinite(losses).all():  # moocore ranks infinity wrongly with three objectives
        columns = [np.unique(column, return_inverse=True)[1] for column in losses.T]
        losses = np.array(columns, dtype=np.float64).T  # any numbers in this order do
    return [int(front) for front in moocore.pareto_rank(np.ascontiguousarray(losses))]


def _by_number(keys: Sequence[Key], numbers: Sequence[float]) -> list[list[Key]]:
    """Keys in groups of equal numbers, the smallest one first."""
    groups: dict[float, list[Key]] = {}
    for key, number in zip(keys, numbers, strict=True):
        groups.setdefault(number, []).append(key)
    return [groups[number] for number in sorted(groups)]


def total_violations(standings: Sequence[Standing]) -> list[float]:
    """The sum of the violations of each one, scaled by the largest finite ones."""
    columns = list(zip(*(each.violations for each in standings), strict=True))
    units = [_largest_finite(column) for column in columns]
    return [
        math.fsum(each / unit for each, unit in zip(standing.violations, units, strict=True))
        for standing in standings
    ]


def _largest_finite(violations: Iterable[float]) -> float:
    return max((each for each in violations if 0.0 < each < math.inf), default=1.0)


def _spread(front: list[Key], standings: Mapping[Key, Standing], count: int) -> list[Key]:
    """A front in which the first `count` configs are spread over it, and the others follow."""
    import numpy as np

    finite = [key for key, each in standings.items() if each.finite]
    losses = np.array([standings[key].losses for key in finite], dtype=np.float64)
    rows = {key: row for row, key in enumerate(finite)}
    points = scaled(losses)[[rows[key] for key in front]]
    chosen = [front[position] for position in _farthest_first(points, count)]
    left = set(front).difference(chosen)
    return chosen + [key for key in front if key in left]


def scaled(losses: Floats) -> Floats:
    """Losses scaled to the unit cube. They are halved first, because the range of two floats may be
    too large for a float."""
    import numpy as np

    halves = losses / 2.0
    low = halves.min(axis=0)
    span = halves.max(axis=0) - low
    return np.asarray((halves - low) / np.where(span > 0.0, span, np.inf))


def _farthest_first(points: Floats, count: int) -> list[int]:
    """The positions of `count` points: the one with the smallest sum, then always the farthest from
    those before it."""
    import numpy as np

    columns = np.ascontiguousarray(points.T)
    nearest = np.full(len(points), np.inf)
    apart, along = np.empty_like(nearest), np.empty_like(nearest)  # one allocation for all rounds
    chosen = [int(np.argmin(sum(columns)))]
    while len(chosen) < count:
        last = chosen[-1]
        apart.fill(0.0)
        for column in columns:
            np.subtract(column, column[last], out=along)
            np.multiply(along, along, out=along)
            np.add(apart, along, out=apart)
        np.minimum(nearest, apart, out=nearest)
        nearest[last] = -1.0
        farthest = int(np.argmax(nearest))
        if nearest[farthest] == 0.0:  # all others equal a chosen one, so that the index decides
            left = np.flatnonzero(nearest == 0.0)[: count - len(chosen)]
            return chosen + [int(position) for position in left]
        chosen.append(farthest)
    return chosen
