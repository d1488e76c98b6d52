"""A report of a study as one self-contained HTML file."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from itertools import islice
from typing import Any

import deepband
from deepband.analysis import chart_data
from deepband.analysis.confirmations import confirmation_notes, confirmation_table
from deepband.analysis.failures import FailureGroup
from deepband.analysis.feasibility import feasibility_notes
from deepband.analysis.key_figures import key_figures, no_result
from deepband.analysis.metrics import metric_names
from deepband.analysis.plan import plan
from deepband.analysis.quote import Quote, quote_notes, quote_table
from deepband.analysis.run_names import describe_step, size_text
from deepband.analysis.status import grid, status_of
from deepband.analysis.text import brief, duration, printable, shortened
from deepband.core.evaluations import best_evaluation, best_evaluation_at, evaluation_of, front
from deepband.core.exact_numbers import as_number
from deepband.core.extension import options
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import DeepbandError
from deepband.execution.worker_output import read_output
from deepband.interfaces.file_output import write_file
from deepband.plots import Plots, kinds_of
from deepband.plots.image_file import write
from deepband.study.study import Study
from deepband.system.installation import install_command

MOST_BEST, MOST_FRONT, MOST_METRICS, MOST_CONFIRMED = 10, 50, 6, 20
MOST_NAME = 26
"""How many characters of a name fit above a column."""
MOST_FAILURES, MOST_JOBS, MOST_CHARACTERS = 20, 5, 4000
"""How many errors, jobs of each, and characters of a traceback are shown."""


def write_report(study: Study, path: str | os.PathLike[str]) -> None:
    """Write the report of a study, completely or not at all."""
    write_file(path, make_report(study).encode())


def make_report(study: Study) -> str:
    """The report as HTML without scripts that loads nothing."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise DeepbandError(f"a report needs Jinja2: {install_command('report')}") from error
    loader = PackageLoader(__package__, "")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    templates.filters["printable"] = lambda text: printable(str(text))
    templates.filters["number"] = lambda number: f"{as_number(number):,.10g}"
    templates.filters["duration"] = duration
    style = (files(__package__) / "report.css").read_text()
    return templates.get_template("report.html").render(
        style=style,
        digest=b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        version=deepband.__version__,
        **_contents(study),
    )


def _contents(study: Study) -> dict[str, Any]:
    state = study.session.state
    status = status_of(state)
    failures, quotes, confirmed = study.failures(), _quotes(study), study.confirmations
    parameters = [axis.name for axis in chart_data.axes(state)]
    measured = metric_names(state)[:MOST_METRICS]
    return {
        "study": study,
        "created": state.created,
        "axes": chart_data.current_axes(state),
        "status": status,
        "size": size_text(status.max_budget, status.width, status.brackets),
        "step": describe_step(state, state.run),
        "limited": status.brackets is not None,
        "grid": grid(status),
        "plan": plan(state),
        "runs": study.runs,
        "omitted": any(run.saved for run in study.runs),
        "quotes": quote_table(quotes) if quotes else [],
        "quote_notes": quote_notes(quotes),
        "figures": key_figures(state, status),
        "best": best_evaluation(state),
        "parameters": [shortened(name, MOST_NAME) for name in parameters],
        "metric_names": [shortened(name, MOST_NAME) for name in measured],
        "leaders": [_leader(each, parameters, measured) for each in _leaders(study)],
        "confirmed": confirmation_table(confirmed)[: MOST_CONFIRMED + 1],
        "other_confirmed": max(0, len(confirmed.configs) - MOST_CONFIRMED),
        "confirmation_notes": confirmation_notes(confirmed),
        "failed": failures.total,
        "failures": [_failure(study, each) for each in failures[:MOST_FAILURES]],
        "other_failures": max(0, len(failures) - MOST_FAILURES),
        "front": len(front(state)) if state.criteria.several else None,
        "no_result": no_result(state),
        "notes": feasibility_notes(state),
        "images": [(kind, _caption(state, kind), _image(study, kind)) for kind in kinds_of(state)],
    }


def _quotes(study: Study) -> list[Quote]:
    """The price of each way to continue; empty until the run is done."""
    found = options(study.session.state) if study.done else ()
    return [study.session.quote(*option) for option in found]


def _leaders(study: Study) -> list[Evaluation]:
    """The best evaluations on the highest rung that has a finite loss or, with several objectives,
    the front."""
    if study.session.state.criteria.several:
        return study.front()[:MOST_FRONT]
    top = best_evaluation_at(study.session.state)
    if top is None:
        return []
    state = study.session.state
    ranked = (result for result, _ in chart_data.on_rung(state, top.rung))
    found = islice(filter(state.standings.is_feasible, ranked), MOST_BEST)
    return [evaluation_of(state, result) for result in found]


def _leader(
    evaluation: Evaluation, parameters: Sequence[str], measured: Sequence[str]
) -> dict[str, Any]:
    """A row of the best evaluations: one column per parameter, and one per metric."""
    named = {**evaluation.objectives, **evaluation.metrics}
    return {
        "evaluation": evaluation,
        "config": [brief(evaluation.config.get(name, "")) for name in parameters],
        "metrics": [brief(named.get(name, "")) for name in measured],
    }


def _failure(study: Study, group: FailureGroup) -> dict[str, Any]:
    """An error with the first jobs that had it, and what the first of them printed."""
    output = read_output(study.session.files, group.jobs[0], MOST_CHARACTERS)
    jobs = zip(group.jobs[:MOST_JOBS], group.configs, strict=False)
    return {
        "group": group,
        "error": shortened(group.error, 300),
        "jobs": [(job, [(name, brief(value)) for name, value in c.items()]) for job, c in jobs],
        "more": max(0, group.count - MOST_JOBS),
        "traceback": (group.traceback or "")[-MOST_CHARACTERS:].splitlines(),
        "output": (output or "").splitlines(),
    }


def _caption(state: State, kind: str) -> str:
    """The first sentence of a plot's docstring, in which a value that is maximised is no loss, and
    neither is one of several objectives."""
    value_name = state.criteria.value_name
    text = (getattr(Plots, kind).__doc__ or "").split("\n\n")[0].replace("\n       ", "")
    if state.criteria.several:
        swaps = {"Losses": "Results", "losses": "results", "loss": "first objective"}
        for word, other in swaps.items():
            text = text.replace(word, other)
        return text
    if value_name == "loss":
        return text
    for word in ("losses", "loss"):
        many = value_name + "s" * word.endswith("es")
        text = text.replace(word, many).replace(word.capitalize(), many.capitalize())
    return text


def _image(study: Study, kind: str) -> str | None:
    """A plot as a data URL, in which a browser runs no scripts; None if it cannot be drawn, because
    the report should not fail with it."""
    stream = io.BytesIO()
    try:
        write(study, kind, stream, "svg")
    except DeepbandError:
        raise
    except Exception as error:
        warnings.warn(f"the plot {kind!r} cannot be drawn: {error!r}", stacklevel=2)
        return None
    return f"data:image/svg+xml;base64,{b64encode(stream.getvalue()).decode()}"
