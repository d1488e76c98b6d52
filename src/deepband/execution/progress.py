"""The progress of a run: the record that users receive, and the meter that computes it.

A reading looks only at results that are new since the last one, so it takes the same time with 20
evaluations as with 20,000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Protocol

from deepband.analysis.fronts import Archive
from deepband.analysis.metrics import main_metric
from deepband.core import hyperband
from deepband.core.costs import slots_left, untrained
from deepband.core.evaluations import best_result, evaluation_of
from deepband.core.exact_numbers import as_number
from deepband.core.facts import PRECHECK, JobFinished
from deepband.core.records import Evaluation
from deepband.core.runs import Run
from deepband.core.state import State
from deepband.execution.pace import Pace, Started


@dataclass(frozen=True, slots=True)
class RunningEvaluation:
    """An evaluation that is running."""

    bracket: int
    index: int
    rung: int
    budget: int | float
    seconds: float
    """How long it has been running."""
    repetition: int | None = None
    """Which repetition of `Study.confirm` it is, from 1; None in a run."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the current run, as `Study.optimize` reports it to `progress`.

    In a run that extends an earlier one, more evaluations may follow than are known now, so
    `total_evaluations`, `left` and `total` are lower bounds. In a first run they are exact.

    `Study.confirm` reports the same record with `confirming=True`. Evaluations, failures, units of
    budget and the time left are then those of all repetitions that were asked for, including those
    that an earlier call has recorded, and the totals are exact.
    """

    run: int
    evaluations: int
    """The evaluations of this run so far, failed ones included. Imported results do not count."""
    total_evaluations: int
    finished_rungs: int
    """The rungs of all brackets on which nothing is left to do."""
    failed: int
    """How many of `evaluations` failed."""
    spent: int | float
    """Units of budget, every evaluation at its full budget or, if it was stopped early, at what it
    used."""
    left: int | float
    total: int | float
    best: Evaluation | None
    """The best evaluation of all runs, on any budget."""
    metric: str | None
    """The main metric: the first number in `best.metrics`."""
    running: tuple[RunningEvaluation, ...]
    """What is running, the longest-running first."""
    workers: int
    seconds: float
    """Since this call began."""
    seconds_left: float | None
    """The estimated time until `done`; None before this call has a result."""
    done: bool
    confirming: bool = False
    """Whether `Study.confirm` reports it."""
    front: int | None = None
    """With several objectives, the number of evaluations on the front, of all runs; `best` is
    None."""
    rejected: int = 0
    """How many configs of this run were rejected before they were trained. They are no
    evaluations."""
    stopped_training: int = 0
    """How many of `evaluations` were stopped early. As soon as there is one, totals are
    estimates."""


def advanced(progress: Progress, seconds: float) -> Progress:
    """The same progress this many seconds later, if nothing else has changed."""
    left = progress.seconds_left
    return replace(
        progress,
        running=tuple(replace(e, seconds=e.seconds + seconds) for e in progress.running),
        seconds=progress.seconds + seconds,
        seconds_left=None if left is None else max(0.0, left - seconds),
    )


class Meter(Protocol):
    """Measures the progress of one call of `Study.optimize` or `Study.confirm`, repeatedly."""

    @property
    def evaluations(self) -> int:
        """How many evaluations this call has made."""

    def read(self, state: State, running: Sequence[Started], now: float) -> Progress:
        """The progress at this time, according to a state."""


class RunMeter:
    """Measures the progress of a run, repeatedly during one call of `Study.optimize`."""

    def __init__(self, workers: int, begun: float) -> None:
        self._workers = workers
        self._begun = begun
        self._pace = Pace()
        self._run: Run | None = None
        self._cells: list[dict[int, JobFinished]] = []
        self._sizes: list[int] = []
        """How many results of each cell are counted."""
        self._best: tuple[JobFinished, Evaluation, str | None] | None = None

    @property
    def evaluations(self) -> int:
        """How many evaluations this call has made."""
        return self._pace.evaluations

    def read(self, state: State, running: Sequence[Started], now: float) -> Progress:
        """The progress of the current run of a state at this time."""
        self._count(state)
        jobs = sorted(running, key=lambda each: each.since)
        workers = max(self._workers, round(sum(each.share for each in jobs)))
        left = slots_left(state)
        cost_left = sum(n * self._charges[rung] for (_, rung), n in left.items())
        best, metric = self._best_of(state)
        return Progress(
            run=state.run.number,
            evaluations=self._done,
            total_evaluations=self._done + sum(left.values()),
            finished_rungs=sum(not left.get(cell) for cell in state.run.counts()),
            failed=self._failed,
            spent=self._amount(self._spent, self._unused),
            left=self._amount(cost_left),
            total=self._amount(self._spent + cost_left, self._unused),
            best=best,
            metric=metric,
            running=tuple(_running(each, now) for each in jobs),
            workers=workers,
            seconds=now - self._begun,
            seconds_left=self._pace.seconds_left(left, jobs, workers, now),
            done=hyperband.is_done(state),
            front=len(self._front) if state.criteria.several else None,
            rejected=self._rejected,
            stopped_training=self._stopped,
        )

    def _count(self, state: State) -> None:
        """Count results that are new. Results are withdrawn only to repeat failures: then all of
        them are counted again."""
        if state.run is not self._run:
            self._start(state)
        sizes = list(map(len, self._cells))
        if sizes == self._sizes:
            return
        for results, size, before in zip(self._cells, sizes, self._sizes, strict=True):
            if size < before:
                self._start(state)
                return
            for result in islice(reversed(results.values()), size - before):
                if self._add(state, result):
                    unused = self._unused_by(result, result.resumed_from)
                    self._pace.add(result.rung, result.seconds, result.resumed_from, float(unused))
        self._sizes = sizes

    def _start(self, state: State) -> None:
        """Count everything that the current run has."""
        run = self._run = state.run
        charges = [run.schedule.charge(rung) for rung in range(run.schedule.top + 1)]
        self._parts = math.lcm(*(charge.denominator for charge in charges))
        self._charges = [int(charge * self._parts) for charge in charges]
        self._pace.charges = list(map(float, charges))
        self._cells = [state.results[cell] for cell in run.schedule.cells()]
        self._sizes = list(map(len, self._cells))
        self._done = self._failed = self._spent = self._rejected = self._stopped = 0
        self._unused: Fraction | int = 0
        self._front = Archive()
        for results in self._cells:
            for result in results.values():
                self._add(state, result)

    def _add(self, state: State, result: JobFinished) -> bool:
        """Count a result, if the current run has paid for it."""
        if state.criteria.several and (standing := state.standings.of(result)).finite:
            self._front.add(standing.losses or ())
        if self._run is None or result.run != self._run.number:
            return False
        if result.imported:
            self._rejected += result.origin == PRECHECK
            return False
        self._done += 1
        self._failed += result.loss is None
        self._spent += self._charges[result.rung]
        self._stopped += result.stopped_after is not None
        self._unused += self._unused_by(result, None)
        return True

    def _unused_by(self, result: JobFinished, begun: int | None) -> Fraction | int:
        """What training that was stopped early did not use of the budget after that of a rung."""
        if result.stopped_after is None or self._run is None:  # nearly always
            return 0
        return untrained(self._run.schedule, result.rung, result.stopped_after, begun)

    def _amount(self, parts: int, unused: Fraction | int = 0) -> int | float:
        """A cost in units of budget. Whole numbers of parts are much faster than fractions."""
        return as_number(Fraction(parts, self._parts) - unused)

    def _best_of(self, state: State) -> tuple[Evaluation | None, str | None]:
        found = best_result(state)
        if found is None:
            return None, None
        if self._best is None or self._best[0] is not found:
            self._best = found, evaluation_of(state, found), main_metric(state)
        return self._best[1:]


def _running(started: Started, now: float) -> RunningEvaluation:
    job = started.job
    seconds = max(0.0, now - started.since)
    return RunningEvaluation(job.bracket, job.index, job.rung, job.budget, seconds)
