"""The data that the page of a study draws, as values that JSON can represent."""

from __future__ import annotations

from typing import Any

from deepband.analysis import chart_data, summary
from deepband.analysis.cells import CellStatus, Mark, marks
from deepband.analysis.quote import quote
from deepband.analysis.text import brief, printable, shortened
from deepband.core import hyperband
from deepband.core.evaluations import best_evaluation
from deepband.core.extension import options
from deepband.core.facts import JobKey
from deepband.core.records import Evaluation
from deepband.core.schedule import as_number
from deepband.core.state import State

MOST_MARKS = 100
"""A cell with more configs than this is drawn as a bar."""
MOST_CURVES = 100
PROMOTED, FAILED, RUNNING = 1, 2, 4
STATUS = ["run", "strategy", "max_budget", "done", "evaluations", "failed", "open", "running"]
STATUS += ["ahead"]


def overview(state: State, running: frozenset[JobKey]) -> dict[str, Any]:
    """All that the page of a study shows, but for its table."""
    status = summary.status(state, len(running))
    best = best_evaluation(state)
    return {
        "status": _status(status),
        "maximize": state.created.maximize,
        "objective": shortened(state.objective or "", 200),
        "runs": [
            {"run": run.number, "strategy": run.strategy, "max_budget": run.budgets[-1]}
            for run in state.runs
        ],
        "best": None if best is None else _best(best),
        "cells": [_cell(state, cell, running) for cell in status.cells if cell.configs],
        "incumbent": _incumbent(state),
        "curves": _curves(state),
        "quotes": _quotes(state),
    }


def _status(status: summary.Status) -> dict[str, Any]:
    shown = {name: getattr(status, name) for name in STATUS}
    return {**shown, "spent": as_number(status.spent), "left": as_number(status.left)}


def _best(best: Evaluation) -> dict[str, Any]:
    config = [[shortened(name, 80), brief(value)] for name, value in best.config.items()]
    keys = ("bracket", "index", "rung", "budget", "value")
    return {**{key: getattr(best, key) for key in keys}, "config": config}


def _cell(state: State, cell: CellStatus, running: frozenset[JobKey]) -> dict[str, Any]:
    found = None
    if cell.configs <= MOST_MARKS:
        found = [
            [mark.index, mark.run, _flags(mark, (cell.bracket, mark.index, cell.rung) in running)]
            for mark in marks(state, cell.bracket, cell.rung)
        ]
    return {
        "bracket": cell.bracket,
        "rung": cell.rung,
        "budget": cell.budget,
        "configs": cell.configs,
        "evaluated": cell.by_run,
        "failed": cell.failed,
        "promoted": cell.promoted,
        "open": cell.open,
        "marks": found,
    }


def _flags(mark: Mark, running: bool) -> int:
    return PROMOTED * mark.promoted + FAILED * mark.failed + RUNNING * running


def _incumbent(state: State) -> dict[str, Any]:
    found = chart_data.incumbent(state)
    return {
        "steps": [
            [step.spent, step.spent_resumed, state.value(step.result.loss)]
            for step in found.steps
            if chart_data.is_drawable(step.result.loss)
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
    quotes = [quote(state, *option) for option in options(state)]
    return [{"title": printable(each.title), "lines": each.lines()} for each in quotes]
