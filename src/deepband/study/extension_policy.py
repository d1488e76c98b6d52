"""Automatic extension: deepen or widen as long as the advice recommends it, within limits.

Every decision is a function of the recorded facts and the limits. It is therefore the same for any
number of workers, and an interrupted call continues with what it had decided. Hours are counted
from the recorded seconds of evaluations, not from the clock, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple, Protocol

from deepband.analysis.advice import Advice, advise
from deepband.analysis.durations import seconds_per_unit, seconds_spent
from deepband.analysis.failures import FailureWatch
from deepband.analysis.quote import Quote
from deepband.analysis.quote_computation import most_of_all_runs
from deepband.core import hyperband
from deepband.core.evaluations import count_evaluations
from deepband.core.exact_numbers import (
    Budget,
    as_number,
    check_count,
    exceeds,
    is_finite,
    read_budget,
)
from deepband.core.state import State
from deepband.core.strategies import StrategyName, check_name
from deepband.errors import BudgetError, InputError, shown
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.study.session import Session
from deepband.study.user_warnings import (
    warn_of_failures,
    warn_of_idle_workers,
    warn_of_small_space,
)

WIDENING: StrategyName = "efficient"
"""The strategy to widen with: its price is exactly that of the new configs."""


class Extendable(Protocol):
    """The part of a `Study` that automatic extension uses."""

    session: Session

    def extend(
        self,
        strategy: StrategyName,
        *,
        max_budget: Budget | None = None,
        width: int | None = None,
    ) -> None: ...


class Extension(NamedTuple):
    """A step to take: where to, and with which strategy."""

    strategy: StrategyName
    max_budget: Fraction | None = None
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Automatic:
    """The strategy and the limits of automatic extension."""

    strategy: StrategyName
    """For deepening."""
    max_cost: Fraction | None
    """What all runs of the study may cost together, each evaluation at its whole budget."""
    max_hours: float | None
    """How long all runs may take together, if all workers are always busy."""
    max_budget_limit: Fraction | None
    workers: int = 1

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

    def decide(self, state: State) -> tuple[Extension | None, str]:
        """The step to take after a finished run, or None to stop; and the reason.

        If the advised step would exceed a limit, the other one is taken if that pays, too.
        """
        advice = advise(state)
        refusals: list[str] = []
        for step in _paying(advice):
            extension, refusal = self._offer(state, step, advice.quotes)
            if extension is not None:
                return extension, "; but ".join([advice.title, *refusals])
            refusals.append(refusal)
        return None, "; but ".join([advice.title, *refusals])

    def _offer(
        self, state: State, step: str, quotes: tuple[Quote, ...]
    ) -> tuple[Extension | None, str]:
        """A step if it is possible within the limits, or else the reason why it is not."""
        strategy = self.strategy if step == "deepening" else WIDENING
        found = [each for each in quotes if (each.step, each.strategy) == (step, strategy)]
        if not found:
            return None, f"{strategy} cannot continue from here"
        refusal = self._exceeded(state, found[0])
        if refusal:
            return None, refusal
        if step == "deepening":
            return Extension(strategy, state.schedule.extended(levels=1).max_budget), ""
        return Extension(strategy, width=found[0].width), ""

    def _exceeded(self, state: State, quoted: Quote) -> str | None:
        """The limit that an extension would exceed, if there is one."""
        limit, most, hours = self.max_budget_limit, self.max_cost, self.max_hours
        to, cost = quoted.max_budget, quoted.cost.spent + quoted.cost.high
        where = f"width {quoted.width}" if quoted.step == "widening" else f"{to:.10g}"
        if limit is not None and exceeds(Fraction(to), limit):
            return f"{to:.10g} exceeds max_budget_limit {_show(limit)}"
        if most is not None and exceeds(cost, most):
            return f"all runs up to {where} may cost {_show(cost)}: max_cost is {_show(most)}"
        if hours is None:
            return None
        if quoted.seconds is None or seconds_per_unit(state) is None:
            return "no evaluation recorded its time, so max_hours cannot be kept"
        needed = (seconds_spent(state) + quoted.seconds[1]) / self.workers / 3600
        if needed > hours:
            return f"all runs up to {where} may take {needed:.3g} h: max_hours is {hours:.10g}"
        return None


def _paying(advice: Advice) -> Iterator[str]:
    """The steps that pay, the advised one first."""
    if advice.step == "deepen":
        yield "deepening"
    if advice.widening.pays:
        yield "widening"
    if advice.step == "widen" and advice.deepening.pays:
        yield "deepening"


def _show(number: Fraction) -> str:
    return f"{as_number(number):.10g}"


def read_automatic(
    strategy: StrategyName,
    max_cost: Budget | None = None,
    max_hours: float | None = None,
    max_budget_limit: Budget | None = None,
    workers: int | None = None,
    executor: object = None,
) -> Automatic:
    """The limits that a user gave, checked."""
    if max_hours is not None and executor is not None and workers is None:
        raise InputError("max_hours needs the number of workers of the executor: give workers.")
    check_name(strategy)
    if max_cost is None and max_hours is None:
        raise InputError(
            "automatic extension needs a limit: give max_cost, what all runs of the study may "
            "cost, or max_hours, how long they may take, or both."
        )
    if max_hours is not None and (not is_finite(max_hours) or max_hours <= 0):
        raise InputError(f"max_hours is {shown(max_hours)}: give a number above 0.")
    return Automatic(
        strategy,
        None if max_cost is None else read_budget("max_cost", max_cost),
        None if max_hours is None else float(max_hours),
        None if max_budget_limit is None else read_budget("max_budget_limit", max_budget_limit),
        1 if workers is None else check_count("workers", workers),
    )


def run_and_extend(
    study: Extendable,
    objective: Objective,
    limits: Limits,
    automatic: Automatic,
    options: RunOptions,
) -> str:
    """Run jobs, and extend the study as long as the advice recommends it within the limits. Returns
    why it stopped."""
    session = study.session
    session.lock()
    warn_of_small_space(session)
    warn_of_idle_workers(session, options.workers)
    watch = FailureWatch(session.state)
    automatic.check(session.state)
    while True:
        options = _run(session, objective, limits, options)
        extension, reason = _next_step(session, limits, automatic)
        if extension is None:
            warn_of_failures(watch, session)
            return reason
        strategy, max_budget, width = extension
        study.extend(strategy, max_budget=max_budget, width=width)


def _next_step(
    session: Session, limits: Limits, automatic: Automatic
) -> tuple[Extension | None, str]:
    """The step to take now, or None and why there is none."""
    if not session.done:
        return None, "the current run is not finished: run it again to resume"
    extension, reason = automatic.decide(session.state)
    if extension is not None and limits.out_of_time():
        return None, f"{reason}; but time is up: run it again to resume"
    return extension, reason


def _run(session: Session, objective: Objective, limits: Limits, options: RunOptions) -> RunOptions:
    """Run one run, and return the options of the next: once anything was evaluated, the objective
    works, and failures are recorded."""
    before = count_evaluations(session.state)
    run_jobs(session, objective, limits, options)
    unchanged = count_evaluations(session.state) == before
    return options if unchanged else replace(options, first_failures=0)
