"""What a study has spent. Every interface uses these functions, so that all show one number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction

from deepband.core.facts import JobFinished
from deepband.core.runs import Run
from deepband.core.schedule import Cell
from deepband.core.state import State


def paid(state: State, run: int | None = None) -> Iterator[JobFinished]:
    """The evaluations that the study made itself, in one run or in all runs. Evaluations made
    ahead of the next run are not included."""
    return (
        result
        for result in state.all_results()
        if not result.imported and run in (None, result.run)
    )


def counts(evaluations: Iterable[JobFinished]) -> Counter[Cell]:
    """How many evaluations there are in each (bracket, rung)."""
    return Counter((each.bracket, each.rung) for each in evaluations)


def spent(state: State, run: Run) -> Fraction:
    """What a run has cost so far, every evaluation at its full budget."""
    return run.schedule.cost_of(counts(paid(state, run.number)))
