"""Regrets of methods, and tests between them in pairs of data-set means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepband.research.compare.curves import Curves
from deepband.research.compare.methods import BASE, BEST, ENDING, ONCE, PEERS, RIGHT, SAMPLED
from deepband.research.statistics import Band, Difference, Floats, holm

LEVEL = 0.05
"""Significance level of the tests, over all of a table."""
AS_GOOD = 0.01
"""A regret counts as the same if it is larger by at most this."""


class Duel(NamedTuple):
    """One method against another: the difference of their regrets, negative if it is better."""

    method: str
    other: str
    difference: Difference
    """On average over the seeds that both have."""
    seeds: int
    p: float
    """With Holm's correction over all duels of a table."""

    @property
    def verdict(self) -> str:
        if not self.p < LEVEL:
            return "open"
        return "better" if self.difference.mean < 0 else "worse"


class MethodRegret(NamedTuple):
    """A method after the budget of some number of full runs."""

    method: str
    seeds: int
    regret: Band
    """Over data sets."""
    by_group: dict[str, float]
    duel: Duel | None
    """Against the base method."""


def method_regrets(curves: Curves, runs: float, methods: Sequence[str]) -> list[MethodRegret]:
    """Return the regrets of those methods that have results, in their order."""
    present = [name for name in methods if name in curves.methods]
    fought = duels(curves, runs, [(name, BASE) for name in present if name != BASE])
    of = {duel.method: duel for duel in fought}
    return [
        MethodRegret(
            name,
            len(curves.seeds(name)),
            Band.of(_means(curves, name, runs)),
            _by_group(curves, _means(curves, name, runs)),
            of.get(name),
        )
        for name in present
    ]


def _by_group(curves: Curves, means: Floats) -> dict[str, float]:
    return {name: float(means[group].mean()) for name, group in curves.groups.items()}


def against_peers(curves: Curves, runs: float) -> list[Duel]:
    """Return duels of each of our samplers against each peer."""
    return duels(curves, runs, [(ours, peer) for peer in PEERS for ours in SAMPLED])


def of_the_best(curves: Curves, runs: float, group: str | None = None) -> list[Duel]:
    """Return duels of the best of our samplers against all others that start at the right
    max_budget, on a group of data sets or on all."""
    return duels(curves, runs, [(BEST, other) for other in RIGHT if other != BEST], group)


def duels(
    curves: Curves, runs: float, wanted: Sequence[tuple[str, str]], group: str | None = None
) -> list[Duel]:
    """Return the duels of which both methods have results, with jointly corrected tests."""
    pairs = [pair for pair in wanted if set(pair) <= set(curves.methods)]
    found = [Difference.of(curves.differences(*pair, runs)[curves.of(group)]) for pair in pairs]
    corrected = holm([each.p for each in found])
    return [
        Duel(*pair, difference, len(curves.seeds(*pair)), p)
        for pair, difference, p in zip(pairs, found, corrected, strict=True)
    ]


class Ending(NamedTuple):
    """A method that stops by itself: what it spent, and the regret of what it returned."""

    method: str
    spent: float
    regret: float
    times: float
    """Its spending over that of the cheapest first guess, known in hindsight, with no more regret
    in the same run; over that of the best first guess, if all have more regret."""
    excess: float
    """Its regret minus that of a first guess with the same average spending on all data sets."""


def endings(curves: Curves) -> list[Ending]:
    """Return all such methods; an empty list without runs at fixed first guesses."""
    ends = {
        name: np.array([curves.ends(name), curves.at(name, np.inf)])
        for name in ENDING
        if name in curves.methods
    }
    guesses = [ends[name] for name in ends if name.startswith(ONCE)]
    if not guesses:
        return []
    fixed = np.array(sorted(guesses, key=_averages))
    return [
        Ending(name, *_averages(each), _times(each, fixed), _excess(each, fixed))
        for name, each in ends.items()
    ]


def _averages(end: Floats) -> tuple[float, float]:
    spent, regret = end.mean(axis=(1, 2)).tolist()
    return spent, regret


def _times(end: Floats, fixed: Floats) -> float:
    """`end` has spending and regret, each by data set and seed; `fixed` has one such row per first
    guess."""
    (spent, regret), costs, regrets = end, fixed[:, 0], fixed[:, 1]
    as_good = regrets <= np.maximum(regret + AS_GOOD, regrets.min(axis=0))
    return float(spent.sum() / np.where(as_good, costs, np.inf).min(axis=0).sum())


def _excess(end: Floats, fixed: Floats) -> float:
    spent, regret = end.mean(axis=(1, 2))
    costs, regrets = fixed.mean(axis=(2, 3)).T
    return float(regret - np.interp(spent, costs, regrets))


def _means(curves: Curves, method: str, runs: float) -> Floats:
    means: Floats = curves.at(method, runs).mean(axis=1)
    return means
