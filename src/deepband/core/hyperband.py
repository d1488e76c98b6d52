"""Which jobs can run now, how many are open, whether the run is done, and where deepening leads.

Brackets are independent and run concurrently. A job can run when its config has arrived on its
rung. Lower rungs come first, then lower brackets, then lower indices.

With a sampler that learns, brackets run sequentially, because the configs of a bracket are sampled
with the results of all brackets below it. They are sampled in groups of `group` configs (None for a
sampler that does not learn), each when the groups before it are evaluated on the starting rung.
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
    """The first job that can be handed out now, or None."""
    return next(ready_jobs(state, group), None)


def ready_jobs(state: State, group: int | None = None) -> Iterator[JobKey]:
    """All jobs that can be handed out now, in order."""
    order = sorted((progress.rung, bracket) for bracket, progress in enumerate(state.progress))
    for rung, bracket in order:
        end = None if group is None else _ready_end(state, bracket, group)
        for index in reversed(state.progress[bracket].waiting):
            if end is not None and index >= end:
                break
            yield bracket, index, rung


def _ready_end(state: State, bracket: int, group: int) -> int:
    """With a sampler that learns, the jobs of a bracket with smaller indices than this can run."""
    if any(progress.open for progress in state.progress[:bracket]):
        return 0
    progress, sampled = state.progress[bracket], len(state.configs[bracket])
    if progress.rung > bracket:
        return state.schedule.start_size(bracket)
    # A group may be sampled in part: a deepening cuts it, or users enqueue configs.
    first = sampled // group * group
    return sampled if progress.first_open < first else first + group


def jobs_ahead(state: State) -> Iterator[JobKey]:
    """The jobs that the next full run needs with any strategy, shortest first: its new configs on
    their starting rungs. None in a frugal run, which may never be filled."""
    if state.run.frugal:
        return
    schedule, deeper = state.schedule, state.coming
    for bracket in deeper.brackets:
        first = schedule.start_size(bracket) if bracket <= schedule.top else 0
        for index in range(first, deeper.start_size(bracket)):
            if is_ready(state, bracket, index, bracket):
                yield bracket, index, bracket


def is_ready(state: State, bracket: int, index: int, rung: int, group: int | None = None) -> bool:
    """Whether a job can be handed out now: for the current run, or ahead of the next full one."""
    key = bracket, index, rung
    if bracket < 0 or index < 0:
        return False
    if not state.is_ahead(bracket, index):
        can_start = group is None or index < _ready_end(state, bracket, group)
        running = index in state.progress[bracket].running
        return is_open(state, *key) and can_start and not running
    deeper = state.coming
    needed = rung == bracket <= deeper.top and index < deeper.start_size(bracket)
    started = key in state.ahead.running or key in state.ahead.results
    return needed and not started and group is None


def is_running(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether a job was handed out and its result is not recorded."""
    if (bracket, index, rung) in state.ahead.running:
        return True
    progress = state.progress[bracket] if 0 <= bracket < len(state.progress) else None
    return progress is not None and progress.rung == rung and index in progress.running


def running_jobs(state: State) -> list[JobKey]:
    """All jobs that were handed out and whose results are not recorded."""
    running = [
        (bracket, index, progress.rung)
        for bracket, progress in enumerate(state.progress)
        for index in progress.running
    ]
    return [*running, *state.ahead.running]


def is_open(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether the current run waits for the result of this job, or it is running ahead."""
    if 0 <= bracket < len(state.progress):
        progress = state.progress[bracket]
        if progress.rung == rung and progress.is_open(index):
            return True
    return (bracket, index, rung) in state.ahead.running


def open_jobs(state: State) -> int:
    """How many jobs the current run waits for now; more may follow on the rungs above."""
    return sum(progress.open for progress in state.progress)


def failed_jobs(state: State) -> Iterator[JobKey]:
    """The failed evaluations that can be repeated: those of the current run on undecided rungs (in
    a frugal run all of them, until it is done), and those ahead of the next run."""
    for key, result in state.ahead.results.items():
        if result.loss is None and not result.imported:
            yield key
    unfinished = state.run.frugal and not is_done(state)
    for bracket, progress in enumerate(state.progress):
        if progress.open or unfinished:
            for index, result in state.results[bracket, progress.rung].items():
                own = result.run == state.run.number and not result.imported
                if result.loss is None and own:
                    yield bracket, index, progress.rung


def is_done(state: State) -> bool:
    """Whether every job of the current run has a result."""
    return not any(progress.waiting or progress.running for progress in state.progress)


def deepened(state: State, strategy: str, to: Budget | None) -> Schedule | None:
    """The schedule that deepening to a max_budget leads to, `max_budget * eta` by default.

    None if the study has already reached it, so that scripts can be repeated. The current schedule
    if only a frugal run has reached it, and the other slots are to be filled.
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
        raise _not_a_power(state, to)
    return None


def _check_frugal(state: State, rung: int) -> None:
    """Raise if a frugal deepening cannot lead to a rung above the top."""
    schedule = state.schedule
    if rung > schedule.top + 1:
        here, wanted = (as_number(schedule.budget(each)) for each in (schedule.top + 1, rung))
        raise BudgetError(
            "to",
            wanted,
            f"frugal deepening adds one rung at a time. Deepen to {here}, run that, and continue "
            "from there; or choose another strategy.",
        )
    if is_done(state) and not state.frugal_contest()[0]:
        raise InputError(
            f"frugal deepening has no config to promote: every evaluation with the budget "
            f"{as_number(schedule.max_budget)} failed. Choose another strategy, which also adds "
            "new configs."
        )


def options(state: State) -> list[tuple[StrategyName, Schedule]]:
    """Every way to continue a finished run, with the schedule it leads to: filling the slots that a
    frugal run left out, then one level deeper. Those that would be refused are left out."""
    found = []
    for to in (state.schedule.max_budget, None):
        for strategy in NAMES:
            with suppress(InputError):  # too large, or nothing to promote
                schedule = deepened(state, strategy, to)
                if schedule is not None:
                    found.append((strategy, schedule))
    return found


def _not_a_power(state: State, to: Budget) -> BudgetError:
    schedule = state.schedule
    reached = ", ".join(str(as_number(run.schedule.max_budget)) for run in state.runs)
    valid = _nearest_deepenings(schedule, read_budget("to", to))
    return BudgetError(
        "to",
        to,
        f"max_budget grows by whole powers of eta, {schedule.eta}: the nearest values are {valid}. "
        f"(The study has already reached {reached}, which would do nothing.)",
    )


def _nearest_deepenings(schedule: Schedule, wanted: Fraction) -> str:
    rung = schedule.top + 1
    while schedule.budget(rung + 1) < wanted and rung < schedule.top + 20:
        rung += 1
    return f"{as_number(schedule.budget(rung))} and {as_number(schedule.budget(rung + 1))}"
