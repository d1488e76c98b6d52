"""The data of the paper's figures, which `figure_files` draws.

Each function returns plain numbers, so that tests can check a figure without drawing it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from deepband import open_study
from deepband.core.facts import Config
from deepband.core.schedule import Cell, Schedule
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.core.theory import (
    discarding_fraction,
    discarding_pulls,
    efficient_fraction,
    filled_efficient_pulls,
    rerun_pulls,
)
from deepband.research.paper.courses import IH, METHODS
from deepband.research.paper.savings import data_set_means, groups, paired, select
from deepband.research.result_files import Columns

Panel: TypeAlias = tuple[str, int]
"""A scenario and an eta."""
Points: TypeAlias = list[tuple[float, float]]


def incumbents(results: Columns) -> dict[Panel, dict[str, Points]]:
    """Accuracies at the last max_budget, the baseline's and a strategy's: one point per data set,
    the mean over all seeds; on a scenario with a single data set, one point per seed."""
    found: dict[Panel, dict[str, Points]] = {}
    for scenario, eta in groups(results):
        of = {
            method: paired(select(results, scenario, eta, method), "accuracy_top").tolist()
            for method in METHODS
        }
        found[scenario, eta] = {
            method: list(zip(of[IH], of[method], strict=True)) for method in STRATEGIES
        }
    return found


def budgets(results: Columns) -> dict[Panel, dict[str, list[float]]]:
    """The total budget of every single run, by method."""
    return {
        (scenario, eta): {
            method: select(results, scenario, eta, method)["budget"].tolist() for method in METHODS
        }
        for scenario, eta in groups(results)
    }


def mean_budgets(results: Columns) -> dict[Panel, dict[str, list[float]]]:
    """The mean total budget over all seeds of each data set, by method."""
    return {
        (scenario, eta): {
            method: data_set_means(select(results, scenario, eta, method), "budget").tolist()
            for method in METHODS
        }
        for scenario, eta in groups(results)
    }


FRACTIONS: dict[StrategyName, Callable[..., Fraction]] = {
    "efficient": efficient_fraction,
    "discarding": discarding_fraction,
}
"""Theorem 2 a), and b), which is also the bound for preserving."""
COUNTS: dict[StrategyName, Callable[..., int]] = {
    "efficient": filled_efficient_pulls,
    "discarding": discarding_pulls,
}
"""What deepband pulls; for discarding and preserving in the worst case."""
TOPS = range(4, 13, 2)


def pulls(strategy: StrategyName, eta: int, tops: range = TOPS) -> dict[int, Points]:
    """Theorem 2: the largest fraction of a rerun's pulls against s, one curve for each R.

    R = eta**top for each of the tops, n and n_old are the start sizes that Hyperband gives a
    bracket of s halvings at R and at R / eta. As in the paper, what exceeds 1 is drawn as 1.
    """
    return {eta**top: [_bound(strategy, eta, top, s) for s in range(1, top + 1)] for top in tops}


def counted_pulls(strategy: StrategyName, eta: int, tops: range = TOPS) -> dict[int, Points]:
    """The fraction of a rerun's pulls that deepband makes, for the same s and R as `pulls`."""
    return {eta**top: [_count(strategy, eta, top, s) for s in range(1, top + 1)] for top in tops}


def _bound(strategy: StrategyName, eta: int, top: int, s: int) -> tuple[float, float]:
    n, n_old = _start_sizes(eta, top, s)
    fraction = FRACTIONS[strategy](n, n_old, eta**top, s, eta)
    return s, min(1.0, float(fraction))


def _count(strategy: StrategyName, eta: int, top: int, s: int) -> tuple[float, float]:
    n, n_old = _start_sizes(eta, top, s)
    count = COUNTS[strategy](n, n_old, eta**top, s, eta)
    return s, count / rerun_pulls(n, eta**top, s, eta)


def _start_sizes(eta: int, top: int, s: int) -> tuple[int, int]:
    """Return n and n_old of the bracket with s halvings."""
    now, before = (Schedule(eta, Fraction(1), each) for each in (top, top - 1))
    return now.start_size(top - s), before.start_size(top - s)


@dataclass(frozen=True, slots=True)
class CellCount:
    """How many configs were on a rung of a bracket in a deepened run."""

    taken: int
    """Evaluated there before, and reused."""
    new: int
    """Evaluated there in this run."""
    left: int
    """Evaluated there before, and not promoted again."""


SHOWN = Schedule.of(eta=2, min_budget=1, max_budget=8)
"""The schedule before the deepening."""


def deepening(strategy: StrategyName) -> Mapping[Cell, CellCount]:
    """Deepen a small study and count, cell by cell, what was reused and what was evaluated."""
    study = open_study(
        space={"good": (0.0, 1.0), "slow": (0.0, 1.0)},
        eta=SHOWN.eta,
        max_budget=SHOWN.max_budget,
        seed=13,  # all three strategies differ with this seed
    )
    study.optimize(_learning_curve, progress=False)
    study.deepen(strategy)
    study.optimize(_learning_curve, progress=False)
    run, results = study.session.state.run, study.session.state.results
    counts: dict[Cell, CellCount] = {}
    for cell, arrived in run.arrived.items():
        before = run.before.get(cell, frozenset())
        new = sum(told.run == run.number for told in results[cell].values())
        counts[cell] = CellCount(len(arrived & before), new, len(before - arrived))
    return counts


def _learning_curve(config: Config, budget: float) -> float:
    """A noisy loss that falls with the budget, later for some configs than for others."""
    noise = math.sin(1000 * config["good"] * budget)
    return float(config["good"] + config["slow"] / (budget + 1) + 0.3 * noise / budget)
