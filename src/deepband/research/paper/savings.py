"""Savings of budget and differences in accuracy, against starting over (the baseline).

Accuracies are compared in pairs: a method and the baseline on the same data set, each by its mean
over all seeds (on a scenario with a single data set, seed by seed). Data sets, not runs, are the
independent observations, because the configs of a seed are the same on all data sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepband.core.schedule import Schedule
from deepband.core.strategies import STRATEGIES
from deepband.research.paper.courses import IH
from deepband.research.result_files import Columns
from deepband.research.statistics import Difference


class Saving(NamedTuple):
    """Shares of the baseline's budget that a method saved: the mean, the worst and the best."""

    mean: float
    worst: float
    best: float

    @classmethod
    def of(cls, spent: NDArray[np.float64], rerun: NDArray[np.float64]) -> Saving:
        saved = 1 - spent / rerun
        return cls(float(saved.mean()), float(saved.min()), float(saved.max()))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A strategy against the baseline on all data sets of a scenario with one eta."""

    scenario: str
    eta: int
    method: str
    runs: int
    saving: Saving
    """Over single runs."""
    saving_of_means: Saving
    """Over data sets, each by its mean budget over all seeds: the view of the paper's violins."""
    saving_resumed: Saving
    """Over single runs, if both methods continue training from the rung below."""
    saving_resumed_of_means: Saving
    top: Difference
    """In the accuracy of the best config on the last max_budget."""
    any_budget: Difference
    """In that of the best config on any budget."""
    same: float
    """The share of runs with the same accuracy on the last max_budget."""
    worst: float
    """The largest loss of accuracy there in a single run."""
    best: float
    """The largest gain."""


def comparisons(results: Columns) -> Iterator[Comparison]:
    """Compare all strategies on all scenarios and etas, in the order of the results."""
    for scenario, eta in groups(results):
        of = {method: select(results, scenario, eta, method) for method in (IH, *STRATEGIES)}
        for method in STRATEGIES:
            yield _comparison(scenario, eta, method, of[method], of[IH])


def groups(results: Columns) -> list[tuple[str, int]]:
    """Return the scenarios and etas, in the order of the results."""
    pairs = zip(results["scenario"].tolist(), results["eta"].tolist(), strict=True)
    first_seen = list(dict.fromkeys(results["scenario"].tolist()))
    return sorted(set(pairs), key=lambda pair: (first_seen.index(pair[0]), pair[1]))


def select(results: Columns, scenario: str, eta: int, method: str) -> Columns:
    """Return the rows of one method, sorted by data set and seed."""
    chosen = (
        (results["scenario"] == scenario) & (results["eta"] == eta) & (results["method"] == method)
    )
    return {name: column[chosen] for name, column in results.items()}


def paired(rows: Columns, column: str) -> NDArray[np.float64]:
    """Return the values to compare in pairs: one per data set, its mean over all seeds; with a
    single data set, one per seed."""
    means = data_set_means(rows, column)
    return np.asarray(rows[column], np.float64) if len(means) == 1 else means


def data_set_means(rows: Columns, column: str) -> NDArray[np.float64]:
    """Return the mean over all seeds, one value per data set."""
    seeds = len(np.unique(rows["seed"]))
    means: NDArray[np.float64] = (
        np.asarray(rows[column], np.float64).reshape(-1, seeds).mean(axis=1)
    )
    return means


def _comparison(scenario: str, eta: int, method: str, ours: Columns, rerun: Columns) -> Comparison:
    gains = ours["accuracy_top"] - rerun["accuracy_top"]
    return Comparison(
        scenario=scenario,
        eta=eta,
        method=method,
        runs=len(ours["seed"]),
        saving=Saving.of(ours["budget"], rerun["budget"]),
        saving_of_means=_saving_of_means(ours, rerun, "budget"),
        saving_resumed=Saving.of(ours["budget_resumed"], rerun["budget_resumed"]),
        saving_resumed_of_means=_saving_of_means(ours, rerun, "budget_resumed"),
        top=_difference(ours, rerun, "accuracy_top"),
        any_budget=_difference(ours, rerun, "accuracy_any"),
        same=float((gains == 0).mean()),
        worst=float(gains.min()),
        best=float(gains.max()),
    )


def _saving_of_means(ours: Columns, rerun: Columns, column: str) -> Saving:
    return Saving.of(data_set_means(ours, column), data_set_means(rerun, column))


def _difference(ours: Columns, rerun: Columns, column: str) -> Difference:
    return Difference.of(paired(ours, column) - paired(rerun, column))


class Lost(NamedTuple):
    """The cost of a first guess, against a single run at the last max_budget."""

    scenario: str
    eta: int
    first: float
    last: float
    deepenings: int
    """1 for a single jump; otherwise the number of steps by eta."""
    method: str
    budget: float
    """The mean budget in addition to a single run, as a share of it."""
    budget_resumed: float
    accuracy: Difference
    """At the last max_budget, against the single run."""

    @property
    def course(self) -> str:
        """The max_budgets as text."""
        steps = [self.first * self.eta**step for step in range(self.deepenings)]
        return ", ".join(f"{budget:.4g}" for budget in (*steps, self.last))


def losses(beyond: Columns, brackets: int | None = None) -> Iterator[Lost]:
    """Return the cost of all courses to the last max_budget, with every method; `brackets` is that
    of the studies."""
    for scenario, eta in groups(beyond):
        last = beyond["max_budget"][(beyond["scenario"] == scenario) & (beyond["eta"] == eta)].max()
        ends = {
            method: _where(select(beyond, scenario, eta, method), max_budget=last)
            for method in (IH, *STRATEGIES)
        }
        courses = sorted({*zip(ends[IH]["first_budget"], ends[IH]["runs"], strict=True)})
        highest = Fraction(float(last)).limit_denominator(10**6)
        fresh = Schedule.of(eta, 1, highest, brackets=brackets)
        for first, runs in courses:
            rerun = _where(ends[IH], first_budget=first, runs=runs)
            for method, end in ends.items():
                ours = _where(end, first_budget=first, runs=runs)
                yield Lost(
                    scenario,
                    eta,
                    float(first),
                    float(last),
                    int(runs) - 1,
                    method,
                    float(ours["budget"].mean() / float(fresh.cost) - 1),
                    float(ours["budget_resumed"].mean() / float(fresh.cost_resumed) - 1),
                    _difference(ours, rerun, "accuracy_top"),
                )


def _where(rows: Columns, **values: float) -> Columns:
    chosen = np.ones(len(rows["seed"]), bool)
    for name, value in values.items():
        chosen &= rows[name] == value
    return {name: column[chosen] for name, column in rows.items()}
