"""The questions a loop asks: which jobs can run now, how many are open, is the run done, and
where does deepening lead?

Brackets are independent and all run side by side. A job can run when its config has arrived
on its rung; the lower rung goes first, then the lower bracket, then the lower index.

Under a sampler that learns they run in turn, because a bracket's configs are drawn with all that
the brackets below it came to. Its configs are drawn in groups of a given size: `group`, which is
None for a sampler that does not learn. A group can be drawn when those before it are evaluated on
the starting rung.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

from deepband.core.facts import JobKey
from deepband.core.schedule import Budget, Schedule, as_number, read_budget
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, NAMES, StrategyName
from deepband.errors import BudgetError, InputError


def next_job(state: State, group: int | None = None) -> JobKey | None:
    """The first job that can run now and is not handed out, or None."""
    return next(ready_jobs(state, group), None)


def ready_jobs(state: State, group: int | None = None) -> Iterator[JobKey]:
    """All jobs that can run now and are not handed out, in order."""
    progress = sorted((front.rung, bracket) for bracket, front in enumerate(state.progress))
    for rung, bracket in progress:
        end = None if group is None else _end_of_turn(state, bracket, group)
        for index in reversed(state.progress[bracket].waiting):
            if end is not None and index >= end:
                break
            yield bracket, index, rung


def _end_of_turn(state: State, bracket: int, group: int) -> int:
    """The jobs of a bracket that can run now have smaller indices than this, under a sampler that
    learns."""
    if any(front.open for front in state.progress[:bracket]):
        return 0
    front, drawn = state.progress[bracket], len(state.configs[bracket])
    if front.rung > bracket:
        return state.schedule.start_size(bracket)
    first = drawn // group * group  # a group may be drawn in part: deepening cuts, users enqueue
    return drawn if front.first_open < first else first + group


def jobs_ahead(state: State) -> Iterator[JobKey]:
    """The jobs that the next full run needs with any strategy, the shortest first: its new configs
    on their starting rungs. There are none in a frugal run, which may never be filled."""
    if state.run.frugal:
        return
    schedule, deeper = state.schedule, state.coming
    for bracket in deeper.brackets:
        known = schedule.start_size(bracket) if bracket <= schedule.top else 0
        for index in range(known, deeper.start_size(bracket)):
            if is_ready(state, bracket, index, bracket):
                yield bracket, index, bracket


def is_ready(state: State, bracket: int, index: int, rung: int, group: int | None = None) -> bool:
    """Whether a job can be handed out now: for the current run, or ahead of the next full one."""
    key = bracket, index, rung
    if bracket < 0 or index < 0:
        return False
    if not state.is_ahead(bracket, index):
        open_now = is_open(state, bracket, index, rung)
        its_turn = group is None or index < _end_of_turn(state, bracket, group)
        return open_now and its_turn and index not in state.progress[bracket].running
    deeper = state.coming
    wanted = rung == bracket <= deeper.top and index < deeper.start_size(bracket)
    known = key in state.ahead.running or key in state.ahead.results
    return wanted and not known and group is None


def is_running(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether a job is handed out and not told."""
    if (bracket, index, rung) in state.ahead.running:
        return True
    front = state.progress[bracket] if 0 <= bracket < len(state.progress) else None
    return front is not None and front.rung == rung and index in front.running


def running_jobs(state: State) -> list[JobKey]:
    """All jobs that are handed out and not told."""
    running = [
        (bracket, index, front.rung)
        for bracket, front in enumerate(state.progress)
        for index in front.running
    ]
    return [*running, *state.ahead.running]


def is_open(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether the current run waits for the result of this job, or somebody runs it ahead."""
    if not 0 <= bracket < len(state.progress):
        return (bracket, index, rung) in state.ahead.running
    front = state.progress[bracket]
    if front.rung == rung and front.is_open(index):
        return True
    return (bracket, index, rung) in state.ahead.running


def open_jobs(state: State) -> int:
    """How many jobs the current run waits for now; more may follow on the rungs above."""
    return sum(front.open for front in state.progress)


def failed_jobs(state: State) -> Iterator[JobKey]:
    """The failed evaluations of the current run on rungs that are not decided yet (all of a frugal
    run, while it is not done), and those ahead of the next one. Failures elsewhere stay what they
    are."""
    for key, told in state.ahead.results.items():
        if told.loss is None and told.origin is None:
            yield key
    undone = state.run.frugal and not is_done(state)
    for bracket, front in enumerate(state.progress):
        if front.open or undone:
            for index, told in state.results[bracket, front.rung].items():
                if told.loss is None and told.run == state.run.number and told.origin is None:
                    yield bracket, index, front.rung


def is_done(state: State) -> bool:
    """Whether every job of the current run is told."""
    return not any(front.waiting or front.running for front in state.progress)


def deepened(state: State, strategy: str, to: Budget | None) -> Schedule | None:
    """The schedule that deepening to a max_budget leads to, `max_budget * eta` by default.

    It is None when there is nothing to do, because this study has already been there, so that
    scripts can be repeated. The current one is filled when only a frugal run has been there.
    """
    schedule = state.schedule
    rung = schedule.top + 1 if to is None else schedule.rung_of(to, "to")
    if rung is not None and rung > schedule.top:
        if strategy == FRUGAL:
            _check_frugal(state, rung)
        return schedule.deepened(rung - schedule.top)
    if rung == schedule.top and state.run.frugal and strategy != FRUGAL:
        return schedule
    if to is not None and rung not in {run.schedule.top for run in state.runs}:
        raise _not_on_the_way(state, to)
    return None


def _check_frugal(state: State, rung: int) -> None:
    """Raise if a frugal deepening cannot lead to a rung above the top."""
    schedule = state.schedule
    if rung > schedule.top + 1:
        here, wanted = (as_number(schedule.budget(each)) for each in (schedule.top + 1, rung))
        raise BudgetError(
            "to",
            wanted,
            f"frugal deepening goes up one rung at a time. Deepen to {here}, run that, and go on "
            "from there; or choose another strategy.",
        )
    if is_done(state) and not state.frugal_contest()[0]:
        raise InputError(
            f"frugal deepening has nobody to send on: every evaluation with the budget "
            f"{as_number(schedule.max_budget)} failed. Choose another strategy, which draws new "
            "configs too."
        )


def options(state: State) -> list[tuple[StrategyName, Schedule]]:
    """Every way to go on from a run that is done, with where it leads: to fill the level of a
    frugal run, then one level deeper. None that is refused is among them."""
    found = []
    for to in (state.schedule.max_budget, None):
        for strategy in NAMES:
            with suppress(InputError):  # it would be too large, or has nobody to send on
                schedule = deepened(state, strategy, to)
                if schedule is not None:
                    found.append((strategy, schedule))
    return found


def _not_on_the_way(state: State, to: Budget) -> BudgetError:
    schedule = state.schedule
    reached = ", ".join(str(as_number(run.schedule.max_budget)) for run in state.runs)
    valid = _nearest_deepenings(schedule, read_budget("to", to))
    return BudgetError(
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
