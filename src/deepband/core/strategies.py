"""Who goes up a rung: what tells discarding, preserving and efficient deepening apart.

All three are asked the same question, on one rung of one bracket in one run:

    arrived   who is on this rung in this run (all of them are evaluated here by now)
    before    who had been evaluated on this rung when the run began
    above     who had been evaluated on the rung above when the run began

and give the same kind of answer: who goes up in any case, and who competes for the slots
that are left. In the first run `before` and `above` are empty and all three are Hyperband.

`frugal` is a fourth way to deepen, outside the paper and without its guarantees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

from deepband.errors import UnknownNameError

Indices: TypeAlias = Set[int]
Place: TypeAlias = tuple[int, int]
"""A config by its (bracket, index)."""
Who = TypeVar("Who", int, Place)
NOBODY: frozenset[int] = frozenset()


class Contest(NamedTuple):
    """Who goes up in any case, and who competes for the slots that are left."""

    kept: Indices
    pool: Indices

    def free(self, slots: int) -> int:
        """How many of the slots on the rung above the pool competes for."""
        return max(0, slots - len(self.kept))


def discarding(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide again, as a fresh run on the same configs would: earlier promotions do not count."""
    return Contest(NOBODY, arrived)


def preserving(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Decide anew, and let everyone who was ever evaluated here compete again."""
    return Contest(NOBODY, arrived | before)


def efficient(arrived: Indices, before: Indices, above: Indices) -> Contest:
    """Revoke nothing: who is above stays there, and only the free slots are filled."""
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


def frugal(losses: Mapping[Place, float | None], eta: int) -> tuple[list[Place], int]:
    """Outside the paper: one contest over all brackets, of everyone evaluated on the top rung, to
    go to the new one. Who competes, best first, and for how many slots; failures never go."""
    good = {place for place, loss in losses.items() if loss is not None}
    return ranked(good, losses), -(-len(losses) // eta)


def check_name(name: str) -> None:
    """Raise for a name that is no way to deepen."""
    if not isinstance(name, str) or name not in NAMES:
        raise UnknownNameError("strategy", name, NAMES)


def strategy_named(name: str) -> Strategy:
    """The paper's strategy of this name."""
    for each, strategy in STRATEGIES.items():
        if name == each:
            return strategy
    raise UnknownNameError("strategy", name, STRATEGIES)


def promoted(contest: Contest, losses: Mapping[int, float | None], slots: int) -> frozenset[int]:
    """Who goes up, given the losses on this rung and the slots on the rung above."""
    best = ranked(contest.pool, losses)[: contest.free(slots)]
    return frozenset(contest.kept).union(best)


def ranked(pool: Set[Who], losses: Mapping[Who, float | None]) -> list[Who]:
    """Best first: finite losses, then +inf, then failures; a tie goes to the smaller index, or
    bracket, then index."""
    told = [(loss, who) for who in pool if (loss := losses[who]) is not None]
    told.sort()
    if len(told) == len(pool):
        return [who for _, who in told]
    return [who for _, who in told] + sorted(who for who in pool if losses[who] is None)
