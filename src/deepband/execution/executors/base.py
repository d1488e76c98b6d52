"""The protocol that every executor implements, and the tasks it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.errors import InputError, shown
from deepband.execution.batch import Answer
from deepband.execution.objective import Task

Timeout: TypeAlias = float | Callable[[float], float] | None
"""The seconds that an evaluation may take, a function from its budget to seconds, or None."""


def check_seconds(name: str, given: Any) -> None:
    """Raise an InputError for anything but a positive number of seconds or None."""
    number = isinstance(given, Real) and not isinstance(given, bool)
    if given is not None and not (number and 0 < given < math.inf):
        raise InputError(f"{name} is {shown(given)}: give seconds above 0, or leave it out.")


def seconds_allowed(timeout: Timeout, tasks: Sequence[Task]) -> float | None:
    """How long a call with these tasks, which have the same budget, may take; None if there is no
    limit."""
    seconds = timeout(tasks[0].job.budget) if callable(timeout) else timeout
    check_seconds("timeout", seconds)
    return seconds


@dataclass(frozen=True, slots=True)
class Order:
    """Tasks of one call of the objective on their way to a worker."""

    tasks: Sequence[Task]
    token: str
    """Identifies these attempts at their jobs."""
    seconds: float | None
    """How long the call may take."""
    folder: Path
    """The folder of the study, as a path of the driver."""
    device: str = field(default="", kw_only=True)
    """The GPU of the worker, as CUDA_VISIBLE_DEVICES names it; empty if it has none."""

    @property
    def keys(self) -> Sequence[JobKey]:
        return [task.job.key for task in self.tasks]

    @property
    def key(self) -> JobKey:
        """The job after which files of the order are named."""
        return self.tasks[0].job.key


class Ended(NamedTuple):
    """A task that has ended: with an attempt, lost for a reason, or without a valid result."""

    task: Task
    attempt: Attempt | None
    lost: str | None = None
    """A kind, a colon and details: the worker died, the task took too long, or the call of its
    batch raised."""
    fault: str | None = None
    """What is wrong with the result that the objective returned."""


def ends(tasks: Sequence[Task], answer: Answer) -> list[Ended]:
    """The ends of tasks that an answer contains: those with an attempt and, unless the others are
    still running, the others without."""
    attempts = {attempt.job.key: attempt for attempt in answer.attempts}
    ended: list[Ended] = []
    for task in tasks:
        job = task.job
        attempt = attempts.get(job.key)
        if attempt is not None:
            own = attempt.job is job  # a worker returns a copy
            ended.append(Ended(task, attempt if own else Attempt(job, *attempt[1:])))
        elif not answer.more:
            ended.append(Ended(task, None, answer.lost, answer.fault))
    return ended


class Executor(Protocol):
    """Runs tasks. Every submitted task ends exactly once."""

    @property
    def free(self) -> int:
        """How often `submit` can be called now."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start one call of the objective: with one task, or with those of a batch. It may begin
        only when `wait` is called."""

    def wait(self, seconds: float) -> Sequence[Ended]:
        """The tasks that have ended, as soon as there are any; none after this many seconds.

        It also blocks when no task runs, because the caller may be polling the workers that a dead
        driver left behind."""

    def close(self) -> None:
        """Kill all workers and the processes that they started."""


@runtime_checkable
class Leaving(Protocol):
    """Part of an executor whose tasks run without a driver, so that a driver that stops can leave
    them to the next one. It does not inherit from Executor: `isinstance` would then evaluate
    `free`, which may raise."""

    def leave(self) -> None:
        """Leave all tasks that were submitted, in place of `close`."""
