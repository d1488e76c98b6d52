"""Absolute budgets and accuracies: per benchmark, and per data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from numpy.typing import NDArray

from deepband.research.paper.comparing import Columns, groups, select
from deepband.research.paper.courses import METHODS


class Spread(NamedTuple):
    """The mean, smallest and largest value over runs."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Spread:
        return cls(float(values.mean()), float(values.min()), float(values.max()))


class Summary(NamedTuple):
    """What the runs of one method spent and found, with one eta."""

    scenario: str
    instance: str
    """The data set; empty for all data sets of the scenario together."""
    eta: int
    method: str
    runs: int
    budget: Spread
    """Every evaluation pays its whole budget, as in the paper."""
    budget_resumed: Spread
    """Training continues from the rung below."""
    evaluations: Spread
    accuracy_top: Spread
    """Of the best config on the last max_budget."""
    accuracy_any: Spread
    """Of the best config on any budget."""

    @classmethod
    def of(cls, rows: Columns, instance: str = "") -> Summary:
        """Summarise rows of one scenario, eta and method."""
        return cls(
            str(rows["scenario"][0]),
            instance,
            int(rows["eta"][0]),
            str(rows["method"][0]),
            len(rows["seed"]),
            *(Spread.of(rows[name]) for name in cls._fields[5:]),
        )


def by_benchmark(results: Columns) -> Iterator[Summary]:
    """Summarise each scenario, eta and method over all data sets and seeds."""
    for scenario, eta in groups(results):
        for method in METHODS:
            yield Summary.of(select(results, scenario, eta, method))


def by_data_set(results: Columns) -> Iterator[Summary]:
    """Summarise each data set, eta and method over all seeds."""
    for scenario, eta in groups(results):
        rows = {method: select(results, scenario, eta, method) for method in METHODS}
        for instance in dict.fromkeys(rows[METHODS[0]]["instance"].tolist()):
            for method in METHODS:
                chosen = rows[method]["instance"] == instance
                own = {name: column[chosen] for name, column in rows[method].items()}
                yield Summary.of(own, instance)


def csv(summaries: Iterator[Summary]) -> Iterator[str]:
    """Write summaries as lines of CSV; a spread takes three columns."""
    header = [f"{name}_{part}" for name in Summary._fields[5:] for part in ("mean", "min", "max")]
    yield ",".join(["benchmark", "data_set", "eta", "method", "runs", *header])
    for each in summaries:
        numbers = [f"{number:.6g}" for spread in each[5:] for number in spread]
        yield ",".join([*map(str, each[:5]), *numbers])
