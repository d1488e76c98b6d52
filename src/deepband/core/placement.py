"""Where imported results belong in a study.

A result on a rung goes to the bracket that starts on this rung, at the next index that has no
config yet. Further results of the same config follow it up the rungs of its bracket. They are
ordinary facts, with their origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as whole
from typing import Any

from deepband.core.exact_numbers import Budget, read_budget, read_exactly
from deepband.core.facts import Config, ConfigsDrawn, Fact, JobKey, Outcome, fact_of
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.errors import BudgetError, InputError, shown


def facts_to_add(
    state: State,
    config: Config,
    results: Sequence[tuple[Budget, Outcome]],
    origin: str,
    place: Place | None = None,
) -> tuple[list[JobKey], list[Fact]]:
    """The jobs that results of one config stand for, and the facts that record them."""
    keys = _job_keys(state, config, [_rung(state, budget) for budget, _ in results], place)
    bracket, index, _ = keys[0]
    run = state.run.number + state.is_ahead(bracket, index)
    facts: list[Fact] = [
        fact_of(key, run, outcome, origin) for key, (_, outcome) in zip(keys, results, strict=True)
    ]
    if bracket >= len(state.configs) or index == len(state.configs[bracket]):
        facts.insert(0, ConfigsDrawn(bracket, index, (config,), origin))
    return keys, facts


def _rung(state: State, budget: Budget) -> int:
    """The rung of a budget; imported results may be one rung above the top."""
    deeper = state.coming
    carried = deeper.job_budgets(state.created.integer_budgets)
    exact = [read_exactly(each) for each in carried]
    wanted = read_budget("budget", budget)
    rung = exact.index(wanted) if wanted in exact else deeper.rung_of(budget)
    if rung is not None and rung <= deeper.top:
        return rung
    valid = ", ".join(f"{each:.10g}" for each in carried)
    raise BudgetError("budget", budget, f"no rung has this budget. The budgets are {valid}.")


def _job_keys(state: State, config: Config, rungs: list[int], place: Place | None) -> list[JobKey]:
    """The jobs of one config on these rungs: at its own place if they continue what was imported
    before, else at the next free place of the bracket that starts on the lowest rung."""
    if not rungs or rungs != list(range(rungs[0], rungs[0] + len(rungs))):
        raise InputError(
            f"the results are on the rungs {rungs}: give them on neighbouring rungs, lowest first."
        )
    if place is None:
        place = _place_of(state, config, rungs[0]) or free_place(state, rungs[0])
    else:
        place = _read_place(place)
        if not _fits(state, config, rungs[0], place):
            raise InputError(
                f"place is {place}, which is neither the place of this config nor the next free "
                "one. Leave it out to have one chosen."
            )
    bracket, index = place
    for rung in rungs:
        if state.result(bracket, index, rung) is not None:
            raise InputError(
                f"bracket {bracket}, index {index} already has a result on rung {rung}, and an "
                "evaluation is recorded once. Leave the result out, or leave out place to add a "
                "second evaluation of the same config."
            )
    top = state.schedule.top
    if rungs[-1] > top and (rungs != [bracket] or bracket not in state.coming.brackets):
        raise InputError(
            f"rung {rungs[-1]} is above the current max_budget: deepen first, then import it."
        )
    if state.is_ahead(bracket, index) and len(rungs) > 1:
        raise InputError(
            f"bracket {bracket} has no place left in this run, and only results on its starting "
            "rung can be imported for the next one: deepen first."
        )
    return [(bracket, index, rung) for rung in rungs]


def _read_place(given: Any) -> Place:
    """A (bracket, index) given by the user, as integers."""
    try:
        bracket, index = given
        return whole(bracket), whole(index)
    except (TypeError, ValueError):
        raise InputError(f"place is {shown(given)}: give a (bracket, index).") from None


def _fits(state: State, config: Config, rung: int, place: Place) -> bool:
    """Whether a result on a rung can be imported at a place."""
    bracket, index = place
    if rung == bracket:
        return place == free_place(state, bracket) or state.result(*place, rung) is not None
    below = state.result(bracket, index, rung - 1)
    return below is not None and state.config(bracket, index) == config


def _place_of(state: State, config: Config, rung: int) -> Place | None:
    """The place of a config whose result on the rung below was imported."""
    for bracket in range(min(rung, len(state.progress))):
        above = state.results.get((bracket, rung), {})
        for index, result in state.results.get((bracket, rung - 1), {}).items():
            continues = result.imported and index not in above
            if continues and state.config(bracket, index) == config:
                return bracket, index
    return None


def free_place(state: State, bracket: int) -> Place:
    """The next place of a bracket without a config, in this run or the next full one."""
    if bracket not in state.coming.brackets:
        raise InputError(
            f"brackets are limited to the first {state.schedule.bracket_limit}, and none of them "
            f"starts on rung {bracket}. Extend the study with more brackets, then add more."
        )
    index = len(state.configs[bracket]) if bracket < len(state.configs) else 0
    size = state.coming.start_size(bracket)
    if index >= size:
        raise InputError(
            f"bracket {bracket} has no place left: it has {size} places even after the next "
            "deepening, and all are taken. Deepen or widen the study first, then add more."
        )
    return bracket, index
