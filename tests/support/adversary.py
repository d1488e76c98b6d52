"""An executor that loses, repeats, delays and reorders jobs on purpose."""

from __future__ import annotations

import random
from collections.abc import Sequence

from deepband import Study
from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.execution.executors.base import Ended, Executor
from deepband.execution.limits import Limits
from deepband.execution.loop import Loop
from deepband.execution.objective import Task
from deepband.system.interrupts import Interrupts
from driving import noisy

LOSS = noisy(5, failures=0.2)


class Adversary:
    """Ends tasks in any order, with any delay, and loses some."""

    def __init__(self, chance: random.Random, slots: int, losing: float) -> None:
        self.chance = chance
        self.slots = slots
        self.losing = losing
        self.tasks: list[Task] = []

    @property
    def free(self) -> int:
        return self.slots - len(self.tasks)

    def submit(self, tasks: Sequence[Task]) -> None:
        (task,) = tasks
        assert task.job.key not in {other.job.key for other in self.tasks}
        self.tasks.append(task)

    def wait(self, seconds: float) -> list[Ended]:
        self.chance.shuffle(self.tasks)
        count = self.chance.randint(0, len(self.tasks))
        ended, self.tasks = self.tasks[:count], self.tasks[count:]
        return [self.end(task) for task in ended]

    def end(self, task: Task) -> Ended:
        if self.chance.random() < self.losing:
            return Ended(task, None, "WorkerDied: on purpose")
        value = LOSS(task.job)
        outcome = Outcome(value) if isinstance(value, float) else Outcome(None, "Error: x")
        return Ended(task, Attempt(task.job, outcome))

    def close(self) -> None:
        self.tasks.clear()


def run_with(executor: Executor, study: Study, retries: int, limits: Limits | None = None) -> None:
    loop = Loop(
        study.session,
        executor,
        None,
        limits=limits or Limits(),
        retries=retries,
        first_failures=10**6,
    )
    loop.run(Interrupts())
