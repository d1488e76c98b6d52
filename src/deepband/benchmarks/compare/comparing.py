"""What the results say, in numbers. A pair of a test is a data set: the means over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deepband.benchmarks.compare.curves import Band, Curves, Floats
from deepband.benchmarks.compare.methods import BASE, ENDING, ONCE, PEERS, SAMPLED
from deepband.benchmarks.paper.comparing import Difference

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
    """How many times the budget of the best first guess it spent, on average over data sets."""


HINDSIGHT = "best first guess, in hindsight"


def endings(curves: Curves) -> list[Ending]:
    """Those methods, and on each data set the cheapest first guess that is as good as any."""
    names = [name for name in ENDING if name in curves.methods]
    spent = {name: curves.ends(name).mean(axis=1) for name in names}
    regret = {name: _means(curves, name, np.inf) for name in names}
    guesses = [name for name in names if name.startswith(ONCE)]
    if guesses:
        chosen = _cheapest(
            np.array([spent[name] for name in guesses]),
            np.array([regret[name] for name in guesses]),
        )
        spent[HINDSIGHT], regret[HINDSIGHT] = chosen
    base = spent.get(HINDSIGHT, np.array([np.nan]))
    return [
        Ending(name, float(each.mean()), float(regret[name].mean()), float((each / base).mean()))
        for name, each in spent.items()
    ]


def _cheapest(spent: Floats, regret: Floats) -> tuple[Floats, Floats]:
    """By data set: of the rows that are about as good as the best one, the cheapest."""
    good = regret <= regret.min(axis=0) + AS_GOOD
    row = np.where(good, spent, np.inf).argmin(axis=0)
    column = np.arange(spent.shape[1])
    return spent[row, column], regret[row, column]


def _means(curves: Curves, method: str, runs: float) -> Floats:
    means: Floats = curves.at(method, runs).mean(axis=1)
    return means
