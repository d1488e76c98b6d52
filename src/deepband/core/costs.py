"""What a study has spent. Every interface counts it here, so that all show the same number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction

from deepband.core.facts import JobFinished
from deepband.core.runs import Run
from deepband.core.schedule import Cell
from deepband.core.state import State


def is_paid(told: JobFinished) -> bool:
    """Whether the study made this evaluation itself. An imported result costs it nothing."""
    return told.origin is None


def paid(state: State, run: int | None = None) -> Iterator[JobFinished]:
    """The evaluations that the study made itself, of one run or of all. What is ahead of the next
    run belongs to none yet."""
    for results in state.results.values():
        for told in results.values():
            if is_paid(told) and run in (None, told.run):
                yield told


def counts(evaluations: Iterable[JobFinished]) -> Counter[Cell]:
    """How many evaluations there are in each (bracket, rung)."""
    return Counter((told.bracket, told.rung) for told in evaluations)


def spent(state: State, run: Run) -> Fraction:
    """What a run has cost so far, every evaluation at its whole budget."""
    return run.schedule.cost_of(counts(paid(state, run.number)))
