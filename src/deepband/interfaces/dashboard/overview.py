"""The data that the page of a study draws, as values that JSON can represent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deepband.analysis import chart_data
from deepband.analysis.cells import CellStatus, Mark, marks
from deepband.analysis.confirmations import (
    confirmation_notes,
    confirmation_table,
    confirmations,
)
from deepband.analysis.feasibility import is_judged
from deepband.analysis.key_figures import key_figures
from deepband.analysis.measures import curves, measure
from deepband.analysis.quote import quote_notes, quote_table
from deepband.analysis.quote_computation import quote
from deepband.analysis.run_names import describe_step, name_of
from deepband.analysis.status import Status, status_of
from deepband.analysis.text import brief, shortened
from deepband.core import hyperband
from deepband.core.evaluations import best_evaluation
from deepband.core.exact_numbers import as_number
from deepband.core.extension import options
from deepband.core.facts import JobKey
from deepband.core.records import Evaluation
from deepband.core.runs import Run
from deepband.core.state import State
from deepband.interfaces.dashboard.failure_list import failure_list
from deepband.interfaces.dashboard.front_charts import objectives
from deepband.interfaces.dashboard.parameter_charts import parallel, reported

MOST_MARKS = 100
"""A cell with more configs than this is drawn as a bar."""
MOST_CURVES = 100
MOST_CONFIRMED = 20
PROMOTED, FAILED, RUNNING = 1, 2, 4
STATUS = ["run", "done", "end", "evaluations", "failed", "open", "running", "ahead"]


def overview(state: State, running: frozenset[JobKey], order: Sequence[str] = ()) -> dict[str, Any]:
    """All that the page of a study shows, but for its table and the importance of parameters.
    `order` names the parameters that matter most, as far as that is known."""
    status = status_of(state, len(running))
    best = best_evaluation(state)
    return {
        "status": _status(status, state.run),
        "figures": [asdict(figure) for figure in key_figures(state, status)],
        "maximize": state.created.maximize,
        "objective": shortened(state.objective or "", 200),
        "runs": [
            {"run": run.number, "name": name_of(run), "how": describe_step(state, run)}
            for run in state.runs
        ],
        "best": None if best is None else _best(best),
        "cells": [_cell(state, cell, running) for cell in status.cells if cell.configs],
        "objectives": objectives(state),
        "judged": is_judged(state),
        "incumbent": _incumbent(state),
        "curves": _curves(state),
        "reported": reported(state),
        "parallel": parallel(state, order),
        "quotes": _quotes(state),
        "confirmed": _confirmed(state),
        "failures": failure_list(state),
    }


def _status(status: Status, run: Run) -> dict[str, Any]:
    shown = {name: getattr(status, name) for name in STATUS}
    costs = {"spent": as_number(status.spent), "left": as_number(status.left)}
    return {**shown, **costs, "name": name_of(run)}


def _best(best: Evaluation) -> dict[str, Any]:
    config = [[shortened(name, 80), brief(value)] for name, value in best.config.items()]
    metrics = [[shortened(name, 80), brief(value)] for name, value in best.metrics.items()]
    keys = ("bracket", "index", "rung", "budget", "value")
    return {**{key: getattr(best, key) for key in keys}, "config": config, "metrics": metrics}


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
        "promoted_by_run": cell.promoted_by_run,
        "open": cell.open,
        "marks": found,
    }


def _flags(mark: Mark, running: bool) -> int:
    return PROMOTED * mark.promoted + FAILED * mark.failed + RUNNING * running


def _incumbent(state: State) -> dict[str, Any]:
    found = chart_data.incumbent(state)
    return {
        "steps": [
            [step.spent, step.spent_resumed, state.criteria.value(step.result.number)]
            for step in found.steps
            if chart_data.is_drawable(step.result.number)
        ],
        "extensions": [[each.spent, each.target] for each in found.extensions],
        "spent": found.spent,
        "spent_resumed": found.spent_resumed,
    }


def _curves(state: State) -> list[dict[str, Any]]:
    return [
        {
            "bracket": row.bracket,
            "index": row.index,
            "promoted": row.promoted,
            "points": list(map(list, row.points)),
        }
        for row in curves(measure(state), MOST_CURVES)
        if row.points
    ]


def _quotes(state: State) -> dict[str, Any]:
    """The price of each way to continue; no rows until the run is done."""
    found = options(state) if hyperband.is_done(state) else ()
    quotes = [quote(state, *option) for option in found]
    header, *rows = quote_table(quotes)
    return {"header": header, "rows": rows, "notes": quote_notes(quotes)}


def _confirmed(state: State) -> dict[str, Any]:
    """The configs that were evaluated again; no rows if there are none."""
    found = confirmations(state)
    header, *rows = confirmation_table(found)
    return {
        "header": header,
        "rows": rows[:MOST_CONFIRMED],
        "more": max(0, len(rows) - MOST_CONFIRMED),
        "notes": confirmation_notes(found),
    }
