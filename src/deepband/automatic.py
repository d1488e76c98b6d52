"""Deepening while the advice says so, within limits.

Every decision is a function of the recorded facts and of the limits. So it is the same for any
number of workers, and a call that was interrupted goes on with what it had decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deepband import hyperband
from deepband.advice import advise
from deepband.errors import BudgetError, InputError, UnknownNameError
from deepband.quote import most_of_all_runs
from deepband.schedule import TOLERANCE, Budget, as_number, read_budget
from deepband.state import State
from deepband.strategies import check_name

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Automatic:
    """How to deepen by itself: by which strategy, and how far at most."""

    strategy: str
    max_cost: Fraction | None
    """What all runs of the study may cost, every evaluation at its whole budget."""
    max_budget_limit: Fraction | None

    def check(self, state: State) -> None:
        """Raise if the current run is beyond the limits already."""
        here, limit, most = state.schedule.max_budget, self.max_budget_limit, self.max_cost
        if limit is not None and _exceeds(here, limit):
            raise BudgetError(
                "max_budget_limit",
                as_number(limit),
                f"the study is at {as_number(here)} already. Give that or more.",
            )
        cost = most_of_all_runs(state)
        if most is not None and _exceeds(cost, most) and not hyperband.is_done(state):
            raise InputError(
                f"max_cost is {as_number(most)}, and the runs of this study up to the "
                f"current one cost up to {as_number(cost)}: give that or more, or begin a study "
                "with a smaller max_budget."
            )

    def next_budget(self, state: State) -> Fraction | None:
        """The max_budget to deepen a finished run to, or None to stay."""
        advice = advise(state)
        offers = [each for each in advice.quotes if each.strategy == self.strategy]
        for offer in offers if advice.deepen else ():
            if not offer.fills:
                deeper = state.schedule.deepened().max_budget
                whole = offer.cost.spent + offer.cost.high
                return deeper if self._allows(deeper, whole) else None
        return None

    def _allows(self, max_budget: Fraction, cost: Fraction) -> bool:
        limit, most = self.max_budget_limit, self.max_cost
        low_enough = limit is None or not _exceeds(max_budget, limit)
        return low_enough and (most is None or not _exceeds(cost, most))


def _exceeds(number: Fraction, limit: Fraction) -> bool:
    """By more than what comes of writing a fraction as a float."""
    return number > limit * (1 + TOLERANCE)


def read_automatic(
    deepen: str | None,
    strategy: str | None,
    max_cost: Budget | None,
    max_budget_limit: Budget | None,
) -> Automatic | None:
    """What a user gave, checked; None if nothing is to be deepened."""
    if deepen is None:
        for name, given in (("strategy", strategy), ("max_budget_limit", max_budget_limit)):
            if given is not None:
                raise InputError(f"{name} is for deepen='auto': give both, or neither.")
        return None
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
