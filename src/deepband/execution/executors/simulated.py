"""An executor with a virtual clock, for tests and for estimating how long a run takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import count

from deepband.core.records import Attempt, Job
from deepband.core.virtual_clock import VirtualClock
from deepband.execution.batch import perform_tasks
from deepband.execution.executors.base import Ended, ends
from deepband.execution.objective import Objective, Task

Duration = Callable[[Job], float]
"""The seconds that a job takes."""


class SimulatedExecutor:
    """Simulates `workers` workers on a virtual clock.

    Tasks end in the order that their durations imply; ties are broken at random with the seed. A
    batch takes as long as the longest of its jobs. The objective is called when its task ends.
    `wait` advances the clock to the end of the next task; it takes real time only if no task is
    running.

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
        self._tasks: dict[int, Sequence[Task]] = {}
        """Those of one call, by its number in the order of submission."""
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

    def submit(self, tasks: Sequence[Task]) -> None:
        number = next(self._numbers)
        self._tasks[number] = tasks
        seconds = max(self.duration(task.job) for task in tasks)
        self._clock.start(number, seconds, order=self._random.random())

    def wait(self, seconds: float) -> Sequence[Ended]:
        if not self._tasks:  # the caller waits for something outside of the simulation
            time.sleep(seconds)
            return []
        tasks, finished = self._tasks.pop(self._clock.advance()), list[Attempt]()
        answer = perform_tasks(self.objective, tasks, finished.append)
        return ends(tasks, answer._replace(attempts=[*finished, *answer.attempts]))

    def close(self) -> None:
        pass
