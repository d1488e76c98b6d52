"""Deepening while the advice says so, within limits.

Every decision is a function of the recorded facts and of the limits. So it is the same for any
number of workers, and a call that was interrupted goes on with what it had decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from deepband.analysis.advice import advise
from deepband.analysis.quote import most_of_all_runs
from deepband.core import hyperband
from deepband.core.schedule import Budget, as_number, exceeds, read_budget
from deepband.core.state import State
from deepband.core.strategies import NAMES, StrategyName, check_name
from deepband.errors import BudgetError, InputError, UnknownNameError

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class Automatic:
    """How to deepen by itself: by which strategy, and how far at most."""

    strategy: StrategyName
    max_cost: Fraction | None
    """What all runs of the study may cost, every evaluation at its whole budget."""
    max_budget_limit: Fraction | None

    def check(self, state: State) -> None:
        """Raise if the current run is beyond the limits already."""
        here, limit, most = state.schedule.max_budget, self.max_budget_limit, self.max_cost
        if limit is not None and exceeds(here, limit):
            raise BudgetError(
                "max_budget_limit",
                as_number(limit),
                f"the study is at {as_number(here)} already. Give that or more, or begin a study "
                "with a smaller max_budget.",
            )
        cost = most_of_all_runs(state)
        if most is not None and exceeds(cost, most) and not hyperband.is_done(state):
            raise InputError(
                f"max_cost is {as_number(most)}, and the runs of this study up to the "
                f"current one cost up to {as_number(cost)}: give that or more, or begin a study "
                "with a smaller max_budget."
            )

    def decide(self, state: State) -> tuple[Fraction | None, str]:
        """The max_budget to deepen a finished run to, or None to stay; and why."""
        advice = advise(state)
        if not advice.deepen:
            return None, advice.title
        offers = [each for each in advice.quotes if not each.fills]
        costs = [each.cost for each in offers if each.strategy == self.strategy]
        if not costs:
            return None, f"{advice.title}; but {self.strategy} cannot go on from here"
        to = state.schedule.deepened().max_budget
        held = self._held(to, costs[0].spent + costs[0].high)
        return (None, f"{advice.title}; but {held}") if held else (to, advice.title)

    def _held(self, to: Fraction, cost: Fraction) -> str | None:
        """Which limit a deepening would go beyond."""
        limit, most = self.max_budget_limit, self.max_cost
        if limit is not None and exceeds(to, limit):
            return f"{_show(to)} is beyond max_budget_limit {_show(limit)}"
        if most is not None and exceeds(cost, most):
            return f"all runs up to {_show(to)} may cost {_show(cost)}: max_cost is {_show(most)}"
        return None


def _show(number: Fraction) -> str:
    return f"{as_number(number):.10g}"


def read_automatic(
    deepen: str | None,
    strategy: StrategyName | None,
    max_cost: Budget | None,
    max_budget_limit: Budget | None,
) -> Automatic | None:
    """What a user gave, checked; None if nothing is to be deepened."""
    if deepen is None:
        for name, given in (("strategy", strategy), ("max_budget_limit", max_budget_limit)):
            if given is not None:
                raise InputError(f"{name} is for deepen='auto': give both, or neither.")
        return None
    if deepen in NAMES:
        raise InputError(
            f"deepen takes only 'auto': give deepen='auto', and strategy={deepen!r} beside it."
        )
    if deepen != AUTO:
        raise UnknownNameError("way to deepen in optimize", deepen, [AUTO])
    if max_cost is None and max_budget_limit is None:
        raise InputError(
            "deepen='auto' needs a limit: give max_budget_limit, the largest max_budget to deepen "
            "to, or max_cost, what all runs of the study may cost, or both."
        )
    strategy = "preserving" if strategy is None else strategy
    check_name(strategy)
    return Automatic(
        strategy,
        None if max_cost is None else read_budget("max_cost", max_cost),
        None if max_budget_limit is None else read_budget("max_budget_limit", max_budget_limit),
    )
