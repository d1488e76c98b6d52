"""Runs tasks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from deepband.executors.base import Ended
from deepband.objective import Objective, Task, perform
from deepband.outbox import Outbox


class InlineExecutor:
    """One slot, in which `submit` returns when the task has ended."""

    def __init__(self, objective: Objective, outbox: Outbox | None = None) -> None:
        self.objective = objective
        self.outbox = outbox
        """Where others can see what is being run, if anywhere."""
        self._ended: list[Ended] = []

    @property
    def free(self) -> int:
        return 0 if self._ended else 1

    def submit(self, task: Task) -> None:
        shown = self.outbox.hold(task.job.key, "inline", None) if self.outbox else nullcontext()
        with shown:
            attempt = perform(self.objective, task)
        self._ended.append(Ended(task, attempt))

    def wait(self, seconds: float) -> Sequence[Ended]:
        ended, self._ended = self._ended, []
        return ended

    def close(self, kill: bool = False) -> None:
        pass
