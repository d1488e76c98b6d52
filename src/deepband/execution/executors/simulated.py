"""An executor with a virtual clock, for tests and for estimating how long a run takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import count

from deepband.core.records import Job
from deepband.core.virtual_clock import VirtualClock
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
        self._random = random.Random(seed)
        self._clock = VirtualClock[int](workers)
        self._tasks: dict[int, Task] = {}
        """By number, in the order of submission."""
        self._numbers = count()

    @property
    def clock(self) -> float:
        """Virtual seconds since the start."""
        return float(self._clock.time)

    @property
    def busy(self) -> float:
        """Virtual seconds that workers have spent on tasks, summed over workers."""
        running = self._clock.running.values()
        return self._clock.busy + sum(self._clock.time - start for start in running)

    @property
    def free(self) -> int:
        return self._clock.free

    @property
    def utilisation(self) -> float:
        """The share of the time until now that workers were busy."""
        return self.busy / (self.workers * self.clock) if self.clock else 1.0

    def submit(self, task: Task) -> None:
        number = next(self._numbers)
        self._tasks[number] = task
        self._clock.start(number, self.duration(task.job), order=self._random.random())

    def wait(self, seconds: float) -> Sequence[Ended]:
        if not self._tasks:  # the caller waits for something outside of the simulation
            time.sleep(seconds)
            return []
        task = self._tasks.pop(self._clock.advance())
        return [Ended(task, perform(self.objective, task))]

    def close(self) -> None:
        pass
