"""One call of `Study.optimize`: the executor, the loop and the interrupts put together."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepband.errors import InputError, shown
from deepband.execution.display import ProgressSpec, check_spec, followed
from deepband.execution.executors.base import Timeout, check_seconds
from deepband.execution.executors.selection import choose, needs_outbox
from deepband.execution.limits import Limits
from deepband.execution.loop import FIRST_FAILURES, JobSession, Loop
from deepband.execution.objective import Objective, takes_context
from deepband.execution.outbox import Outbox
from deepband.system.interrupts import Interrupts

if TYPE_CHECKING:
    from deepband.execution.executors.selection import ExecutorSpec


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The arguments of `Study.optimize` about where and how jobs run."""

    workers: int | None
    executor: ExecutorSpec
    resources: Mapping[str, float] | None
    timeout: Timeout
    retries: int
    wait: bool
    first_failures: int | None
    progress: ProgressSpec = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            _check_whole("workers", self.workers, 1)
        _check_whole("retries", self.retries, 0)
        if self.first_failures is not None:
            _check_whole("first_failures", self.first_failures, 0)
        if not callable(self.timeout):
            check_seconds("timeout", self.timeout)
        check_spec(self.progress)


def run_jobs(
    session: JobSession, objective: Objective, limits: Limits, options: RunOptions
) -> None:
    """Run jobs until the run is done, a limit is reached or the user interrupts it."""
    if limits.ahead_limit != 0 and session.learns:
        raise InputError(
            "work ahead samples the configs of the next run now, but the sampler of this study "
            "learns until then: leave ahead out."
        )
    session.lock()
    interrupts = Interrupts()
    loop = _loop(session, objective, limits, options, interrupts)
    interrupts.running = loop.running.__len__
    with interrupts, followed(options.progress, loop, interrupts):
        loop.run(interrupts)


def _loop(
    session: JobSession,
    objective: Objective,
    limits: Limits,
    options: RunOptions,
    interrupts: Interrupts,
) -> Loop:
    travels = needs_outbox(options.executor, options.workers or 0, options.timeout)
    if travels and not session.persistent and not isinstance(options.executor, ThreadPoolExecutor):
        from deepband.execution.executors.serialization import check_choices  # loads cloudpickle

        check_choices(session.state.created.space)
        check_choices(session.state.space)
    outbox = Outbox(session.files) if session.persistent or travels else None
    if outbox:
        outbox.make()
    chosen = choose(
        options.executor,
        objective,
        interrupts,
        outbox,
        workers=options.workers or 0,
        timeout=options.timeout,
        resources=options.resources,
    )
    first_failures = options.first_failures
    if first_failures is None:
        at_once = min(chosen.free, session.group or chosen.free)
        first_failures = max(FIRST_FAILURES, at_once)
    return Loop(
        session,
        chosen,
        session.checkpoints if takes_context(objective) else None,
        session.keep,
        limits=limits,
        retries=options.retries,
        first_failures=first_failures,
        outbox=outbox,
        wait=options.wait,
    )


def _check_whole(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(f"{name} is {shown(given)}: give a whole number of {least} or more.")
