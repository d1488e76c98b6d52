"""What an executor is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from deepband.objective import Task
from deepband.records import Attempt

Timeout: TypeAlias = float | Callable[[float], float] | None
"""Seconds that an evaluation may take, or a function of its budget, or None for ever."""


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
        """What has ended, waiting no longer than so long for anything to end."""

    def close(self) -> None:
        """End all workers and what they started, now."""
