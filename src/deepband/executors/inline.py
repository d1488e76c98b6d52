"""Runs tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from deepband.executors.base import Ended
from deepband.objective import Objective, Task, perform


class InlineExecutor:
    """One slot, in which `submit` returns when the task has ended."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._ended: list[Ended] = []

    @property
    def free(self) -> int:
        return 0 if self._ended else 1

    def submit(self, task: Task) -> None:
        self._ended.append(Ended(task, perform(self.objective, task)))

    def wait(self, seconds: float) -> Sequence[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def close(self, kill: bool = False) -> None:
        pass
