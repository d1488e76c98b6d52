"""Which configs are promoted: the rule that sets discarding, preserving and efficient deepening
apart.

Each strategy answers the same question, on one rung of one bracket in one run:

    arrived   the configs on this rung in this run, all of them evaluated
    before    the configs that had been evaluated on this rung when the run started
    above     the configs that had been evaluated on the rung above when the run started

Its answer is a `Contest`: which configs are promoted in any case, and which compete for the
remaining slots. In the first run `before` and `above` are empty, and all three are Hyperband.

`frugal` is a fourth way to deepen, outside the paper and without its guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Literal, NamedTuple, TypeAlias, get_args

from deepband.core.rank_order import Place, Score, is_failure, ranked
from deepband.errors import UnknownNameError

Indices: TypeAlias = Set[int]
EMPTY: frozenset[int] = frozenset()


class Contest(NamedTuple):
    """The configs that are promoted in any case, and those that compete for the other slots."""

    kept: Indices
    pool: Indices

    def free(self, slots: int) -> int:
        """How many of the slots on the rung above the pool competes for."""
        return max(0, slots - len(self.kept))


def discarding(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide again as a fresh run on the same configs would: earlier promotions do not count."""
    return Contest(EMPTY, arrived)


def preserving(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide again among all configs that were ever evaluated on this rung."""
    return Contest(EMPTY, arrived | before)


def efficient(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Keep all earlier promotions, and fill only the free slots."""
    return Contest(above, (arrived | before) - above)


Strategy: TypeAlias = Callable[[Indices, Indices, Indices], Contest]
StrategyName: TypeAlias = Literal["discarding", "preserving", "efficient", "frugal"]
"""All ways to deepen: those of the paper, and `frugal` outside it."""
STRATEGIES: dict[StrategyName, Strategy] = {
    "discarding": discarding,
    "preserving": preserving,
    "efficient": efficient,
}
FRUGAL: Literal["frugal"] = "frugal"
NAMES: tuple[StrategyName, ...] = get_args(StrategyName)


def frugal(scores: Mapping[Place, Score], eta: int) -> tuple[list[Place], int]:
    """One contest over all brackets for the new top rung, outside the paper: the competing configs,
    best first, and the number of slots. `scores` are those on the old top rung; failures are never
    promoted."""
    good = {place for place, score in scores.items() if not is_failure(score)}
    slots = -(-len(scores) // eta)
    return ranked(good, scores, slots), slots


def check_name(name: str) -> None:
    """Raise UnknownNameError unless it names a way to deepen."""
    if not isinstance(name, str) or name not in NAMES:
        raise UnknownNameError("strategy", name, NAMES)


def strategy_named(name: str) -> Strategy:
    """The paper's strategy of this name."""
    for each, strategy in STRATEGIES.items():
        if name == each:
            return strategy
    raise UnknownNameError("strategy", name, STRATEGIES)


def promoted(contest: Contest, scores: Mapping[int, Score], slots: int) -> frozenset[int]:
    """The promoted configs, given the scores on this rung and the slots on the rung above."""
    free = contest.free(slots)
    return frozenset(contest.kept).union(ranked(contest.pool, scores, free)[:free])
