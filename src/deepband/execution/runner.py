"""One call of `Study.optimize`: the executor, the loop and the interrupts put together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from deepband.errors import (
    BatchWarning,
    InputError,
    counted,
    show_warning,
    shown,
    unexpected_argument,
    user_level,
)
from deepband.execution.devices import Device, DevicesSpec, assigned, read_devices
from deepband.execution.display import ProgressSpec, check_spec, followed
from deepband.execution.executors.base import Timeout, check_seconds
from deepband.execution.executors.selection import SLURM, choose, needs_outbox
from deepband.execution.job_queue import Batches, JobQueue, SingleJobs
from deepband.execution.job_session import JobSession
from deepband.execution.limits import Limits
from deepband.execution.loop import FIRST_FAILURES, Loop
from deepband.execution.objective import BatchObjective, Objective, takes_context
from deepband.execution.outbox import Outbox
from deepband.execution.precheck import Precheck, check_precheck
from deepband.execution.shared_use import SharedUse
from deepband.system.interrupts import Interrupts

if TYPE_CHECKING:
    from deepband.execution.executors.selection import ExecutorSpec


class Execution(TypedDict, total=False):
    """Where and how jobs run: the arguments that several methods of a study share. `Study.optimize`
    explains them."""

    workers: int | None
    executor: ExecutorSpec
    resources: Mapping[str, Any] | None
    timeout: Timeout
    retries: int
    wait: bool
    first_failures: int | None
    devices: DevicesSpec
    per_device: int
    progress: ProgressSpec
    batch: bool | int | None
    precheck: Precheck | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The same arguments with their defaults, checked."""

    workers: int | None = None
    executor: ExecutorSpec = None
    resources: Mapping[str, Any] | None = None
    timeout: Timeout = None
    retries: int = 1
    wait: bool = True
    first_failures: int | None = None
    devices: DevicesSpec = None
    per_device: int = 1
    progress: ProgressSpec = None
    batch: bool | int | None = None
    precheck: Precheck | None = None

    def __post_init__(self) -> None:
        if self.batch is not None and not isinstance(self.batch, bool):
            _check_whole("batch", self.batch, 1)
        if self.workers is not None:
            _check_whole("workers", self.workers, 1)
        _check_whole("per_device", self.per_device, 1)
        self._check_devices()
        _check_whole("retries", self.retries, 0)
        if self.first_failures is not None:
            _check_whole("first_failures", self.first_failures, 0)
        if not callable(self.timeout):
            check_seconds("timeout", self.timeout)
        check_spec(self.progress)
        if self.precheck is not None:
            check_precheck(self.precheck)
        if self.devices is not None:  # found once, also if there are several runs
            object.__setattr__(self, "devices", read_devices(self.devices, os.environ))
            object.__setattr__(self, "workers", len(self.worker_devices))

    @property
    def queue(self) -> JobQueue:
        """What decides which jobs a call of the objective gets."""
        if self.batch is None or self.batch is False:
            return SingleJobs()
        return Batches(None if self.batch is True else self.batch)

    def called(self, objective: Objective) -> Objective:
        """An objective as it is called: with one job or, as a BatchObjective, with several. Raises
        if it does not take what it would get."""
        if self.batch is None or self.batch is False:
            takes_context(objective)
            return objective
        return BatchObjective.of(objective)

    def gives_context(self, objective: Objective) -> bool:
        """Whether an objective receives a context."""
        return takes_context(self.called(objective))

    @property
    def worker_devices(self) -> Sequence[Device]:
        """The device of each worker; none if no devices are given."""
        if self.devices is None:
            return ()
        return assigned(read_devices(self.devices, os.environ), self.per_device, self.workers)

    def _check_devices(self) -> None:
        if self.devices is None and self.per_device != 1:
            raise InputError(
                f"per_device is {self.per_device}, the number of workers on each device: give "
                "`devices`, too."
            )
        if self.devices is not None and self.executor is not None:
            raise InputError(
                "devices are for worker processes on this machine, but an executor has its own "
                "workers: leave out `devices`, and give what each job needs as `resources`. On Ray "
                "that is one num_gpus; on Slurm one gpus_per_node; on Dask one GPU, with workers "
                "started with `--resources GPU=1`."
            )


def read_execution(method: str, given: Execution) -> RunOptions:
    """The options that a method was given as keywords."""
    for name in given:
        if name not in Execution.__annotations__:
            raise unexpected_argument(method, name, Execution.__annotations__)
    return RunOptions(**given)


def run_jobs(
    session: JobSession,
    objective: Objective,
    limits: Limits,
    options: RunOptions,
    shared: SharedUse | None = None,
) -> None:
    """Run jobs until the run is done, a limit is reached or the user interrupts it."""
    if limits.ahead_limit != 0 and session.learns:
        raise InputError(
            "work ahead samples the configs of the next run now, but the sampler of this study "
            "learns until then: leave out `ahead`."
        )
    if limits.ahead_limit != 0 and session.state.created.reuse_identical:
        raise InputError(
            "work ahead evaluates configs of the next run now, but which of them reuse the result "
            "of an equal one is not known until then: leave out `ahead`."
        )
    objective = options.called(objective)
    session.lock()
    interrupts = Interrupts()
    loop = _loop(session, objective, limits, options, interrupts, shared)
    interrupts.running, interrupts.leaves = loop.running.__len__, loop.leaves
    with interrupts, followed(options.progress, loop, interrupts):
        loop.run(interrupts)
    if loop.repeated and not loop.recorder.any_failed:  # of failures, the caller warns
        warn_of_repeated_calls(loop.repeated)


def warn_of_repeated_calls(reasons: Sequence[str]) -> None:
    """Warn that calls with several configs did not return, even if all configs have results."""
    show_warning(
        f"{counted(len(reasons), 'call')} of the objective with several configs did not return; "
        "their configs were evaluated in smaller batches. The first error:\n"
        f"{reasons[0].strip()}",
        BatchWarning,
        user_level() + 1,
    )


def _loop(
    session: JobSession,
    objective: Objective,
    limits: Limits,
    options: RunOptions,
    interrupts: Interrupts,
    shared: SharedUse | None,
) -> Loop:
    if options.executor == SLURM and not session.persistent:
        raise InputError(
            "executor is 'slurm', but the study is in memory: open it with a path on a file system "
            "that all nodes share."
        )
    devices = options.worker_devices
    travels = needs_outbox(options.executor, options.workers or 0, options.timeout, devices)
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
        devices=devices,
    )
    first_failures = options.first_failures
    if first_failures is None:
        at_once = min(chosen.free, session.parallel or chosen.free)
        first_failures = max(FIRST_FAILURES, at_once)
    return Loop(
        session,
        chosen,
        session.checkpoints if takes_context(objective) else None,
        limits=limits,
        retries=options.retries,
        first_failures=first_failures,
        outbox=outbox,
        wait=options.wait,
        queue=options.queue,
        precheck=options.precheck,
        shared=shared,
    )


def _check_whole(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise InputError(f"{name} is {shown(given)}: give a whole number of {least} or more.")
