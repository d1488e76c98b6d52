"""Who goes up a rung: what tells discarding, preserving and efficient deepening apart.

All three are asked the same question, on one rung of one bracket in one run:

    arrived   who is on this rung in this run (all of them are evaluated here by now)
    before    who had been evaluated on this rung when the run began
    above     who had been evaluated on the rung above when the run began

and give the same kind of answer: who goes up in any case, and who competes for the places
that are left. In the first run `before` and `above` are empty and all three are Hyperband.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple, TypeAlias

from deepband.errors import UnknownNameError

Indices: TypeAlias = Set[int]
NOBODY: frozenset[int] = frozenset()


class Contest(NamedTuple):
    """Who goes up in any case, and who competes for the places that are left."""

    kept: Indices
    pool: Indices

    def free(self, places: int) -> int:
        """How many of the places on the rung above the pool competes for."""
        return max(0, places - len(self.kept))


def discarding(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide anew, as a fresh run would: earlier promotions count for nothing."""
    return Contest(NOBODY, arrived)


def preserving(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide anew, and let everyone who was ever evaluated here compete again."""
    return Contest(NOBODY, arrived | before)


def efficient(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Revoke nothing: who is above stays there, and only the free places are filled."""
    return Contest(above, (arrived | before) - above)


Strategy: TypeAlias = Callable[[Indices, Indices, Indices], Contest]
STRATEGIES: dict[str, Strategy] = {
    "discarding": discarding,
    "preserving": preserving,
    "efficient": efficient,
}


def strategy_named(name: str) -> Strategy:
    """The strategy of this name."""
    if not isinstance(name, str) or name not in STRATEGIES:
        raise UnknownNameError("strategy", name, STRATEGIES)
    return STRATEGIES[name]


def promoted(contest: Contest, losses: Mapping[int, float | None], places: int) -> frozenset[int]:
    """Who goes up, given the losses on this rung and the places on the rung above."""
    best = ranked(contest.pool, losses)[: contest.free(places)]
    return frozenset(contest.kept).union(best)


def ranked(pool: Indices, losses: Mapping[int, float | None]) -> list[int]:
    """Best first: finite losses, then +inf, then failures; a tie goes to the smaller index."""
    told = [(loss, index) for index in pool if (loss := losses[index]) is not None]
    told.sort()
    if len(told) == len(pool):
        return [index for _, index in told]
    return [index for _, index in told] + sorted(i for i in pool if losses[i] is None)
