"""Where extending a study leads: to a larger max_budget, a larger width, more brackets, or to the
slots that a frugal run left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from deepband.core.exact_numbers import Budget, as_number, check_count, read_budget
from deepband.core.hyperband import is_done
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, NAMES, StrategyName
from deepband.errors import BudgetError, InputError


class Target(NamedTuple):
    """What a study is to be extended to. None is what was not given."""

    top: int | None = None
    """The rung of the max_budget."""
    width: int | None = None
    brackets: int | None = None

    def is_reached(self, schedule: Schedule) -> bool:
        """Whether a schedule has exactly what is given."""
        return (
            self.top in (None, schedule.top)
            and self.width in (None, schedule.width)
            and self.brackets in (None, schedule.bracket_limit)
        )


def read_target(
    state: State,
    max_budget: Budget | None = None,
    width: int | None = None,
    brackets: int | None = None,
) -> Target:
    """The target that a user gave, checked."""
    given = max_budget, width, brackets
    if given == (None, None, None):
        raise InputError("give what to extend the study to: `max_budget`, `width` or `brackets`.")
    return Target(
        None if max_budget is None else _rung(state.schedule, max_budget),
        None if width is None else check_count("width", width),
        None if brackets is None else check_count("brackets", brackets),
    )


def default_strategy(target: Target) -> StrategyName:
    """The strategy of an extension for which none is given: that of `widen` if only the width
    grows, and otherwise that of `deepen`."""
    only_wider = target.width is not None and (target.top, target.brackets) == (None, None)
    return "efficient" if only_wider else "preserving"


def deeper(state: State) -> Target:
    """One level deeper: eta times the current max_budget."""
    return Target(top=state.schedule.top + 1)


def wider(state: State) -> Target:
    """One more than the current width."""
    return Target(width=state.schedule.width + 1)


def extended(state: State, strategy: StrategyName, target: Target) -> Schedule | None:
    """The schedule that extending a study to a target leads to.

    None if some run has already reached it, so that scripts can be repeated. The current schedule
    if only a frugal run has reached it, and the other slots are to be filled.
    """
    frugally = strategy == FRUGAL
    if frugally and (target.width, target.brackets) != (None, None):
        raise InputError(
            "a frugal run only promotes configs that exist: it cannot change the width or the "
            "number of brackets. Choose another strategy."
        )
    runs = state.runs if frugally or not state.run.frugal else state.runs[:-1]
    if any(target.is_reached(run.schedule) for run in runs):
        return None
    schedule = _larger(state, target)
    if frugally:
        _check_frugal(state, schedule)
    return schedule


def options(state: State) -> Iterator[tuple[StrategyName, Schedule]]:
    """Every way to continue a finished run, with the schedule it leads to: filling the slots that a
    frugal run left out, one level deeper, one wider. Those that would be refused are left out."""
    fill = Target(state.schedule.top)
    for target in (fill, deeper(state), wider(state)):
        for strategy in NAMES:
            with suppress(InputError):  # too large, or nothing to promote
                schedule = extended(state, strategy, target)
                if schedule is not None:
                    yield strategy, schedule


def _larger(state: State, target: Target) -> Schedule:
    """The current schedule with what the target asks for, none of which may be smaller."""
    old, (top, width, brackets) = state.schedule, target
    if top is not None and top < old.top:
        low, high = (as_number(old.budget(rung)) for rung in (top, old.top))
        raise _shrinks(state, "max_budget", low, high)
    if width is not None and width < old.width:
        raise _shrinks(state, "width", width, old.width)
    if brackets is not None and brackets < (old.bracket_limit or math.inf):
        raise _shrinks(state, "brackets", brackets, old.bracket_limit or "all brackets")
    return old.extended(0 if top is None else top - old.top, width, brackets)


def _check_frugal(state: State, schedule: Schedule) -> None:
    """Raise if a frugal run cannot lead from the current schedule to this one."""
    here = state.schedule
    if schedule.top > here.top + 1:
        raise BudgetError(
            "max_budget",
            as_number(schedule.max_budget),
            "frugal deepening adds one rung at a time. Deepen to "
            f"{as_number(here.budget(here.top + 1))}, run that, and continue from there; or choose "
            "another strategy.",
        )
    if is_done(state) and not state.frugal_contest()[0]:
        raise InputError(
            f"frugal deepening has no config to promote: every evaluation with the budget "
            f"{as_number(here.max_budget)} failed. Choose another strategy, which also adds "
            "new configs."
        )


def _shrinks(state: State, name: str, given: object, here: object) -> BudgetError:
    reached = "; ".join(_described(run.schedule) for run in state.runs)
    return BudgetError(
        name,
        given,
        f"the study already has {here}, and a study never shrinks. Its runs were: {reached}. "
        "Give the values of one of them, which does nothing, or larger ones.",
    )


def _described(schedule: Schedule) -> str:
    limit = schedule.bracket_limit
    text = f"max_budget {as_number(schedule.max_budget)}, width {schedule.width}"
    return text if limit is None else f"{text}, brackets {limit}"


def _rung(schedule: Schedule, max_budget: Budget) -> int:
    """The rung of a max_budget, or an error with the nearest values that have one."""
    rung = schedule.rung_of(max_budget, "max_budget")
    if rung is None:
        valid = _nearest_deepenings(schedule, read_budget("max_budget", max_budget))
        raise BudgetError(
            "max_budget",
            max_budget,
            f"it grows by powers of eta = {schedule.eta}, and the nearest values are {valid}.",
        )
    return rung


def _nearest_deepenings(schedule: Schedule, wanted: Fraction) -> str:
    rung = schedule.top + 1
    while schedule.budget(rung + 1) < wanted and rung < schedule.top + 20:
        rung += 1
    return f"{as_number(schedule.budget(rung))} and {as_number(schedule.budget(rung + 1))}"
