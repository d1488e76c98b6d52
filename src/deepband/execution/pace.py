"""How long a run or a confirmation will take: an estimate from what one call has recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deepband.core.records import Job
from deepband.core.schedule import Cell


class Started(NamedTuple):
    """A job that is running, and the time on the monotonic clock at which it was started."""

    job: Job
    since: float
    share: float = 1.0
    """Its share of the time of the call that it is part of: less than 1 in a batch."""

    def worked(self, now: float) -> float:
        """The time that its worker has spent on it."""
        return (now - self.since) * self.share


class Pace:
    """The speed of a call: how many seconds its evaluations take per unit of budget, and how much
    time passes between them."""

    def __init__(self) -> None:
        self.charges: list[float] = []
        """What an evaluation on each rung of the current run costs."""
        self.evaluations = 0
        self._seconds = 0.0
        self._units = 0.0
        self._resumes = False
        self._first: tuple[float, int, float] | None = None
        """When results were seen for the first time, how many, and how long workers had worked."""

    def add(
        self,
        rung: int,
        seconds: float | None,
        resumed_from: int | None = None,
        unused: float = 0.0,
    ) -> None:
        """Count a result of this call, which may not have used all of its budget."""
        self.evaluations += 1
        self._seconds += seconds or 0.0
        self._units += self.charges[rung] - unused
        if resumed_from is not None:
            self._units -= self.charges[resumed_from]
            self._resumes = True

    def seconds_left(
        self, left: Mapping[Cell, int], running: Sequence[Started], workers: int, now: float
    ) -> float | None:
        """The estimated time until the run is done; None before the first result.

        It is the work left divided by the number of workers, but no less than the longest bracket
        takes from rung to rung, plus the time between evaluations. A job that has been running
        for longer than expected counts as if it ended now: the speed so far was too optimistic."""
        if not self.evaluations or self._units <= 0:
            return None
        expected = [each for each in running if left.get((each.job.bracket, each.job.rung))]
        rate = self._seconds_per_unit(expected, now)
        needed = {cell: rate * self._units_of(cell) for cell, count in left.items() if count}
        elapsed = _elapsed(needed, running, now)
        work = sum(left[cell] * seconds for cell, seconds in needed.items())
        work -= sum(seconds for _, seconds in elapsed)
        between = self._between(running, workers, now) * sum(left.values())
        return max(0.0, work / workers, _longest_path(needed, elapsed)) + between

    def _seconds_per_unit(self, running: Sequence[Started], now: float) -> float:
        """The speed of the results of this call, and of the jobs that have overrun it."""
        rate, seconds, units = self._seconds / self._units, self._seconds, self._units
        for each in running:
            trained, worked = self._units_of((each.job.bracket, each.job.rung)), each.worked(now)
            if worked > rate * trained:
                seconds, units = seconds + worked, units + trained
        return seconds / units

    def _units_of(self, cell: Cell) -> float:
        """What an evaluation trains. If training continues from checkpoints, that is only the
        difference from the rung below."""
        bracket, rung = cell
        units = self.charges[rung]
        if self._resumes and rung > bracket:
            units -= self.charges[rung - 1]
        return units

    def _between(self, running: Sequence[Started], workers: int, now: float) -> float:
        """The time per evaluation in which workers do not work: they wait for the driver, or for
        a rung to be complete. The start of the workers is left out."""
        worked = self._seconds + sum(each.worked(now) for each in running)
        if self._first is None:
            self._first = now, self.evaluations, worked
        begun, before, worked_before = self._first
        made = self.evaluations - before
        idle = now - begun - (worked - worked_before) / workers
        return max(0.0, idle) / made if made else 0.0


def _elapsed(
    needed: Mapping[Cell, float], running: Sequence[Started], now: float
) -> list[tuple[int, float]]:
    """The bracket of each running job of the run, and how much of its time has passed."""
    cells = [((each.job.bracket, each.job.rung), each.worked(now)) for each in running]
    return [(cell[0], min(passed, needed[cell])) for cell, passed in cells if cell in needed]


def _longest_path(needed: Mapping[Cell, float], elapsed: Sequence[tuple[int, float]]) -> float:
    """The time that the slowest bracket needs with any number of workers: one evaluation on each
    rung that is left."""
    paths: dict[int, float] = {}
    for (bracket, _), seconds in needed.items():
        paths[bracket] = paths.get(bracket, 0.0) + seconds
    passed = dict(sorted(elapsed))  # the longest of each bracket
    return max((path - passed.get(bracket, 0.0) for bracket, path in paths.items()), default=0.0)
