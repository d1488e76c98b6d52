"""What `Study.optimize` does: put an executor, a loop and interrupts together, for one run or, when
deepening is automatic, for one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from deepband.errors import InputError, shown
from deepband.execution.executors.base import Timeout, check_seconds
from deepband.execution.executors.selection import choose, needs_outbox
from deepband.execution.loop import FIRST_FAILURES, Limits, Loop
from deepband.execution.objective import Objective, takes_context
from deepband.execution.outbox import Outbox
from deepband.system.interrupts import Interrupts

if TYPE_CHECKING:
    from deepband.execution.executors.selection import ExecutorSpec
    from deepband.study.automatic_deepening import Automatic
    from deepband.study.study import Study


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How jobs are run: what `Study.optimize` was given for that."""

    workers: int | None
    executor: ExecutorSpec
    resources: Mapping[str, float] | None
    timeout: Timeout
    retries: int
    wait: bool
    first_failures: int | None
    on_record: Callable[[], None] | None

    def __post_init__(self) -> None:
        if self.workers is not None:
            _check_whole("workers", self.workers, 1)
        _check_whole("retries", self.retries, 0)
        if self.first_failures is not None:
            _check_whole("first_failures", self.first_failures, 0)
        if not callable(self.timeout):
            check_seconds("timeout", self.timeout)


def run_jobs(
    study: Study, objective: Objective, limits: Limits, automatic: Automatic | None, how: RunOptions
) -> None:
    """Run jobs until the run is done, and with automatic deepening until the advice or a limit says
    to stay; or until a limit is reached or an interrupt comes."""
    if limits.ahead_limit != 0 and study.learns:
        raise InputError(
            "work ahead draws the configs of the next run now, and the sampler of this study "
            "learns until then: leave ahead out."
        )
    study.lock()
    if automatic:
        automatic.check(study.state)
    how = _run_once(study, objective, limits, how)
    while automatic and study.done and not limits.out_of_time():
        to, _ = automatic.decide(study.state)
        if to is None:
            return
        study.deepen(automatic.strategy, to)
        how = _run_once(study, objective, limits, how)


def _run_once(study: Study, objective: Objective, limits: Limits, how: RunOptions) -> RunOptions:
    """Run one run, and return how to run the next one: failures are verdicts there if this call has
    evaluated anything."""
    known = _evaluations(study)
    interrupts = Interrupts()
    loop = _loop(study, objective, limits, how, interrupts)
    with interrupts:
        loop.run(interrupts)
    return how if _evaluations(study) == known else replace(how, first_failures=0)


def _evaluations(study: Study) -> int:
    return sum(map(len, study.state.results.values()))


def _loop(
    study: Study, objective: Objective, limits: Limits, how: RunOptions, interrupts: Interrupts
) -> Loop:
    travels = needs_outbox(how.executor, how.workers or 0, how.timeout)
    if travels and not study.persistent and not isinstance(how.executor, ThreadPoolExecutor):
        from deepband.execution.executors.serialization import check_choices  # loads cloudpickle

        check_choices(study.state.created.space)
    outbox = Outbox(study.files) if study.persistent or travels else None
    if outbox:
        outbox.make()
    chosen = choose(
        how.executor,
        objective,
        interrupts,
        outbox,
        workers=how.workers or 0,
        timeout=how.timeout,
        resources=how.resources,
    )
    first_failures = how.first_failures
    if first_failures is None:
        at_once = min(chosen.free, study.group or chosen.free)
        first_failures = max(FIRST_FAILURES, at_once)
    return Loop(
        study,
        chosen,
        study.checkpoints if takes_context(objective) else None,
        study.keep,
        limits=limits,
        retries=how.retries,
        first_failures=first_failures,
        outbox=outbox,
        wait=how.wait,
        on_record=how.on_record,
    )


def _check_whole(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(f"{name} is {shown(given)}: give a whole number of {least} or more.")
