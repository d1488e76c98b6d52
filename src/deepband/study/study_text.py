"""A study in one line and, for notebooks, as a table."""

from __future__ import annotations

from deepband.analysis import summary
from deepband.analysis.run_names import size_of, size_text
from deepband.analysis.text import html_table
from deepband.core.evaluations import best_evaluation
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
    status = summary.status(state)
    header, *rows = summary.grid(status)
    where = "done" if status.done else f"{counted(status.open, 'job')} open"
    best = best_evaluation(state)
    found = "nothing yet" if best is None else f"{best.value:.6g}"
    size = size_text(status.max_budget, status.width, status.brackets)
    caption = f"{name}: run {status.run}, {size}, {where}, best on any budget {found}"
    return html_table(caption, header, rows)
