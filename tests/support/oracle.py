"""A second implementation of Iterative Deepening Hyperband to compare with, straight from its
definition: without state or incremental updates.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

Loss = float | None
Losses = Callable[[int, int, int], Loss]
"""The loss of (bracket, index, rung)."""
Cells = dict[tuple[int, int], set[int]]
Choose = Callable[[dict[Any, Any], int], list[Any]]
"""The keys of the best results, at most as many as there are slots."""
PAPER = ("discarding", "preserving", "efficient")


def start_size(eta: int, top: int, bracket: int, width: int = 1) -> int:
    height = top - bracket
    exact = Fraction((top + 1) * eta**height, height + 1)
    return width * (int(exact) if exact.denominator == 1 else int(exact) + 1)


def by_loss(pool: dict[Any, Loss], count: int) -> list[Any]:
    def key(index: Any) -> tuple[bool, float, Any]:
        value = pool[index]
        return (value is None, 0.0 if value is None else value, index)

    return sorted(pool, key=key)[:count]


def run(
    eta: int,
    top: int,
    strategy: str | None,
    seen: Cells,
    losses: Callable[[int, int, int], Any],
    width: int = 1,
    brackets: int | None = None,
    choose: Choose = by_loss,
) -> tuple[Cells, Cells]:
    """What a run evaluates, and which configs arrive, in each cell; updates `seen`. A run that
    fills the level of a frugal one is not special, nor is one that extends an unfinished one.
    `losses` may be any results that `choose` ranks, with None for failures."""
    if strategy == "frugal":
        return frugal(eta, top, seen, losses, choose)
    evaluated: Cells = {}
    arrivals: Cells = {}
    for b in range(top + 1 if brackets is None else min(top + 1, brackets)):
        before = {k: set(seen.get((b, k), set())) for k in range(b, top + 2)}
        size = start_size(eta, top, b, width)
        arrived = set(range(size))
        for k in range(b, top + 1):
            arrivals[b, k] = arrived
            evaluated[b, k] = arrived - before[k]
            seen[b, k] = before[k] | arrived
            if k == top:
                break
            m = size // eta ** (k + 1 - b)

            def best(pool: set[int], count: int, b: int = b, k: int = k) -> set[int]:
                return set(choose({index: losses(b, index, k) for index in pool}, count))

            if strategy in (None, "discarding"):
                arrived = best(arrived, m)
            elif strategy == "preserving":
                arrived = best(arrived | before[k], m)
            else:
                above = before[k + 1]
                rest = (arrived | before[k]) - above
                arrived = above | best(rest, max(0, m - len(above)))
    return evaluated, arrivals


def frugal(
    eta: int,
    top: int,
    seen: Cells,
    losses: Callable[[int, int, int], Any],
    choose: Choose = by_loss,
) -> tuple[Cells, Cells]:
    """The same for a run outside the paper, from the rung below `top` over all brackets."""
    everyone = [(b, i) for b in range(top) for i in sorted(seen.get((b, top - 1), ()))]
    slots = (len(everyone) + eta - 1) // eta
    results = {(b, i): losses(b, i, top - 1) for b, i in everyone}
    good = {place: result for place, result in results.items() if result is not None}
    promoted: Cells = {}
    for b, i in choose(good, slots):
        promoted.setdefault((b, top), set()).add(i)
    for cell, indices in promoted.items():
        seen[cell] = set(indices)
    return promoted, promoted
