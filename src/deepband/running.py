"""What `Study.optimize` does: put an executor, a loop and interrupts together, for one run or, when
deepening is automatic, for one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from deepband.errors import InputError, shown
from deepband.executors.base import Timeout, check_seconds
from deepband.executors.choosing import choose, needs_outbox
from deepband.interrupts import Interrupts
from deepband.loop import FIRST_FAILURES, Limits, Loop
from deepband.objective import Objective, takes_context
from deepband.outbox import Outbox

if TYPE_CHECKING:
    from deepband.automatic import Automatic
    from deepband.executors.choosing import Given
    from deepband.study import Study


def run_jobs(
    study: Study,
    objective: Objective,
    limits: Limits,
    automatic: Automatic | None,
    *,
    workers: int | None,
    executor: Given,
    resources: Mapping[str, float] | None,
    timeout: Timeout,
    retries: int,
    wait: bool,
    first_failures: int | None,
    on_record: Callable[[], None] | None,
) -> None:
    """Run jobs until the run is done, and with automatic deepening until the advice or a limit says
    to stay; or until a limit is reached or an interrupt comes."""
    if workers is not None:
        _check_whole("workers", workers, 1)
    _check_whole("retries", retries, 0)
    if first_failures is not None:
        _check_whole("first_failures", first_failures, 0)
    if not callable(timeout):
        check_seconds("timeout", timeout)
    if limits.ahead_limit != 0 and study.learns:
        raise InputError(
            "work ahead draws the configs of the next run now, and the sampler of this study "
            "learns until then: leave ahead out."
        )
    study.lock()
    if automatic:
        automatic.check(study.state)

    def run(first_failures: int | None) -> bool:
        known = _evaluations(study)
        _run_once(
            study,
            objective,
            limits,
            workers=workers,
            executor=executor,
            resources=resources,
            timeout=timeout,
            retries=retries,
            wait=wait,
            first_failures=first_failures,
            on_record=on_record,
        )
        return _evaluations(study) > known

    trusted = run(first_failures)
    while automatic and study.done and not limits.out_of_time():
        to = automatic.next_budget(study.state)
        if to is None:
            return
        study.deepen(automatic.strategy, to)
        trusted = run(0 if trusted else first_failures) or trusted


def _evaluations(study: Study) -> int:
    return sum(map(len, study.state.results.values()))


def _run_once(
    study: Study,
    objective: Objective,
    limits: Limits,
    *,
    workers: int | None,
    executor: Given,
    resources: Mapping[str, float] | None,
    timeout: Timeout,
    retries: int,
    wait: bool,
    first_failures: int | None,
    on_record: Callable[[], None] | None,
) -> None:
    with_context = takes_context(objective)
    travels = needs_outbox(executor, workers or 0, timeout)
    outbox = Outbox(study.files) if study.lasts or travels else None
    if outbox:
        outbox.make()
    interrupts = Interrupts()
    chosen = choose(
        executor,
        objective,
        interrupts,
        outbox,
        workers=workers or 0,
        timeout=timeout,
        resources=resources,
    )
    if first_failures is None:
        at_once = min(chosen.free, study.group or chosen.free)
        first_failures = max(FIRST_FAILURES, at_once)
    loop = Loop(
        study,
        chosen,
        study.checkpoints if with_context else None,
        study.keep,
        limits=limits,
        retries=retries,
        first_failures=first_failures,
        outbox=outbox,
        wait=wait,
        on_record=on_record,
    )
    with interrupts:
        loop.run(interrupts)


def _check_whole(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(f"{name} is {shown(given)}: give a whole number of {least} or more.")
