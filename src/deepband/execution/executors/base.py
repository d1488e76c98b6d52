"""The protocol that every executor implements, and the tasks it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.errors import InputError, shown
from deepband.execution.objective import Task

Timeout: TypeAlias = float | Callable[[float], float] | None
"""The seconds that an evaluation may take, a function from its budget to seconds, or None."""


def check_seconds(name: str, given: Any) -> None:
    """Raise an InputError for anything but a positive number of seconds or None."""
    number = isinstance(given, Real) and not isinstance(given, bool)
    if given is not None and not (number and 0 < given < math.inf):
        raise InputError(f"{name} is {shown(given)}: give seconds above 0, or leave it out.")


def seconds_allowed(timeout: Timeout, task: Task) -> float | None:
    """How long a task may take; None if there is no limit."""
    seconds = timeout(task.job.budget) if callable(timeout) else timeout
    check_seconds("timeout", seconds)
    return seconds


@dataclass(frozen=True, slots=True)
class Order:
    """A task on its way to a worker."""

    task: Task
    token: str
    """Identifies this attempt at the job."""
    seconds: float | None
    """How long the task may take."""
    folder: Path
    """The folder of the study, as a path of the driver."""
    device: str = field(default="", kw_only=True)
    """The GPU of the worker, as CUDA_VISIBLE_DEVICES names it; empty if it has none."""

    @property
    def key(self) -> JobKey:
        return self.task.job.key


class Ended(NamedTuple):
    """A task that has ended: with an attempt, or lost for a reason."""

    task: Task
    attempt: Attempt | None
    lost: str | None = None
    """A kind, a colon and details: the worker died, or the task took too long."""


class Executor(Protocol):
    """Runs tasks. Every submitted task ends exactly once."""

    @property
    def free(self) -> int:
        """The number of tasks that can be submitted now."""

    def submit(self, task: Task) -> None:
        """Start a task."""

    def wait(self, seconds: float) -> Sequence[Ended]:
        """The tasks that have ended, as soon as there are any; none after this many seconds.

        It also blocks when no task runs, because the caller may be polling the workers that a dead
        driver left behind."""

    def close(self) -> None:
        """Kill all workers and the processes that they started."""
