"""Automatic deepening: deepen as long as the advice recommends it, within limits.

Every decision is a function of the recorded facts and the limits. It is therefore the same for any
number of workers, and an interrupted call continues with what it had decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from deepband.analysis.advice import advise
from deepband.analysis.quote import most_of_all_runs
from deepband.core import hyperband
from deepband.core.evaluations import count_evaluations
from deepband.core.schedule import Budget, as_number, exceeds, read_budget
from deepband.core.state import State
from deepband.core.strategies import StrategyName, check_name
from deepband.errors import BudgetError, InputError
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.study.session import Session


class Deepenable(Protocol):
    """The part of a `Study` that automatic deepening uses."""

    session: Session

    def deepen(self, strategy: StrategyName, to: Budget | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class Automatic:
    """The strategy and the limits of automatic deepening."""

    strategy: StrategyName
    max_cost: Fraction | None
    """What all runs of the study may cost together, each evaluation at its whole budget."""
    max_budget_limit: Fraction | None

    def check(self, state: State) -> None:
        """Raise if the current run already exceeds the limits."""
        here, limit, most = state.schedule.max_budget, self.max_budget_limit, self.max_cost
        if limit is not None and exceeds(here, limit):
            raise BudgetError(
                "max_budget_limit",
                as_number(limit),
                f"the study is already at {as_number(here)}. Give that or more, or start a study "
                "with a smaller max_budget.",
            )
        cost = most_of_all_runs(state)
        if most is not None and exceeds(cost, most) and not hyperband.is_done(state):
            raise InputError(
                f"max_cost is {as_number(most)}, and the runs of this study up to the "
                f"current one cost up to {as_number(cost)}: give that or more, or start a study "
                "with a smaller max_budget."
            )

    def decide(self, state: State) -> tuple[Fraction | None, str]:
        """The max_budget to deepen a finished run to, or None to stop; and the reason."""
        advice = advise(state)
        if not advice.deepen:
            return None, advice.title
        offers = [each for each in advice.quotes if each.step == "deepening"]
        costs = [each.cost for each in offers if each.strategy == self.strategy]
        if not costs:
            return None, f"{advice.title}; but {self.strategy} cannot continue from here"
        to = state.schedule.extended(levels=1).max_budget
        reason = self._exceeded(to, costs[0].spent + costs[0].high)
        return (None, f"{advice.title}; but {reason}") if reason else (to, advice.title)

    def _exceeded(self, to: Fraction, cost: Fraction) -> str | None:
        """The limit that a deepening would exceed, if there is one."""
        limit, most = self.max_budget_limit, self.max_cost
        if limit is not None and exceeds(to, limit):
            return f"{_show(to)} exceeds max_budget_limit {_show(limit)}"
        if most is not None and exceeds(cost, most):
            return f"all runs up to {_show(to)} may cost {_show(cost)}: max_cost is {_show(most)}"
        return None


def _show(number: Fraction) -> str:
    return f"{as_number(number):.10g}"


def read_automatic(
    strategy: StrategyName, max_cost: Budget | None, max_budget_limit: Budget | None
) -> Automatic:
    """The limits that a user gave, checked."""
    check_name(strategy)
    if max_cost is None and max_budget_limit is None:
        raise InputError(
            "auto_deepen needs a limit: give max_budget_limit, the largest max_budget to deepen "
            "to, or max_cost, what all runs of the study may cost, or both."
        )
    return Automatic(
        strategy,
        None if max_cost is None else read_budget("max_cost", max_cost),
        None if max_budget_limit is None else read_budget("max_budget_limit", max_budget_limit),
    )


def run_and_deepen(
    study: Deepenable,
    objective: Objective,
    limits: Limits,
    automatic: Automatic,
    options: RunOptions,
) -> None:
    """Run jobs, and deepen as long as the advice recommends it and the limits allow it."""
    session = study.session
    session.lock()
    automatic.check(session.state)
    options = _run(session, objective, limits, options)
    while session.done and not limits.out_of_time():
        to, _ = automatic.decide(session.state)
        if to is None:
            return
        study.deepen(automatic.strategy, to)
        options = _run(session, objective, limits, options)


def _run(session: Session, objective: Objective, limits: Limits, options: RunOptions) -> RunOptions:
    """Run one run, and return the options of the next: once anything was evaluated, the objective
    works, and failures are recorded."""
    before = count_evaluations(session.state)
    run_jobs(session, objective, limits, options)
    unchanged = count_evaluations(session.state) == before
    return options if unchanged else replace(options, first_failures=0)
