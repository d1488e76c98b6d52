"""What one method spends in one run, and which config it would return.

Training continues: a config that was trained before in the same run pays the difference of the two
budgets, any other config its whole budget. This holds for all methods, even if their own
implementation would start again, because users can keep checkpoints for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from deepband.core.facts import Config
from deepband.core.schedule import Schedule
from deepband.research.benchmark import Problem
from deepband.space.search_space import Space

ETA = 3
WIDTH = 4
"""By default, a method may spend what a study of this width spends."""


@dataclass(frozen=True)
class Task:
    """A data set with budgets from 1 to `max_budget`, which is the benchmark's largest budget."""

    problem: Problem
    space: Space
    max_budget: int

    def schedule(self, width: int = 1) -> Schedule:
        """The schedule at the right max_budget: by default of a full run, plain Hyperband."""
        return Schedule.of(ETA, 1, self.max_budget, width)

    @property
    def full_run(self) -> float:
        """The cost of a full run, with continued training."""
        return float(self.schedule().cost_resumed)

    def fidelity(self, budget: float) -> float:
        """Return a budget in units of the benchmark's fidelity."""
        return self.problem.fidelity.high * budget / self.max_budget


class Step(NamedTuple):
    """A new incumbent: the config that the method would return if it stopped here."""

    spent: float
    budget: float
    config: Config
    accuracy: float
    """With this budget."""


class SpentError(Exception):
    """The next evaluation would cost more than is left."""


class Ledger:
    """Evaluates configs for a method until its budget is spent."""

    def __init__(self, task: Task, width: int = WIDTH) -> None:
        self.task = task
        self.width = width
        self.limit = float(task.schedule(width).cost_resumed)
        self.spent = 0.0
        self.steps: list[Step] = []
        self._trained: dict[Hashable, float] = {}
        """The largest budget so far, by training."""
        self._best = -1.0, 0.0
        """The incumbent's budget and its accuracy there."""

    def __call__(self, training: Hashable, config: Config, budget: float) -> float:
        """Return the accuracy of a config with a budget, or raise SpentError.

        `training` identifies what is continued. A method that tries the same values twice without
        recognising them pays twice.
        """
        cost = max(0.0, budget - self._trained.get(training, 0.0))
        if self.spent + cost > self.limit * (1 + 1e-9):
            raise SpentError
        self.spent += cost
        self._trained[training] = max(budget, self._trained.get(training, 0.0))
        accuracy = self.task.problem(config, self.task.fidelity(budget))
        if (budget, accuracy) > self._best:
            self._best = budget, accuracy
            self.steps.append(Step(self.spent, budget, dict(config), accuracy))
        return accuracy
