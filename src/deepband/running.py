"""What `Study.optimize` does: put an executor, a loop and interrupts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deepband.errors import InputError, shown
from deepband.executors.base import Executor, Timeout, check_seconds
from deepband.executors.inline import InlineExecutor
from deepband.interrupts import Interrupts
from deepband.loop import FIRST_FAILURES, Limits, Loop
from deepband.objective import Objective, takes_context
from deepband.outbox import Outbox

if TYPE_CHECKING:
    from deepband.study import Study


def run_jobs(
    study: Study,
    objective: Objective,
    limits: Limits,
    *,
    workers: int,
    timeout: Timeout,
    retries: int,
    wait: bool,
    first_failures: int | None,
    on_record: Callable[[], None] | None,
) -> None:
    """Run jobs until the run is done, a limit is reached or an interrupt comes."""
    _check_whole("workers", workers, 1)
    _check_whole("retries", retries, 0)
    if first_failures is None:
        first_failures = max(FIRST_FAILURES, workers)
    _check_whole("first_failures", first_failures, 0)
    if not callable(timeout):
        check_seconds("timeout", timeout)
    with_context = takes_context(objective)
    study.lock()
    inline = workers == 1 and timeout is None
    outbox = Outbox(study.files) if study.lasts or not inline else None
    if outbox:
        outbox.make()
    interrupts = Interrupts()
    executor: Executor = InlineExecutor(objective, interrupts, outbox)
    if not inline:
        from deepband.executors.processes import ProcessExecutor  # loads Pebble

        executor = ProcessExecutor(objective, workers, study.files, timeout)
    loop = Loop(
        study,
        executor,
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
