"""Whether a rung foretells the next one: the rank agreement between neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deepband.analysis import chart_data
from deepband.core.state import State


@dataclass(frozen=True, slots=True)
class Agreement:
    """How alike two neighbouring rungs rank the configs that are on both.

    Those are the promoted ones, who are close together: they agree less than all configs would.
    """

    rung: int
    """The lower one."""
    budgets: tuple[int | float, int | float]
    configs: int
    tau: float | None
    """Kendall's tau-b, from -1 (turned round) over 0 (no relation) to 1 (the same order); None for
    fewer than two configs, or when all are equal."""


def agreements(state: State) -> list[Agreement]:
    """For each rung but the top one, from the lowest. A failure is infinitely bad."""
    budgets = state.run.budgets
    return [
        agreement(rung, (budgets[rung], budgets[rung + 1]), pairs)
        for rung, pairs in chart_data.both_rungs(state)
    ]


def agreement(
    rung: int, budgets: tuple[int | float, int | float], pairs: list[tuple[float, float]]
) -> Agreement:
    """That of a rung and the next one, by the losses of everybody who is on both."""
    return Agreement(rung, budgets, len(pairs), _tau(pairs))


def _tau(pairs: list[tuple[float, float]]) -> float | None:
    if any(len(set(losses)) < 2 for losses in zip(*pairs, strict=True)) or not pairs:
        return None
    from scipy.stats import kendalltau, rankdata

    low, high = (rankdata(losses) for losses in zip(*pairs, strict=True))
    tau = float(kendalltau(low, high).statistic)
    return None if math.isnan(tau) else tau
