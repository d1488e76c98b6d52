"""A report to send around: one HTML file that needs nothing else."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from base64 import b64encode
from collections import Counter
from importlib.resources import files
from pathlib import Path
from typing import Any

import deepband
from deepband.analysis import chart_data, summary
from deepband.analysis.export import kind_of_failure
from deepband.analysis.formatting import brief, printable
from deepband.analysis.quote import Quote
from deepband.core import hyperband
from deepband.core.evaluations import best_evaluation, best_evaluation_at, evaluation_of
from deepband.core.records import Evaluation
from deepband.core.schedule import as_number
from deepband.errors import DeepbandError, InputError
from deepband.plots import KINDS, Plots
from deepband.plots.saving import write
from deepband.study.study import Study

MOST_BEST, MOST_FAILURES, MOST_TEXT = 10, 20, 2000
"""How many of them, and how much of an error, are told."""


def write_report(study: Study, place: str | os.PathLike[str]) -> None:
    """Write the report of a study: whole, or not at all."""
    text = make_report(study)
    target = Path(place).resolve()
    if target.exists() and not target.is_file():
        raise InputError(f"{target} cannot be written: it is no file.")
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        made.write_text(text, encoding="utf-8")
        made.replace(target)
    except OSError as error:
        made.unlink(missing_ok=True)
        raise InputError(f"{target} cannot be written: {error}.") from error


def make_report(study: Study) -> str:
    """The report as HTML. It has no script, and loads nothing."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise DeepbandError("a report needs Jinja2: pip install 'deepband[report]'") from error
    loader = PackageLoader("deepband.interfaces.report", "")
    templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    templates.filters["printable"] = lambda text: printable(str(text))
    templates.filters["number"] = lambda number: f"{as_number(number):,.10g}"
    style = (files(__package__) / "report.css").read_text()
    return templates.get_template("report.html").render(
        style=style,
        digest=b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        version=deepband.__version__,
        **_contents(study),
    )


def _contents(study: Study) -> dict[str, Any]:
    status = summary.status(study.state)
    evaluations = study.evaluations
    failures = [each for each in evaluations if each.error is not None]
    return {
        "study": study,
        "created": study.state.created,
        "axes": chart_data.axes(study.state),
        "status": status,
        "grid": summary.grid(status),
        "plan": summary.plan(study.state),
        "runs": study.runs,
        "quotes": _quotes(study),
        "best": best_evaluation(study.state),
        "leaders": [_line(each) for each in _leaders(study)],
        "kinds": Counter(kind_of_failure(each) for each in failures).most_common(),
        "failures": [_failure(each) for each in failures[:MOST_FAILURES]],
        "figures": [(kind, _summary(kind), _image(study, kind)) for kind in KINDS],
    }


def _quotes(study: Study) -> list[Quote]:
    """What each way to go on would cost; none while the run is not done."""
    options = hyperband.options(study.state) if study.done else []
    return [study.quote(strategy, schedule.max_budget) for strategy, schedule in options]


def _leaders(study: Study) -> list[Evaluation]:
    """The best of the highest rung that has a finite loss."""
    top = best_evaluation_at(study.state)
    if top is None:
        return []
    found = chart_data.on_rung(study.state, top.rung)[:MOST_BEST]
    return [evaluation_of(study.state, told) for told, _ in found]


def _line(evaluation: Evaluation) -> dict[str, Any]:
    config = [(name, brief(value)) for name, value in evaluation.config.items()]
    return {"evaluation": evaluation, "config": config}


def _failure(evaluation: Evaluation) -> dict[str, Any]:
    error = evaluation.error or ""
    return {"evaluation": evaluation, "lines": error[-MOST_TEXT:].splitlines()}


def _summary(kind: str) -> str:
    return (getattr(Plots, kind).__doc__ or "").split("\n\n")[0].replace("\n       ", "")


def _image(study: Study, kind: str) -> str | None:
    """A plot as an address that holds it. A browser runs no script of an image. None when it cannot
    be drawn: the report goes on without it."""
    stream = io.BytesIO()
    try:
        write(study, kind, stream, "svg")
    except DeepbandError:
        raise
    except Exception as error:
        warnings.warn(f"the plot {kind!r} cannot be drawn: {error!r}", stacklevel=2)
        return None
    return f"data:image/svg+xml;base64,{b64encode(stream.getvalue()).decode()}"
