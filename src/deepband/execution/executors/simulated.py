"""An executor with a virtual clock, for tests and for estimating how long a run takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from deepband.core.records import Job
from deepband.execution.executors.base import Ended
from deepband.execution.objective import Objective, Task, perform

Duration = Callable[[Job], float]
"""The seconds that a job takes."""


class SimulatedExecutor:
    """Simulates `workers` workers on a virtual clock.

    Tasks end in the order that their durations imply; ties are broken at random with the seed. The
    objective is called when its task ends. `wait` advances the clock to the end of the next task;
    it takes real time only if no task is running.

    >>> from deepband import open_study
    >>> study = open_study(space={"lr": (1e-4, 1e-1, "log")}, max_budget=9)
    >>> simulated = SimulatedExecutor(workers=4, duration=lambda job: 60 * job.budget)
    >>> study.optimize(lambda config, budget: config["lr"], executor=simulated)
    >>> simulated.clock
    1560.0
    """

    objective: Objective

    def __init__(self, workers: int, duration: Duration, seed: int = 0) -> None:
        self.workers = workers
        self.duration = duration
        self.clock = 0.0
        """Virtual seconds since the start."""
        self.busy = 0.0
        """Virtual seconds that workers spent on tasks that have ended, summed over workers."""
        self._random = random.Random(seed)
        self._running: list[tuple[float, float, float, Task]] = []
        """A heap of tasks, by end."""

    @property
    def free(self) -> int:
        return self.workers - len(self._running)

    @property
    def utilisation(self) -> float:
        """The share of the time until now that workers were busy."""
        return self.busy / (self.workers * self.clock) if self.clock else 1.0

    def submit(self, task: Task) -> None:
        end = self.clock + self.duration(task.job)
        heappush(self._running, (end, self._random.random(), self.clock, task))

    def wait(self, seconds: float) -> Sequence[Ended]:
        if not self._running:  # the caller waits for something outside of the simulation
            time.sleep(seconds)
            return []
        self.clock, _, start, task = heappop(self._running)
        self.busy += self.clock - start
        return [Ended(task, perform(self.objective, task))]

    def close(self) -> None:
        self.busy += sum(self.clock - start for _, _, start, _ in self._running)
        self._running.clear()
