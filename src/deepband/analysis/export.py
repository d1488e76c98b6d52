"""Evaluations as text: CSV, JSON Lines, and canonical JSON Lines to compare studies with."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from deepband.analysis.feasibility import is_judged
from deepband.analysis.text import printable
from deepband.core.evaluations import all_evaluations
from deepband.core.facts import Confirmed
from deepband.core.records import Evaluation
from deepband.core.state import State

FORMULA = "=+\\-@\uff1d\uff0b\uff0d\uff20"
"""The characters at the start of a cell that a spreadsheet would compute. Some spreadsheets accept
the full-width signs, too."""
COMPUTED = re.compile(rf"(^|;)(?=[\s\"]*[{FORMULA}]|[\t\r])")
"""Where such a cell starts in a text: also after a semicolon, which separates columns in the
spreadsheets of many countries even inside quotes."""
PLAIN = ["bracket", "index", "rung", "budget", "run", "loss", "value", "error", "seconds"]
PLAIN += ["resumed_from"]
"""The columns that every table has, named as in an Evaluation."""


def canonical(state: State) -> Iterator[str]:
    """One line per evaluation, sorted by bracket, index and rung: what decisions depend on, without
    when, where or how it ran. Promotions that were skipped, runs that were stopped and repetitions
    of `confirm` follow. Equal studies give equal bytes."""
    for each in all_evaluations(state):
        row: dict[str, Any] = {
            "bracket": each.bracket,
            "index": each.index,
            "rung": each.rung,
            "run": each.run,
            "budget": each.budget,
            "config": each.config,
        }
        yield _line(row | _outcome(state, each, each.objectives))
    for skip in (skip for run in state.runs for skip in run.skips()):
        yield _line(skip._asdict() | {"skipped": True})
    for run in (run for run in state.runs if run.stopped is not None):
        yield _line({"run": run.number, "stopped": run.stopped})
    for key, confirmed in sorted(state.confirmations.items()):
        row = dict(zip(("bracket", "index", "rung", "repetition"), key, strict=True))
        yield _line(row | _outcome(state, confirmed, state.criteria.values(confirmed.loss)))


def _outcome(
    state: State, result: Evaluation | Confirmed, objectives: Mapping[str, float]
) -> dict[str, Any]:
    """What decisions depend on: the loss or the objectives, and the metrics that have bounds."""
    kind = kind_of_failure(result)
    if kind is not None:
        return {"failure": kind}
    if isinstance(result, Evaluation) and result.stopped_after is not None:
        return {"stopped_after": result.stopped_after}
    row: dict[str, Any] = {"loss": _finite(result.loss)}
    if objectives:
        row = {"objectives": _finite(objectives)}
    if state.criteria.constraints:
        known = {**result.metrics, **objectives} if result.metrics else objectives
        names = [name for name, _ in state.criteria.constraints]
        row["constrained"] = _finite({name: known.get(name) for name in names})
    return row


def jsonl(state: State) -> Iterator[str]:
    """One line per evaluation, with all its fields. If the search space was changed, `space` is the
    number of the one that the config was sampled from."""
    for each in all_evaluations(state):
        row = fields_of(state, each)
        row.update(
            loss=_number(each.loss),
            value=_number(each.value),
            metrics=_finite(each.metrics),
            curve=[[step, _number(loss)] for step, loss in each.curve],
        )
        if each.objectives:
            row.update(objectives=_finite(each.objectives))
        if state.changes:
            row["space"] = _space_number(state, each)
        yield _line(row)


def fields_of(state: State, evaluation: Evaluation) -> dict[str, Any]:
    """The fields of an evaluation, without those that do not apply to the study: the objectives if
    they have no names, whether it is feasible if nothing can be infeasible, and after which budget
    training was stopped if it never was."""
    row = evaluation._asdict()
    if not evaluation.objectives:
        del row["objectives"]
    if not is_judged(state):
        del row["feasible"]
    if not state.standings.stopped:
        del row["stopped_after"]
    return row


def table(state: State) -> Iterator[str]:
    """A CSV table: a header, then one line per evaluation, with a column for every named objective,
    parameter and metric. An apostrophe precedes what a spreadsheet would read as a formula."""
    header, rows = cells(state)
    yield _csv(header)
    yield from map(_csv, rows)


def cells(state: State) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns, and one row of plain values per evaluation; None is missing."""
    found = list(all_evaluations(state))
    parameters = sorted({name for each in found for name in each.config})
    metrics = sorted({name for each in found for name in each.metrics})
    plain = [*PLAIN, *(["feasible"] if is_judged(state) else [])]
    plain += ["stopped_after"] if state.standings.stopped else []
    objectives = state.criteria.names
    header = [*plain, *(["space"] if state.changes else [])]
    header += [f"objectives.{name}" for name in objectives]
    header += [f"config.{name}" for name in parameters]
    header += [f"metrics.{name}" for name in metrics]
    rows = (
        [getattr(each, name) for name in plain]
        + ([_space_number(state, each)] if state.changes else [])
        + [each.objectives.get(name) for name in objectives]
        + [each.config.get(name) for name in parameters]
        + [each.metrics.get(name) for name in metrics]
        for each in found
    )
    return header, rows


def _space_number(state: State, each: Evaluation) -> int:
    """Which space a config was sampled from: 0 is the first, 1 the one after a change."""
    return sum(change.applies_to(each.bracket, each.index) for change in state.changes)


def text_of(value: object) -> str:
    """A value as text: unchanged if it is a text, otherwise as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=repr)


def kind_of_failure(result: Evaluation | Confirmed) -> str | None:
    """The type of the error, such as ValueError or nan; None if it did not fail."""
    return None if result.error is None else result.error.split(":", 1)[0]


FORMATS = {"csv": table, "jsonl": jsonl}


def _number(value: float | None) -> float | str | None:
    """A number as JSON can represent it: infinities and nan become texts."""
    return value if value is None or math.isfinite(value) else str(value)


def _finite(value: Any) -> Any:
    """A metric as JSON can represent it."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_finite, value))
    return _number(value) if isinstance(value, float) else value


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, allow_nan=False, default=repr)


def _csv(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([_cell(cell) for cell in cells])
    return text.getvalue()


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    return printable(COMPUTED.sub(r"\1'", text_of(value)))
