"""Every call of a surrogate by one method in one run, and what it costs.

Training is continued: a config that was trained before in the same run pays the difference of the
two budgets, and any other its whole budget. All methods pay so, those too whose own
implementation would begin again, since a user can keep checkpoints for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from deepband.core.facts import Config
from deepband.core.schedule import Schedule
from deepband.research.yahpo import Problem
from deepband.space.search_space import Space

ETA = 3
FULL_RUNS = 4
"""A method may spend so many full runs, unless another number is asked for."""


@dataclass(frozen=True)
class Task:
    """A data set and the budgets on it: 1 up to `max_budget`, which is all that the surrogate
    knows."""

    problem: Problem
    space: Space
    max_budget: int

    @property
    def schedule(self) -> Schedule:
        """That of a full run: plain Hyperband at the right max_budget."""
        return Schedule.of(ETA, 1, self.max_budget)

    @property
    def full_run(self) -> float:
        """Its cost, with continued training."""
        return float(self.schedule.cost_resumed)

    def fidelity(self, budget: float) -> float:
        """A budget in units of the surrogate."""
        return self.problem.fidelity.high * budget / self.max_budget


class Step(NamedTuple):
    """A new incumbent: the config that the method would return, had it to end here."""

    spent: float
    budget: float
    config: Config


class SpentError(Exception):
    """The next evaluation would cost more than is left."""


class Ledger:
    """Answers a method with accuracies until its budget is spent."""

    def __init__(self, task: Task, full_runs: float = FULL_RUNS) -> None:
        self.task = task
        self.full_runs = full_runs
        self.limit = full_runs * task.full_run
        self.spent = 0.0
        self.steps: list[Step] = []
        self._trained: dict[Hashable, float] = {}
        """Up to which budget, by training."""
        self._best = -1.0, 0.0
        """The incumbent's budget and its accuracy there."""

    def __call__(self, training: Hashable, config: Config, budget: float) -> float:
        """The accuracy of a config with a budget. `training` tells configs apart: a method may try
        the same values twice and pays twice, if it does not know that they are the same."""
        cost = max(0.0, budget - self._trained.get(training, 0.0))
        if self.spent + cost > self.limit * (1 + 1e-9):
            raise SpentError
        self.spent += cost
        self._trained[training] = max(budget, self._trained.get(training, 0.0))
        accuracy = self.task.problem(config, self.task.fidelity(budget))
        if (budget, accuracy) > self._best:
            self._best = budget, accuracy
            self.steps.append(Step(self.spent, budget, dict(config)))
        return accuracy
