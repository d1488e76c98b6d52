"""What a study has spent until each of its results.

Results are in the order in which a single worker evaluates, so that charts do not depend on the
number of workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from operator import attrgetter

from deepband.core.costs import costs
from deepband.core.exact_numbers import as_number
from deepband.core.facts import JobFinished, JobKey
from deepband.core.state import State

_run, _index = attrgetter("run"), attrgetter("index")


class BudgetSpent:
    """The sum of what results have cost, as in the table of runs."""

    def __init__(self, state: State) -> None:
        schedule = self._schedule = state.schedule
        charges = [schedule.charge(rung) for rung in range(schedule.top + 1)]
        self._charges = [int(each) if each.denominator == 1 else each for each in charges]
        self._stopped = state.standings.stopped
        self._whole: int | Fraction = 0
        self._resumed: int | Fraction = 0

    def add(self, results: Sequence[JobFinished]) -> None:
        """Add results of one rung of a bracket. Imported ones cost nothing."""
        paid = [each for each in results if each.origin is None]
        if not paid:
            return
        bracket, _, rung, *_ = paid[0]
        whole = self._charges[rung]
        resumed = whole - (self._charges[rung - 1] if rung > bracket else 0)
        if self._stopped:
            paid = self._add_stopped(paid)
        self._whole += len(paid) * whole
        self._resumed += len(paid) * resumed

    def _add_stopped(self, paid: list[JobFinished]) -> list[JobFinished]:
        """Add results that depend on training that was stopped early, and return the others."""
        stopped = self._stopped
        parts: tuple[list[JobFinished], list[JobFinished]] = [], []
        for each in paid:
            parts[each[:3] in stopped or _below(each) in stopped].append(each)
        others, special = parts
        if special:
            found = costs(self._schedule, special, stopped)
            self._whole += found.whole
            self._resumed += found.resumed
        return others

    @property
    def totals(self) -> tuple[int | float, int | float]:
        """The budget spent if every evaluation starts from scratch, and if training always
        continues from the rung below."""
        return as_number(Fraction(self._whole)), as_number(Fraction(self._resumed))


def _below(result: JobFinished) -> JobKey:
    return result.bracket, result.index, result.rung - 1


def cells_in_order(state: State) -> Iterator[list[list[JobFinished]]]:
    """For each run, its results on each rung of each bracket."""
    found: list[dict[tuple[int, int], list[JobFinished]]] = [{} for _ in state.runs]
    for (bracket, rung), results in state.results.items():
        runs = set(map(_run, results.values()))
        for run in runs:
            of_run = list(results.values())
            if len(runs) > 1:
                of_run = [each for each in of_run if each.run == run]
            found[run][rung, bracket] = of_run
    for cells in found:
        yield [results for _, results in sorted(cells.items())]


def in_order(results: Sequence[JobFinished]) -> list[JobFinished]:
    """The results on one rung of a bracket."""
    return sorted(results, key=_index)
