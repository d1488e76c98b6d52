"""What the results say, in numbers. A pair of a test is a data set: the means over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepband.research.compare.curves import Band, Curves, Floats
from deepband.research.compare.methods import BASE, ENDING, ONCE, PEERS, SAMPLED
from deepband.research.paper.comparing import Difference

LEVEL = 0.05
"""Of the tests, over all of a table."""
AS_GOOD = 0.01
"""A regret that is larger by no more than this counts as the same."""


class Duel(NamedTuple):
    """A method against another: the difference of their regrets, below zero if it is better."""

    method: str
    other: str
    difference: Difference
    p: float
    """After Holm's correction over all duels of a table."""

    @property
    def verdict(self) -> str:
        if not self.p < LEVEL:
            return "open"
        return "better" if self.difference.mean < 0 else "worse"


class Standing(NamedTuple):
    """A method when so many full runs are spent."""

    method: str
    regret: Band
    """Over data sets."""
    by_scenario: dict[str, float]
    duel: Duel | None
    """Against the base."""


def standings(curves: Curves, runs: float, methods: Sequence[str]) -> list[Standing]:
    """Those of some methods that have played, in their order."""
    played = [name for name in methods if name in curves.methods]
    fought = duels(curves, runs, [(name, BASE) for name in played if name != BASE])
    of = {duel.method: duel for duel in fought}
    return [
        Standing(
            name,
            Band.of(_means(curves, name, runs)),
            _by_scenario(curves, _means(curves, name, runs)),
            of.get(name),
        )
        for name in played
    ]


def _by_scenario(curves: Curves, means: Floats) -> dict[str, float]:
    scenarios = dict.fromkeys(scenario for scenario, _ in curves.pairs)
    return {each: float(means[curves.of_scenario(each)].mean()) for each in scenarios}


def against_peers(curves: Curves, runs: float) -> list[Duel]:
    """Every sampler of ours against every peer."""
    return duels(curves, runs, [(ours, peer) for peer in PEERS for ours in SAMPLED])


def duels(curves: Curves, runs: float, wanted: Sequence[tuple[str, str]]) -> list[Duel]:
    """Those of which both have played, with tests that are corrected together."""
    pairs = [pair for pair in wanted if set(pair) <= set(curves.methods)]
    found = [
        Difference.of(_means(curves, method, runs) - _means(curves, other, runs))
        for method, other in pairs
    ]
    corrected = holm([each.p for each in found])
    return [
        Duel(*pair, difference, p)
        for pair, difference, p in zip(pairs, found, corrected, strict=True)
    ]


def holm(values: Sequence[float]) -> list[float]:
    """P-values, each as small as it may be called when all are looked at (Holm, 1979)."""
    corrected, largest = [0.0] * len(values), 0.0
    order = sorted(range(len(values)), key=lambda number: values[number])
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[number]))
        corrected[number] = largest
    return corrected


class Ending(NamedTuple):
    """A method that ends by itself: what it spent, and the regret of what it returned."""

    method: str
    spent: float
    regret: float
    times: float
    """How many times as much it spent, on average, as the cheapest first guess, known in hindsight,
    whose regret is no more in the same run; as the best one, if all have more."""
    excess: float
    """Its regret beyond that of first guesses which spend as much on all data sets alike."""


def endings(curves: Curves) -> list[Ending]:
    """Those methods, each beside one run at every first guess; none, unless there are such."""
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
    """`end` has what was spent and the regret, each by data set and seed; `fixed` such rows."""
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
