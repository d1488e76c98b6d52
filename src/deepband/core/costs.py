"""The evaluations a study has paid for, which every interface counts to show the same cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from deepband.core.facts import JobFinished
from deepband.core.schedule import Cell
from deepband.core.state import State


def paid(state: State, run: int | None = None) -> Iterator[JobFinished]:
    """The evaluations that the study made itself, in one run or in all runs. Evaluations made
    ahead of the next run are not included."""
    return (
        result
        for result in state.all_results()
        if (run is None or run == result.run) and not result.imported
    )


def counts(evaluations: Iterable[JobFinished]) -> Counter[Cell]:
    """How many evaluations there are in each (bracket, rung)."""
    return Counter((each.bracket, each.rung) for each in evaluations)
