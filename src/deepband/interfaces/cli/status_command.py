"""The command that shows the status of a study: the progress of its run, and its best result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepband.analysis.export import fields_of
from deepband.analysis.feasibility import feasibility_notes
from deepband.analysis.run_names import size_text
from deepband.analysis.status import Status, grid, status_of, stopped_notes, without_result
from deepband.analysis.text import table
from deepband.core.evaluations import best_evaluation, evaluation_of, front
from deepband.core.exact_numbers import as_number
from deepband.core.leases import leased_jobs
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import counted
from deepband.execution.outbox import Outbox
from deepband.interfaces.cli.best_text import describe_both
from deepband.interfaces.cli.group import json_option, main, open_existing, study_argument
from deepband.interfaces.cli.output import show


@main.command()
@study_argument
@json_option
def status(study: Path, as_json: bool) -> None:
    """Show the progress of the current run.

    The last lines show the best evaluation on any budget and, if it is another one, the best on the
    highest budget. With several objectives, they show the size of the front.
    """
    session = open_existing(study).session
    state = session.state
    running = {key for each in Outbox(session.files).running() for key in each.keys}
    running.update(leased_jobs(state, time.time()))
    progress = status_of(state, running=len(without_result(state, running)))
    first = f"study    {study}, {state.objective or 'no objective named'}"
    found: dict[str, Any] = {"status": progress, "best": _fields(state, best_evaluation(state))}
    if state.criteria.several:
        found["front"] = [_fields(state, evaluation_of(state, each)) for each in front(state)]
    notes = [*feasibility_notes(state), *stopped_notes(state)]
    lines = _describe_status(progress, notes)
    show(
        {"study": study, "objective": state.objective, **found},
        as_json,
        f"{first}\n{lines}\n\n{describe_both(state, study)}",
    )


def _fields(state: State, evaluation: Evaluation | None) -> dict[str, Any] | None:
    return None if evaluation is None else fields_of(state, evaluation)


def _describe_status(status: Status, notes: Sequence[str] = ()) -> str:
    """The progress of the current run: its brackets and rungs, and the budget spent and left. The
    notes follow the number of results."""
    strategy = f", {status.strategy}" if status.strategy else ""
    size = size_text(status.max_budget, status.width, status.brackets)
    evaluations = counted(status.evaluations, "evaluation")
    evaluations += f", {status.failed} failed" if status.failed else ""
    ahead = f", {status.ahead} ahead for the next deepening" if status.ahead else ""
    spent, left = (f"{as_number(cost):.10g}" for cost in (status.spent, status.left))
    jobs = f"{counted(status.open, 'job')} open, {status.running} running"
    state = status.end if status.done else jobs
    return "\n".join(
        [
            f"run      {status.run}{strategy}, {size}: {state}",
            f"results  {', '.join([evaluations, *notes])}{ahead}",
            f"budget   {spent} spent in this run, {left} left",
            "",
            table(grid(status)),
        ]
    )
