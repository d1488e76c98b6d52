"""An executor that runs tasks in this process, one after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from deepband.execution.executors.base import Ended
from deepband.execution.objective import Objective, Task, perform
from deepband.execution.outbox import Outbox
from deepband.system.interrupts import Interrupts


class InlineExecutor:
    """Runs one task at a time, inside `wait`."""

    def __init__(
        self, objective: Objective, interrupts: Interrupts, outbox: Outbox | None = None
    ) -> None:
        self.objective = objective
        self.interrupts = interrupts
        self.outbox = outbox
        """Shows other processes which job is running; None in a study that has no file."""
        self._task: Task | None = None

    @property
    def free(self) -> int:
        return 1 if self._task is None else 0

    def submit(self, task: Task) -> None:
        self._task = task

    def wait(self, seconds: float) -> Sequence[Ended]:
        task, self._task = self._task, None
        if task is None:
            time.sleep(seconds)
            return []
        with ExitStack() as stack:
            if self.outbox:
                with suppress(OSError):  # others then do not see the job, which does no harm
                    stack.enter_context(self.outbox.hold(task.job.key, "inline", None))
            stack.enter_context(self.interrupts.breakable())
            return [Ended(task, perform(self.objective, task))]

    def close(self) -> None:
        self._task = None
