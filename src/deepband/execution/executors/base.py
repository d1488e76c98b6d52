"""What an executor is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple, Protocol, TypeAlias

from deepband.core.records import Attempt
from deepband.errors import InputError, shown
from deepband.execution.objective import Task

Timeout: TypeAlias = float | Callable[[float], float] | None
"""Seconds that an evaluation may take, or a function of its budget, or None for ever."""


def check_seconds(name: str, given: Any) -> None:
    """Refuse what is no span of time; None is none."""
    number = isinstance(given, Real) and not isinstance(given, bool)
    if given is not None and not (number and 0 < given < math.inf):
        raise InputError(f"{name} is {shown(given)}: give seconds above 0, or None.")


class Ended(NamedTuple):
    """What became of a task: an attempt with its result, or the reason why it was lost."""

    task: Task
    attempt: Attempt | None
    lost: str | None = None
    """Its kind, a colon, and the rest: the worker died or took too long."""


class Executor(Protocol):
    """Runs tasks. Each one that is submitted ends once."""

    @property
    def free(self) -> int:
        """How many tasks can be submitted now."""

    def submit(self, task: Task) -> None:
        """Take a task."""

    def wait(self, seconds: float) -> Sequence[Ended]:
        """Return what has ended, as soon as anything has, or nothing after so many seconds.

        It also blocks when no task runs: the caller may be waiting for the workers of a driver that
        died, and must not spin."""

    def close(self) -> None:
        """End all workers and what they started, now."""
