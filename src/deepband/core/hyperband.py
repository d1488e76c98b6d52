"""Which jobs can run now, how many are open, and whether the run is done.

Brackets are independent and run concurrently. A job can run when its config has arrived on its
rung. Lower rungs come first, then lower brackets, then lower indices.

A job that another process has leased is not handed out while the lease is in force. That depends on
the time, which callers pass as `now`; without it, leases are ignored.

With a sampler that learns, a job whose config is not sampled yet can run when it has started on the
virtual clock (`virtual_schedule.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from deepband.core.facts import JobKey
from deepband.core.state import State

if TYPE_CHECKING:  # most studies need no simulation
    from deepband.core.virtual_schedule import VirtualSchedule


def ready_jobs(
    state: State, virtual: VirtualSchedule | None = None, now: float | None = None
) -> Iterator[JobKey]:
    """All jobs that can be handed out now, in order: with a sampler that learns, first those that
    have started on the virtual clock."""
    if now is None or not state.leases:
        return _waiting_jobs(state, virtual)
    found = _waiting_jobs(state, virtual)
    return (key for key in found if not state.is_leased(key, now))


def _waiting_jobs(state: State, virtual: VirtualSchedule | None) -> Iterator[JobKey]:
    if state.run.stopped is not None:
        return
    if virtual is not None:
        yield from (key for key in virtual.started(state) if not is_running(state, *key))
    for bracket in state.order:
        rung = state.progress[bracket].rung
        for index in reversed(state.progress[bracket].waiting):
            if virtual is None:
                yield bracket, index, rung
                continue
            if index >= len(state.configs[bracket]):
                break
            if not virtual.has_started((bracket, index, rung)):
                yield bracket, index, rung


def jobs_ahead(state: State) -> Iterator[JobKey]:
    """The jobs that a deepening by one level needs with any strategy, shortest first: its new
    configs on their starting rungs. None in a frugal run, which may never be filled."""
    if state.run.frugal:
        return
    schedule, deeper = state.schedule, state.coming
    for bracket in deeper.brackets:
        first = schedule.start_size(bracket) if bracket in schedule.brackets else 0
        for index in range(first, deeper.start_size(bracket)):
            if is_ready(state, bracket, index, bracket):
                yield bracket, index, bracket


def is_ready(
    state: State,
    bracket: int,
    index: int,
    rung: int,
    virtual: VirtualSchedule | None = None,
    now: float | None = None,
) -> bool:
    """Whether a job can be handed out now: for the current run, or ahead of the next full one."""
    key = bracket, index, rung
    if bracket < 0 or index < 0 or (now is not None and state.is_leased(key, now)):
        return False
    if state.is_late(*key):
        return is_open(state, *key) and key not in state.late.running
    if not state.is_ahead(bracket, index):
        if not is_open(state, *key) or index in state.progress[bracket].running:
            return False
        if state.run.stopped is not None:
            return False
        sampled = index < len(state.configs[bracket])
        return virtual is None or sampled or virtual.has_started(key)
    needed = rung == bracket and state.coming.contains(bracket, index)
    started = key in state.ahead.running or key in state.ahead.results
    return needed and not started and virtual is None


def is_running(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether a job was handed out and its result is not recorded."""
    key = bracket, index, rung
    if key in state.ahead.running or key in state.late.running:
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
    late = (key for key in state.late.running if is_open(state, *key))
    return [*{*running, *late}, *state.ahead.running]


def is_open(state: State, bracket: int, index: int, rung: int) -> bool:
    """Whether a result of this job would be recorded: the current run waits for it, it is running
    ahead, or an unfinished run has left it behind."""
    if 0 <= bracket < len(state.progress):
        progress = state.progress[bracket]
        if progress.rung == rung and progress.is_open(index):
            return True
    key = bracket, index, rung
    is_late = key in state.late.jobs and index not in state.results[bracket, rung]
    return is_late or key in state.ahead.running


def open_jobs(state: State) -> int:
    """How many jobs the current run waits for now; more may follow on the rungs above. None if it
    was stopped."""
    if state.run.stopped is not None:
        return 0
    return sum(progress.open for progress in state.progress)


def failed_jobs(state: State, virtual: VirtualSchedule | None = None) -> Iterator[JobKey]:
    """The failed evaluations that can be repeated: those of the current run on undecided rungs (in
    a frugal run all of them, until it is done), and those ahead of the next run. None that a
    sampler has learned from."""
    used = virtual.seen(state) if virtual else ()
    for key, result in state.ahead.results.items():
        if result.loss is None and not result.imported:
            yield key
    unfinished = state.run.frugal and not is_done(state)
    for bracket, progress in enumerate(state.progress):
        if progress.open or unfinished:
            for index, result in state.results[bracket, progress.rung].items():
                own = result.run == state.run.number and not result.imported
                needed = index in state.run.arrived[bracket, progress.rung]
                key = bracket, index, progress.rung
                if result.loss is None and own and needed and key not in used:
                    yield key


def is_done(state: State) -> bool:
    """Whether every job of the current run has a result, or the run was stopped."""
    if state.run.stopped is not None:
        return True
    return not any(progress.waiting or progress.running for progress in state.progress)


def is_decided(state: State, bracket: int, rung: int) -> bool:
    """Whether the current run has decided which configs of a cell are promoted."""
    return bracket < len(state.progress) and state.progress[bracket].rung > rung
