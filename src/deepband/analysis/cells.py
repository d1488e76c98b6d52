"""The status of each cell, which is one rung of one bracket: what every table, plot and page of
brackets and rungs shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from deepband.core.rank_order import ranked
from deepband.core.schedule import Cell
from deepband.core.state import State
from deepband.core.strategies import EMPTY

_run = attrgetter("run")


@dataclass(frozen=True, slots=True)
class CellStatus:
    """One rung of one bracket: the progress of the current run, and what all runs did there."""

    bracket: int
    rung: int
    budget: int | float
    evaluated: int
    """How many configs of the current run have a result here, whichever run made it."""
    slots: int
    """How many configs the current run has here, or will have."""
    open: int
    """How many configs have arrived here in the current run and have no result."""
    configs: int
    """How many configs are, were or will be here in any run."""
    by_run: tuple[int, ...]
    """How many evaluations each run made or imported here."""
    failed: int
    promoted: int
    """How many configs were promoted from here in any run."""
    promoted_by_run: tuple[int, ...]
    """How many of the evaluations of each run belong to configs that were promoted from here."""


class Mark(NamedTuple):
    """One config in a cell."""

    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    run: int | None
    """The run that evaluated it here; None while it has no result."""
    failed: bool
    """Whether its evaluation failed."""
    rank: int
    """Its position in the order of all results here, from 0; 0 while it has no result."""
    promoted: bool


def cells(state: State) -> tuple[CellStatus, ...]:
    """Every rung of every bracket of the current schedule."""
    slots = state.run.counts()
    return tuple(_cell(state, cell, slots.get(cell, 0)) for cell in state.schedule.cells())


def occupied_cells(state: State) -> list[CellStatus]:
    """The cells that have configs in any run: all of them, except after a frugal run."""
    return [cell for cell in cells(state) if cell.configs]


def _cell(state: State, cell: Cell, slots: int) -> CellStatus:
    bracket, rung = cell
    results = state.results[cell]
    arrived = state.run.arrived.get(cell, EMPTY)
    waiting = len(arrived.difference(results))
    promoted = _promoted(state, bracket, rung)
    runs = Counter(map(_run, results.values()))
    runs_promoted = Counter(_run(results[index]) for index in promoted if index in results)
    return CellStatus(
        bracket=bracket,
        rung=rung,
        budget=state.run.budgets[rung],
        evaluated=len(arrived) - waiting,
        slots=len(arrived) or slots,
        open=waiting,
        configs=max(len(results) + waiting, slots),
        by_run=tuple(runs[run.number] for run in state.runs),
        failed=[result.loss for result in results.values()].count(None),
        promoted=len(promoted),
        promoted_by_run=tuple(runs_promoted[run.number] for run in state.runs),
    )


def marks(state: State, bracket: int, rung: int) -> list[Mark]:
    """Every config in a cell, by index."""
    results = state.results[bracket, rung]
    promoted = _promoted(state, bracket, rung)
    arrived = state.run.arrived.get((bracket, rung), EMPTY)
    order = ranked(results.keys(), state.scores(bracket, rung))
    ranks = {index: rank for rank, index in enumerate(order)}
    found = []
    for index in sorted(arrived.union(results)):
        result = results.get(index)
        run, failed = (None, False) if result is None else (result.run, result.loss is None)
        found.append(Mark(index, run, failed, ranks.get(index, 0), index in promoted))
    return found


def _promoted(state: State, bracket: int, rung: int) -> frozenset[int]:
    """The configs that were promoted from a rung in any run."""
    above = state.run.arrived.get((bracket, rung + 1), EMPTY)
    return above.union(state.results.get((bracket, rung + 1), ()))
