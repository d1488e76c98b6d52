"""The data that the page of a study draws, as values that JSON can hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from deepband.analysis import chart_data, summary
from deepband.analysis.formatting import brief, printable, shortened
from deepband.analysis.quote import quote
from deepband.core import hyperband
from deepband.core.costs import spent
from deepband.core.evaluations import best_evaluation
from deepband.core.facts import JobKey
from deepband.core.records import Evaluation
from deepband.core.schedule import as_number
from deepband.core.state import State

MOST_MARKS = 100
"""A cell with more configs than this is drawn as a bar."""
MOST_CURVES = 100
PROMOTED, FAILED, RUNNING = 1, 2, 4


def overview(state: State, running: frozenset[JobKey]) -> dict[str, Any]:
    """Everything that the page of a study shows, except for the table of evaluations."""
    cells = chart_data.cells(state)
    best = best_evaluation(state)
    return {
        "status": _status(state, cells, len(running)),
        "maximize": state.created.maximize,
        "objective": shortened(state.objective or "", 200),
        "runs": [
            {"run": run.number, "strategy": run.strategy, "max_budget": run.budgets[-1]}
            for run in state.runs
        ],
        "best": None if best is None else _best(best),
        "cells": [_cell(state, cell, running) for cell in cells],
        "incumbent": _incumbent(state),
        "curves": _curves(state),
        "quotes": _quotes(state),
    }


def _status(state: State, cells: list[chart_data.CellRow], running: int) -> dict[str, Any]:
    """The progress of the current run, computed from the cells: faster than `summary.status`."""
    run = state.run
    return {
        "run": run.number,
        "strategy": run.strategy,
        "max_budget": run.budgets[-1],
        "done": hyperband.is_done(state),
        "evaluations": sum(sum(cell.evaluated) for cell in cells),
        "failed": sum(cell.failed for cell in cells),
        "open": hyperband.open_jobs(state),
        "running": running,
        "ahead": len(state.ahead.results),
        "spent": as_number(spent(state, run)),
        "left": as_number(summary.cost_left(state)),
    }


def _best(best: Evaluation) -> dict[str, Any]:
    config = [[shortened(name, 80), brief(value)] for name, value in best.config.items()]
    keys = ("bracket", "index", "rung", "budget", "value")
    return {**{key: getattr(best, key) for key in keys}, "config": config}


def _cell(state: State, cell: chart_data.CellRow, running: frozenset[JobKey]) -> dict[str, Any]:
    marks = None
    if cell.configs <= MOST_MARKS:
        marks = [
            [mark.index, mark.run, _flags(mark, (cell.bracket, mark.index, cell.rung) in running)]
            for mark in chart_data.marks(state, cell.bracket, cell.rung)
        ]
    return {**asdict(cell), "marks": marks}


def _flags(mark: chart_data.Mark, running: bool) -> int:
    failed = mark.run is not None and mark.loss is None
    return PROMOTED * mark.promoted + FAILED * failed + RUNNING * running


def _incumbent(state: State) -> dict[str, Any]:
    found = chart_data.incumbent(state)
    return {
        "steps": [
            [step.spent, step.spent_resumed, state.value(step.told.loss)]
            for step in found.steps
            if chart_data.is_drawable(step.told.loss)
        ],
        "deepenings": [[each.spent, each.max_budget] for each in found.deepenings],
        "spent": found.spent,
        "spent_resumed": found.spent_resumed,
    }


def _curves(state: State) -> list[dict[str, Any]]:
    return [
        {
            "bracket": row.bracket,
            "index": row.index,
            "promoted": row.promoted,
            "points": [[budget, state.value(loss)] for budget, loss in row.points],
        }
        for row in chart_data.curves(state, MOST_CURVES)
        if row.points
    ]


def _quotes(state: State) -> list[dict[str, Any]]:
    """The price of each way of deepening; empty until the run is done."""
    if not hyperband.is_done(state):
        return []
    quotes = [quote(state, *option) for option in hyperband.options(state)]
    return [{"title": printable(each.title), "lines": each.lines()} for each in quotes]
