"""Runs tasks on a clock of its own: for tests, and to know beforehand how long a run takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from deepband.core.records import Job
from deepband.execution.executors.base import Ended
from deepband.execution.objective import Objective, Task, perform

Duration = Callable[[Job], float]
"""How long a job takes, in seconds."""


class SimulatedExecutor:
    """So many workers that need no time but on a virtual clock.

    Tasks end in the order in which they would with these durations; which of those that end at the
    same moment comes first is drawn with the seed. The objective is called when its task ends.

    It keeps the contract of executors but for one point: `wait` ends the next task at once, however
    far away on the virtual clock that is. Only when no task runs does `wait` take real time.

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
        """Seconds since the start."""
        self.busy = 0.0
        """Seconds that workers have worked, all together, on tasks that have ended."""
        self._random = random.Random(seed)
        self._running: list[tuple[float, float, float, Task]] = []
        """By their end."""

    @property
    def free(self) -> int:
        return self.workers - len(self._running)

    @property
    def utilisation(self) -> float:
        """The share of the time that workers worked, up to now."""
        return self.busy / (self.workers * self.clock) if self.clock else 1.0

    def submit(self, task: Task) -> None:
        end = self.clock + self.duration(task.job)
        heappush(self._running, (end, self._random.random(), self.clock, task))

    def wait(self, seconds: float) -> Sequence[Ended]:
        if not self._running:  # the caller waits for something that is not on this clock
            time.sleep(seconds)
            return []
        self.clock, _, start, task = heappop(self._running)
        self.busy += self.clock - start
        return [Ended(task, perform(self.objective, task))]

    def close(self) -> None:
        self.busy += sum(self.clock - start for _, _, start, _ in self._running)
        self._running.clear()
