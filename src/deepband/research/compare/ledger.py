"""What one method spends in one run, when, and which config it would return.

Training continues: a config that was trained before in the same run pays the difference of the two
budgets, any other config its whole budget. This holds for all methods, even if their own
implementation would start again, because users can keep checkpoints for them. What has not ended
yet has left no checkpoint: the same training on two workers at a time is paid twice.

Evaluations run on simulated workers, for as long as they cost. With one worker, the time is what
has been spent.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from deepband.core.facts import Config
from deepband.core.schedule import Schedule
from deepband.core.virtual_clock import VirtualClock
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


class Evaluation(NamedTuple):
    """What a method wants to be evaluated."""

    training: Hashable
    """Identifies what is continued. A method that tries the same values twice without recognising
    them pays twice."""
    config: Config
    budget: float
    handle: Any = None
    """By which the method recognises the evaluation."""


class Step(NamedTuple):
    """A new incumbent: the config that the method would return if it stopped here."""

    spent: float
    time: float
    budget: float
    config: Config
    accuracy: float
    """With this budget."""


class SpentError(Exception):
    """The next evaluation would end when the time is over."""


class Ledger:
    """Evaluates configs for a method until its time is over: that in which its workers, if they are
    always busy, spend as much as a study of the given width."""

    def __init__(self, task: Task, width: int = WIDTH, workers: int = 1) -> None:
        self.task = task
        self.width = width
        self.clock = VirtualClock[int](workers)
        self.limit = float(task.schedule(width).cost_resumed)
        self.spent = 0.0
        """The cost of all evaluations that have ended."""
        self.time = 0.0
        """When the last of them ended."""
        self.steps: list[Step] = []
        self._numbers = count()
        self._running: dict[int, tuple[Evaluation, float]] = {}
        """With their costs."""
        self._trained: dict[Hashable, float] = {}
        """The largest budget of the evaluations that have ended, by training."""
        self._best = -1.0, 0.0
        """The incumbent's budget and its accuracy there."""

    @property
    def workers(self) -> int:
        return self.clock.workers

    def start(self, evaluation: Evaluation) -> None:
        """Let a free worker start an evaluation."""
        training, budget = evaluation.training, float(evaluation.budget)
        cost = max(0.0, budget - self._trained.get(training, 0.0))
        number = next(self._numbers)
        self._running[number] = evaluation, cost
        self.clock.start(number, cost)

    def end(self) -> tuple[Evaluation, float]:
        """Return the evaluation that ends next and its accuracy, or raise SpentError."""
        evaluation = self.charge()
        _, config, budget, _ = evaluation
        accuracy = self.task.problem(config, self.task.fidelity(budget))
        if (budget, accuracy) > self._best:
            self._best = budget, accuracy
            self.steps.append(Step(self.spent, self.time, budget, dict(config), accuracy))
        return evaluation, accuracy

    def charge(self) -> Evaluation:
        """Return the evaluation that ends next, which is paid, or raise SpentError."""
        evaluation, cost = self._running.pop(self.clock.advance())
        if self.clock.time * self.workers > self.limit * (1 + 1e-9):
            raise SpentError
        self.spent, self.time = self.spent + cost, self.clock.time
        training, budget = evaluation.training, float(evaluation.budget)
        self._trained[training] = max(budget, self._trained.get(training, 0.0))
        return evaluation
