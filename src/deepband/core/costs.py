"""The evaluations a study has paid for and those that are left, and what they cost: every
interface shows the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from deepband.core.exact_numbers import read_exactly
from deepband.core.facts import JobFinished, JobKey
from deepband.core.schedule import Cell, Schedule
from deepband.core.state import State

NONE: Mapping[JobKey, float] = {}


class Costs(NamedTuple):
    """What evaluations cost. One whose training was stopped early costs what it used."""

    whole: Fraction
    """Each at the budget that it used, from scratch."""
    resumed: Fraction
    """If training always continued from the rung below."""
    trained: Fraction
    """What was actually trained: from the checkpoint of each evaluation, if it had one."""
    unused: Fraction
    """What training that was stopped early did not use of the full budgets."""


def paid(state: State, run: int | None = None) -> Iterator[JobFinished]:
    """The evaluations that the study made itself, in one run or in all runs. Evaluations made
    ahead of the next run are not included."""
    return (
        result
        for result in state.all_results()
        if (run is None or run == result.run) and not result.imported
    )


def counts(evaluations: Iterable[JobFinished]) -> Counter[Cell]:
    """How many evaluations there are in each (bracket, rung)."""
    return Counter((each.bracket, each.rung) for each in evaluations)


def costs(
    schedule: Schedule,
    evaluations: Collection[JobFinished],
    stopped: Mapping[JobKey, float] = NONE,
) -> Costs:
    """What evaluations cost, with the budgets of a schedule. `stopped` has the jobs whose training
    was stopped early, of all runs: a config that was stopped continues from there at best."""
    counted = counts(evaluations)
    whole, resumed = schedule.cost_of(counted), schedule.cost_resumed_of(counted)
    begun = Counter(each.resumed_from for each in evaluations if each.resumed_from is not None)
    trained = whole - sum(n * schedule.charge(rung) for rung, n in begun.items())
    saved = [_saved(schedule, each) for each in evaluations if each.stopped_after is not None]
    less = [sum(column, Fraction(0)) for column in zip(*saved, strict=True)] or [Fraction(0)] * 3
    if stopped:
        below = ((each.bracket, each.index, each.rung - 1) for each in evaluations)
        resumed += missing(schedule, {key: stopped[key] for key in below if key in stopped})
    return Costs(whole - less[0], resumed - less[1], trained - less[2], less[0])


def missing(schedule: Schedule, stopped: Mapping[JobKey, float]) -> Fraction:
    """What the rungs above may cost in addition, because training was stopped early."""
    budgets = (untrained(schedule, key[2], after, None) for key, after in stopped.items())
    return sum(budgets, Fraction(0))


def trained(schedule: Schedule, rung: int, resumed_from: int | None) -> Fraction:
    """What an evaluation trains if it is not stopped early: the cost of its rung, less that of the
    checkpoint it resumed from."""
    return schedule.charge(rung) - _charge(schedule, resumed_from)


def untrained(
    schedule: Schedule, rung: int, stopped_after: float | None, begun: int | None
) -> Fraction:
    """How much of the budget of a rung training has not used that was stopped early, if it began at
    the budget of another one or, if that is None, from scratch."""
    if stopped_after is None:
        return Fraction(0)
    used = max(read_exactly(stopped_after), _charge(schedule, begun))
    return max(Fraction(0), schedule.charge(rung) - used)


def _charge(schedule: Schedule, rung: int | None) -> Fraction:
    return Fraction(0) if rung is None else schedule.charge(rung)


def _saved(schedule: Schedule, result: JobFinished) -> tuple[Fraction, Fraction, Fraction]:
    """How much less an evaluation that was stopped early costs: whole, resumed and trained."""
    below = result.rung - 1 if result.rung > result.bracket else None
    whole, resumed, actual = (
        untrained(schedule, result.rung, result.stopped_after, begun)
        for begun in (None, below, result.resumed_from)
    )
    return whole, resumed, actual


def cost_left(state: State) -> Fraction:
    """The least that the current run will still cost, every evaluation at its full budget."""
    return state.schedule.cost_of(slots_left(state))


def slots_left(state: State) -> dict[Cell, int]:
    """How many evaluations the current run still needs in each cell, at least. None if it was
    stopped."""
    left: dict[Cell, int] = {}
    if state.run.stopped is not None:
        return left
    for bracket, rung in state.schedule.cells():
        progress = state.progress[bracket]
        if rung == progress.rung:
            left[bracket, rung] = progress.open
        elif rung > progress.rung:
            evaluated = len(state.results[bracket, rung])
            slots = state.schedule.slots(bracket, rung)
            if state.run.skipped:
                slots = min(slots, _candidates(state, bracket))
            left[bracket, rung] = max(0, slots - evaluated)
    return left


def _candidates(state: State, bracket: int) -> int:
    """How many configs can be promoted from the rung that a bracket is on. After skips, these may
    be fewer than there are slots on the rungs above."""
    cell = bracket, state.progress[bracket].rung
    return len(state.run.arrived[cell].union(state.results[cell]))
