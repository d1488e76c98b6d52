"""The parts of a state: runs, the progress of each bracket, work ahead of the next run, and jobs
that an unfinished run left behind."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import neg

from deepband.core.facts import (
    JobFinished,
    JobKey,
    JobSkipped,
    RunStarted,
    SpaceChange,
    StudyCreated,
)
from deepband.core.schedule import Cell, Schedule
from deepband.core.strategies import FRUGAL
from deepband.errors import FactError


def started(
    number: int, strategy: str | None, schedule: Schedule, change: SpaceChange | None = None
) -> RunStarted:
    """The fact that starts a run with a schedule."""
    size = schedule.width, schedule.bracket_limit
    return RunStarted(number, schedule.max_budget, strategy, *size, change)


def schedule_of(fact: RunStarted, created: StudyCreated, last: Run | None) -> Schedule:
    """The schedule of the run that a fact starts, after the last one: a larger schedule or, if
    that run was frugal, the one that it left to be filled."""
    frugally = fact.strategy == FRUGAL
    if last is None:
        if frugally:
            raise FactError(f"{fact} cannot be the first run")
        budgets = created.min_budget, created.max_budget
        size = fact.width, fact.brackets
        return Schedule.of(created.eta, *budgets, *size, created.whole_costs)
    old, levels = last.schedule, 0
    while old.budget(old.top + levels) < fact.max_budget:
        levels += 1
    new = replace(old, top=old.top + levels, width=fact.width, bracket_limit=fact.brackets)
    fills = last.frugal and not frugally
    one_level = new == old.extended(levels=1)
    fits = new.max_budget == fact.max_budget and (one_level if frugally else new.covers(old))
    if not fits or (new == old and not fills):
        raise FactError(f"{fact} does not extend {last}")
    return new


@dataclass(slots=True)
class Run:
    """One run with one schedule, and which configs have arrived on which rung in it."""

    number: int
    strategy: str | None
    schedule: Schedule
    budgets: tuple[int | float, ...]
    """By rung, as jobs have them."""
    before: dict[Cell, frozenset[int]]
    """The configs that had been evaluated in each cell when the run started."""
    arrived: dict[Cell, frozenset[int]] = field(default_factory=dict)
    skipped: dict[Cell, dict[int, float]] = field(default_factory=dict)
    """By cell, then index: the configs that were promoted and not evaluated, and the probability
    of each to become the best."""
    stopped: float | None = None
    """If it was ended early: the probability that the rest of it finds a notably better config."""
    change: SpaceChange | None = None
    """The search space that it started with, if that is another one than before."""
    left_open: int = 0
    """How many of its jobs had no result when it was extended."""

    def copy(self) -> Run:
        """An independent copy."""
        skipped = {cell: dict(each) for cell, each in self.skipped.items()}
        return replace(self, arrived=dict(self.arrived), skipped=skipped)

    @property
    def started(self) -> RunStarted:
        """The fact that started it."""
        return started(self.number, self.strategy, self.schedule, self.change)

    @property
    def frugal(self) -> bool:
        """Whether it only promotes the best of the rung below to its top rung."""
        return self.strategy == FRUGAL

    def skips(self) -> Iterator[JobSkipped]:
        """The promotions that were not evaluated, by bracket, rung and index."""
        for (bracket, rung), risks in sorted(self.skipped.items()):
            for index, risk in sorted(risks.items()):
                yield JobSkipped(bracket, index, rung, self.number, risk)

    def unused(self, results: Mapping[Cell, Mapping[int, JobFinished]]) -> dict[Cell, int]:
        """By cell: how many evaluations it did not make because it was stopped, at least."""
        found: dict[Cell, int] = {}
        for cell, slots in self.counts().items() if self.stopped is not None else ():
            evaluated = sum(each.run <= self.number for each in results[cell].values())
            found[cell] = max(0, slots - evaluated - len(self.skipped.get(cell, ())))
        return found

    def counts(self) -> Mapping[Cell, int]:
        """The slots of each cell. A frugal run has some on its top rung only."""
        if not self.frugal:
            return self.schedule.counts()
        return {cell: len(indices) for cell, indices in self.arrived.items() if indices}


@dataclass(slots=True)
class BracketProgress:
    """The rung that a bracket has reached in the current run, and its configs without a result."""

    rung: int
    waiting: list[int] = field(default_factory=list)
    """Not handed out; in descending order, so that the next one is cheap to remove."""
    running: set[int] = field(default_factory=set)
    """Handed out, and without a result."""

    def released(self) -> BracketProgress:
        """An independent copy in which nothing is handed out."""
        return BracketProgress(self.rung, sorted([*self.waiting, *self.running], reverse=True))

    @property
    def open(self) -> int:
        return len(self.waiting) + len(self.running)

    @property
    def first_open(self) -> float:
        """The smallest index without a result; infinite if there is none."""
        waiting = self.waiting[-1] if self.waiting else math.inf
        return min(waiting, min(self.running, default=math.inf))

    def is_open(self, index: int) -> bool:
        return index in self.running or self._position(index) is not None

    def is_waiting(self, index: int) -> bool:
        return self._position(index) is not None

    def start(self, indices: list[int]) -> None:
        everything = len(indices) == len(self.waiting) and indices == self.waiting[::-1]
        if everything:  # as is common when many are handed out
            self.waiting.clear()
        else:
            for index in indices:
                if not self._withdraw(index):
                    raise FactError(f"index {index} is not waiting on rung {self.rung}")
        self.running.update(indices)

    def release(self, index: int) -> None:
        self.running.remove(index)
        self.reopen(index)

    def reopen(self, index: int) -> None:
        insort(self.waiting, index, key=neg)

    def finish(self, index: int) -> bool:
        """Remove a config that has a result now; False if it had one or is not on the rung."""
        if index in self.running:
            self.running.remove(index)
            return True
        return self._withdraw(index)

    def _withdraw(self, index: int) -> bool:
        if self.waiting and self.waiting[-1] == index:
            self.waiting.pop()
            return True
        position = self._position(index)
        if position is not None:
            del self.waiting[position]
        return position is not None

    def _position(self, index: int) -> int | None:
        position = bisect_left(self.waiting, -index, key=neg)
        found = position < len(self.waiting) and self.waiting[position] == index
        return position if found else None


@dataclass(slots=True)
class Ahead:
    """New configs that a deepening by one level will need, evaluated on their starting rungs before
    it has started. It needs all of them, whatever its strategy and the losses."""

    running: set[JobKey] = field(default_factory=set)
    results: dict[JobKey, JobFinished] = field(default_factory=dict)


@dataclass(slots=True)
class Late:
    """The open jobs of runs that were extended before they were finished. The new run may not need
    them, but a result that arrives is recorded: it was paid for."""

    jobs: set[JobKey] = field(default_factory=set)
    running: set[JobKey] = field(default_factory=set)
    """Jobs that were handed out before the current run, and are not handed out again while they
    run: those above, and jobs ahead that the current run contains."""
