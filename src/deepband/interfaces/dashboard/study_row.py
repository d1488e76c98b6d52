"""One row of the list of studies: its state, its best result, and its size."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from deepband.analysis.key_figures import key_figures
from deepband.analysis.run_names import size_text
from deepband.analysis.status import Status, status_of
from deepband.analysis.text import shortened
from deepband.core.evaluations import best_evaluation
from deepband.core.state import State
from deepband.errors import counted


def study_row(state: State, running: int, updated: float) -> dict[str, Any]:
    """The texts of a row. `updated` is when the file was last written to."""
    status = status_of(state, running)
    figures = {figure.key: figure for figure in key_figures(state, status)}
    best = best_evaluation(state)
    leading = figures["front" if state.criteria.several else "best"]
    metric = figures.get("hypervolume" if state.criteria.several else "metric")
    time = figures.get("time")
    return {
        "state": _state(status),
        "kind": "running" if running else "done" if status.done else "waiting",
        "progress": figures["progress"].value,
        "share": figures["progress"].share,
        "time": "" if time is None or not running else time.value,
        "best": leading.value,
        "best_detail": leading.detail,
        "best_budget": "" if best is None else f"budget {best.budget:.6g}",
        "metric": "" if metric is None else metric.value,
        "metric_name": "" if metric is None else metric.label,
        "evaluations": f"{status.evaluations:,}",
        "failed": f"{status.failed:,}" if status.failed else "",
        "cost": figures["cost"].value,
        "run": status.run,
        "size": size_text(status.max_budget, status.width, status.brackets),
        "objective": shortened(state.objective or "", 200),
        "updated": _time(datetime.fromtimestamp(updated)),
    }


def _state(status: Status) -> str:
    if status.running:
        return f"{status.running} running"
    return status.end if status.done else f"{counted(status.open, 'job')} open"


def _time(when: datetime) -> str:
    """The date, or the time if that is today."""
    today = when.date() == datetime.now().date()
    return when.strftime("%H:%M:%S" if today else "%Y-%m-%d")
