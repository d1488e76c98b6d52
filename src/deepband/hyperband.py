"""The questions a loop asks: which jobs can run now, how many are open, is the run done, and
where does deepening lead?

Brackets are independent and all run side by side. A job can run when its config has arrived
on its rung; the lower rung goes first, then the lower bracket, then the lower index.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from deepband.errors import BudgetError
from deepband.facts import JobKey
from deepband.schedule import Budget, Schedule, as_number, read_budget
from deepband.state import State


def next_job(state: State) -> JobKey | None:
    """The first job that can run now and is not handed out, or None."""
    return next(ready_jobs(state), None)


def ready_jobs(state: State) -> Iterator[JobKey]:
    """All jobs that can run now and are not handed out, in order."""
    fronts = sorted((front.rung, bracket) for bracket, front in enumerate(state.fronts))
    for rung, bracket in fronts:
        for index in reversed(state.fronts[bracket].waiting):
            yield bracket, index, rung


def jobs_ahead(state: State) -> Iterator[JobKey]:
    """The jobs that the next deepening needs with any strategy, the shortest first: its new
    configs on their starting rungs."""
    schedule = state.schedule
    deeper = schedule.deepened()
    for bracket in deeper.brackets:
        known = schedule.start_size(bracket) if bracket <= schedule.top else 0
        for index in range(known, deeper.start_size(bracket)):
            if is_ready(state, bracket, index, bracket):
                yield bracket, index, bracket


def is_ready(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether a job can be handed out now: for the current run, or ahead of the next one."""
    key = bracket, index, rung
    if bracket < 0 or index < 0:
        return False
    if not state.is_ahead(bracket, index):
        open_now = is_open(state, bracket, index, rung)
        return open_now and index not in state.fronts[bracket].running
    deeper = state.schedule.deepened()
    wanted = rung == bracket <= deeper.top and index < deeper.start_size(bracket)
    return wanted and key not in state.ahead.running and key not in state.ahead.results


def running_jobs(state: State) -> list[JobKey]:
    """All jobs that are handed out and not told."""
    running = [
        (bracket, index, front.rung)
        for bracket, front in enumerate(state.fronts)
        for index in front.running
    ]
    return [*running, *state.ahead.running]


def is_open(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether the current run waits for the result of this job, or somebody runs it ahead."""
    if not 0 <= bracket < len(state.fronts):
        return (bracket, index, rung) in state.ahead.running
    front = state.fronts[bracket]
    if front.rung == rung and front.is_open(index):
        return True
    return (bracket, index, rung) in state.ahead.running


def open_jobs(state: State) -> int:
    """How many jobs the current run waits for now; more may follow on the rungs above."""
    return sum(front.open for front in state.fronts)


def failed_jobs(state: State) -> Iterator[JobKey]:
    """The failed evaluations of the current run on rungs that are not decided yet, and those ahead
    of the next one. Failures elsewhere stay what they are."""
    for key, told in state.ahead.results.items():
        if told.loss is None and told.origin is None:
            yield key
    for bracket, front in enumerate(state.fronts):
        if front.open:
            for index, told in state.results[bracket, front.rung].items():
                if told.loss is None and told.run == state.run.number and told.origin is None:
                    yield bracket, index, front.rung


def is_done(state: State) -> bool:
    """Whether every job of the current run is told."""
    return not any(front.waiting or front.running for front in state.fronts)


def deepened(state: State, to: Budget | None) -> Schedule:
    """The schedule that deepening to a max_budget leads to, `max_budget * eta` by default.

    It is the current one when this study has already been there, so that scripts can be
    repeated.
    """
    schedule = state.schedule
    if to is None:
        return schedule.deepened()
    rung = schedule.rung_of(to, "to")
    if rung is not None and rung > schedule.top:
        return schedule.deepened(rung - schedule.top)
    if rung in {run.schedule.top for run in state.runs}:
        return schedule
    reached = ", ".join(str(as_number(run.schedule.max_budget)) for run in state.runs)
    valid = _nearest_deepenings(schedule, read_budget("to", to))
    raise BudgetError(
        "to",
        to,
        f"max_budget grows by whole powers of eta, {schedule.eta}: the nearest to go to are "
        f"{valid}. ({reached}, where this study has been, would do nothing.)",
    )


def _nearest_deepenings(schedule: Schedule, wanted: Fraction) -> str:
    rung = schedule.top + 1
    while schedule.budget(rung + 1) < wanted and rung < schedule.top + 20:
        rung += 1
    return f"{as_number(schedule.budget(rung))} and {as_number(schedule.budget(rung + 1))}"
