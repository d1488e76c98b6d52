"""An executor that runs tasks in this process, one call after another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress

from deepband.core.records import Attempt
from deepband.execution.batch import Answer, Leave, perform_tasks
from deepband.execution.executors.base import Ended, ends
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import HeldJobs, Outbox
from deepband.system.interrupts import Interrupts

NOT_SHOWN = nullcontext()
"""Shows no running jobs to other processes: in a study that has no file, there are none."""


class InlineExecutor:
    """Runs one task, or those of one batch, at a time, inside `wait`."""

    def __init__(
        self, objective: Objective, interrupts: Interrupts, outbox: Outbox | None = None
    ) -> None:
        self.objective = objective
        self.interrupts = interrupts
        self.outbox = outbox
        """Shows other processes which job is running; None in a study that has no file."""
        self._tasks: Sequence[Task] = ()
        self._interrupt: KeyboardInterrupt | None = None
        """What ended a batch, until the results that were finished before have been returned."""

    @property
    def free(self) -> int:
        return 0 if self._tasks else 1

    def submit(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks

    def wait(self, seconds: float) -> Sequence[Ended]:
        if self._interrupt is not None:
            raise self._interrupt
        tasks, self._tasks = self._tasks, ()
        if not tasks:
            time.sleep(seconds)
            return []
        return self._run(tasks)

    def _run(self, tasks: Sequence[Task]) -> list[Ended]:
        """Run tasks, and write results that are finished before their batch ends to the outbox."""
        finished: list[Attempt] = []
        with self._hold(tasks, self.outbox) if self.outbox else NOT_SHOWN as held:

            def leave(attempt: Attempt) -> None:
                finished.append(attempt)
                if held:
                    held.leave([attempt])

            try:
                answer = self._perform(tasks, leave)
            except KeyboardInterrupt as interrupt:
                if not finished:
                    raise
                self._interrupt = interrupt
                answer = Answer((), more=True)
        if finished:
            answer = answer._replace(attempts=[*finished, *answer.attempts])
        return ends(tasks, answer)

    def _perform(self, tasks: Sequence[Task], leave: Leave) -> Answer:
        """Run tasks, which a second interrupt breaks off."""
        self.interrupts.breakable = True
        try:
            return perform_tasks(self.objective, tasks, leave)
        finally:
            self.interrupts.breakable = False

    @contextmanager
    def _hold(self, tasks: Sequence[Task], outbox: Outbox) -> Iterator[HeldJobs | None]:
        """Show other processes that these tasks are running, if the disk allows it."""
        with ExitStack() as stack:
            held: HeldJobs | None = None
            with suppress(OSError):  # others then do not see the jobs, which does no harm
                keys = [task.job.key for task in tasks]
                held = stack.enter_context(outbox.hold(keys, "inline", None))
            yield held

    def close(self) -> None:
        self._tasks = ()
