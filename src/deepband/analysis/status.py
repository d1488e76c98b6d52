"""The status of a study: the progress of its current run, as figures and as a grid of cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from deepband.analysis.cells import CellStatus, cells
from deepband.analysis.run_names import step_to
from deepband.core import hyperband
from deepband.core.costs import cost_left, costs, paid
from deepband.core.exact_numbers import as_number
from deepband.core.facts import JobKey
from deepband.core.state import State


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of the current run."""

    run: int
    strategy: str | None
    step: str | None
    """The kind of extension: deepening, widening, extending or filling; None for the first run."""
    max_budget: int | float
    width: int
    brackets: int | None
    """The number of brackets that the run is limited to; None for all."""
    done: bool
    evaluations: int
    """Of all runs, with imported results."""
    failed: int
    open: int
    ahead: int
    """How many evaluations of the next run exist already."""
    running: int
    spent: Fraction
    """What the current run has cost so far, every evaluation at its full budget, or at what it used
    if it was stopped early."""
    left: Fraction
    """The least that it will still cost; exact in a first run."""
    seconds: float
    cells: tuple[CellStatus, ...]
    stopped: float | None = None
    """If the run was ended early: the probability that the rest of it finds a notably better
    config."""

    @property
    def end(self) -> str:
        """How a run that is done has ended."""
        return "done" if self.stopped is None else "stopped early"


def without_result(state: State, keys: Iterable[JobKey]) -> list[JobKey]:
    """Those of these jobs that have no result yet. Others of their batch may still be running."""
    return [key for key in keys if key[1] not in state.results.get((key[0], key[2]), {})]


def status_of(state: State, running: int | None = None) -> Status:
    """The progress of the current run. `running` overrides the number of jobs that were handed out,
    for a process that knows how many are really running."""
    run, found = state.run, cells(state)
    own = list(paid(state, run.number))
    if running is None:
        running = sum(len(progress.running) for progress in state.progress)
    return Status(
        run=run.number,
        strategy=run.strategy,
        step=step_to(state, run),
        max_budget=as_number(run.schedule.max_budget),
        width=run.schedule.width,
        brackets=run.schedule.bracket_limit,
        done=hyperband.is_done(state),
        evaluations=sum(sum(cell.by_run) for cell in found),
        failed=sum(cell.failed for cell in found),
        open=hyperband.open_jobs(state),
        ahead=len(state.ahead.results),
        running=running,
        spent=costs(run.schedule, own).whole,
        left=cost_left(state),
        seconds=sum(each.seconds or 0.0 for each in own),
        cells=found,
        stopped=run.stopped,
    )


def grid(status: Status) -> list[list[str]]:
    """The progress of each cell, as text: a header, the budgets, then one row per bracket. Cells
    without slots are empty."""
    budgets = {cell.rung: cell.budget for cell in status.cells}
    lines = [["rung", *(str(rung) for rung in budgets)]]
    lines.append(["budget", *(f"{budget:.6g}" for budget in budgets.values())])
    for bracket in dict.fromkeys(cell.bracket for cell in status.cells):
        cells = [cell for cell in status.cells if cell.bracket == bracket and cell.slots]
        row = {cell.rung: f"{cell.evaluated}/{cell.slots}" for cell in cells}
        lines.append([f"bracket {bracket}", *(row.get(rung, "") for rung in budgets)])
    return lines


def stopped_notes(state: State) -> list[str]:
    """How many evaluations of all runs were stopped early; empty if none was."""
    return [f"{len(state.standings.stopped):,} stopped early"] if state.standings.stopped else []
