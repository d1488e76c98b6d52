"""A study in one line and, for notebooks, as a table."""

from __future__ import annotations

from deepband.analysis.run_names import size_of, size_text
from deepband.analysis.status import grid, status_of
from deepband.analysis.text import html_table
from deepband.core.evaluations import best_above, best_evaluation, front
from deepband.core.hyperband import open_jobs
from deepband.core.state import State
from deepband.errors import counted


def study_line(state: State) -> str:
    """The current run and its open jobs."""
    size = size_text(*size_of(state.schedule))
    jobs = counted(open_jobs(state), "job")
    return f"<deepband study: run {state.run.number}, {size}, {jobs} open>"


def study_html(state: State, name: str) -> str:
    """The brackets and rungs of the current run."""
    status = status_of(state)
    header, *rows = grid(status)
    where = status.end if status.done else f"{counted(status.open, 'job')} open"
    size = size_text(status.max_budget, status.width, status.brackets)
    caption = f"{name}: run {status.run}, {size}, {where}, {_found(state)}"
    return html_table(caption, header, rows)


def _found(state: State) -> str:
    """The best evaluation, or the size of the front."""
    if state.criteria.several:
        return f"front of {counted(len(front(state)), 'evaluation')}"
    best = best_evaluation(state)
    found = "nothing yet" if best is None else f"{best.value:.6g}"
    above = best_above(state)
    higher = f", on the highest budget, {above.budget:.6g}: {above.value:.6g}" if above else ""
    return f"best on any budget {found}{higher}"
