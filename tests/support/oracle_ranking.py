"""A second implementation of the ranking with several objectives and constraints, straight from its
definition in docs/explanation/ranking.md: naive, quadratic, and in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Vector = tuple[float, ...]


class Result(NamedTuple):
    """A result on one rung."""

    losses: Vector | None
    """Minimised; None for a failure."""
    violations: Vector = ()
    """By constraint, 0 if it holds; +inf for a config that was rejected."""
    stopped: tuple[float, float] | None = None
    """If training was stopped early: minus the budget until then, and the last loss reported."""


def order(pool: dict[Key, Result], slots: int | None = None) -> list[Key]:
    """The keys of a pool, best first."""
    placed: list[Key] = []
    for group, thinned in groups(pool):
        free = 0 if slots is None else slots - len(placed)
        splits = thinned and 0 < free < len(group)
        placed += thin(group, pool, free) if splits else group
    return placed


def groups(pool: dict[Key, Result]) -> list[tuple[list[Key], bool]]:
    """The groups of a pool, best first, each sorted by key, and whether it may be thinned."""
    failures = [key for key in sorted_keys(pool) if pool[key].losses is None]
    others = [key for key in sorted_keys(pool) if pool[key].losses is not None]
    infeasible = [key for key in others if any(pool[key].violations)]
    feasible = [key for key in others if key not in infeasible]
    finite = [key for key in feasible if all(map(math.isfinite, losses(pool, key)))]
    stopped = [key for key in feasible if key not in finite and pool[key].stopped]
    infinite = [key for key in feasible if key not in finite and not pool[key].stopped]
    found = [(front, True) for front in fronts(finite, lambda key: losses(pool, key))]
    for moment in sorted({pool[key].stopped or (0.0, 0.0) for key in stopped}):
        found.append(([key for key in stopped if pool[key].stopped == moment], False))
    found += [(front, False) for front in fronts(infinite, lambda key: losses(pool, key))]
    totals = dict(zip(infeasible, total_violations([pool[key] for key in infeasible]), strict=True))
    for total in sorted(set(totals.values())):
        found.append(([key for key in infeasible if totals[key] == total], False))
    return [*found, (failures, False)]


def sorted_keys(pool: dict[Key, Result]) -> list[Key]:
    return sorted(pool)  # type: ignore[type-var] # keys are numbers, or pairs of them


def losses(pool: dict[Key, Result], key: Key) -> Vector:
    found = pool[key].losses
    assert found is not None
    return found


def dominates(one: Vector, other: Vector) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))


def fronts(keys: list[Key], vector: Callable[[Key], Vector]) -> list[list[Key]]:
    """Non-dominated sorting: take away what nothing that is left dominates, again and again."""
    found: list[list[Key]] = []
    left = list(keys)
    while left:
        front = [
            key for key in left if not any(dominates(vector(other), vector(key)) for other in left)
        ]
        found.append(front)
        left = [key for key in left if key not in front]
    return found


def total_violations(results: Sequence[Result]) -> list[float]:
    """The sum of each one's violations, each in units of the largest finite one in the pool."""
    columns = list(zip(*(each.violations for each in results), strict=True))
    units = [max([each for each in column if 0 < each < math.inf] or [1.0]) for column in columns]
    return [
        math.fsum(each / unit for each, unit in zip(result.violations, units, strict=True))
        for result in results
    ]


def thin(front: list[Key], pool: dict[Key, Result], count: int) -> list[Key]:
    """A front whose first `count` configs are spread over it, and the others by key."""
    point = scaled(pool)
    chosen = [min(front, key=lambda key: sum(point[key]))]
    while len(chosen) < count:
        left = [key for key in front if key not in chosen]
        chosen.append(max(left, key=lambda key: min(apart(point[key], point[c]) for c in chosen)))
    return chosen + [key for key in front if key not in chosen]


def scaled(pool: dict[Key, Result]) -> dict[Key, Vector]:
    """The losses of all feasible configs with finite losses, each objective from 0 to 1."""
    finite = {
        key: each.losses
        for key, each in pool.items()
        if each.losses is not None
        and not any(each.violations)
        and all(map(math.isfinite, each.losses))
    }
    lows = [min(column) for column in zip(*finite.values(), strict=True)]
    highs = [max(column) for column in zip(*finite.values(), strict=True)]
    return {
        key: tuple(
            position(loss, low, high) for loss, low, high in zip(vector, lows, highs, strict=True)
        )
        for key, vector in finite.items()
    }


def position(loss: float, low: float, high: float) -> float:
    """Where a loss lies between the least and the largest. The difference of halves is finite."""
    span = high / 2 - low / 2
    return (loss / 2 - low / 2) / span if span > 0 else 0.0


def apart(one: Vector, other: Vector) -> float:
    """The squared distance."""
    return sum((mine - its) * (mine - its) for mine, its in zip(one, other, strict=True))
