"""Whether a rung predicts the next one: rank agreement between neighbouring rungs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deepband.analysis import chart_data
from deepband.core.state import State


@dataclass(frozen=True, slots=True)
class Agreement:
    """How similarly two neighbouring rungs rank the configs that are on both.

    These are the promoted ones, whose losses are close. The correlation over all configs would be
    higher.
    """

    rung: int
    """The lower one."""
    budgets: tuple[int | float, int | float]
    configs: int
    tau: float | None
    """Kendall's tau-b, from -1 (reversed) over 0 (unrelated) to 1 (the same order); None for fewer
    than two configs, or if all losses on a rung are equal."""


def agreements(state: State) -> list[Agreement]:
    """The agreement of each rung with the next, from the lowest. A failure counts as infinite."""
    budgets = state.run.budgets
    return [
        agreement(rung, (budgets[rung], budgets[rung + 1]), pairs)
        for rung, pairs in chart_data.both_rungs(state)
    ]


def agreement(
    rung: int, budgets: tuple[int | float, int | float], pairs: list[tuple[float, float]]
) -> Agreement:
    """The agreement of a rung with the next, from the losses of all configs on both."""
    return Agreement(rung, budgets, len(pairs), _tau(pairs))


def _tau(pairs: list[tuple[float, float]]) -> float | None:
    if any(len(set(losses)) < 2 for losses in zip(*pairs, strict=True)) or not pairs:
        return None
    from scipy.stats import kendalltau, rankdata

    low, high = (rankdata(losses) for losses in zip(*pairs, strict=True))
    tau = float(kendalltau(low, high).statistic)
    return None if math.isnan(tau) else tau
