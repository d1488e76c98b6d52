"""The table of evaluations: filtered, sorted, and cut into pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from deepband.analysis import chart_data
from deepband.analysis.feasibility import verdict
from deepband.analysis.metrics import metric_names, number
from deepband.analysis.text import brief, shortened
from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.errors import InputError, shown

ROWS_PER_PAGE = 50
MOST_METRICS = 20
"""How many metrics have a column."""
COLUMNS = ("bracket", "index", "rung", "run", "value", "seconds")
OUTCOMES = ("", "good", "failed", "infeasible")


@dataclass(frozen=True, slots=True)
class Query:
    """Which evaluations to show, in which order, and which page of them."""

    sort: str = "bracket"
    """One of COLUMNS, "p0", "p1", ... for a parameter by its position in the space, or "m0", "m1",
    ... for a metric by its position among those shown."""
    descending: bool = False
    page: int = 0
    bracket: int | None = None
    rung: int | None = None
    run: int | None = None
    outcome: str = ""
    text: str = ""
    """Part of a parameter's name or value, or of an error, in any case."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Query:
        """Read the parameters of a request. Raises an InputError if one is unknown or invalid."""
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise InputError(f"unknown parameters: {sorted(unknown)}.")
        outcome = given.get("outcome", "")
        if outcome not in OUTCOMES:
            raise InputError("outcome must be 'good', 'failed' or 'infeasible'.")
        return cls(
            sort=given.get("sort", "bracket"),
            descending=given.get("descending") == "1",
            page=_number(given, "page") or 0,
            outcome=outcome,
            text=given.get("text", "").casefold(),
            **{name: _number(given, name) for name in ("bracket", "rung", "run")},
        )


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{name} must be a whole number.")
    return int(text)


def listing(state: State, query: Query) -> dict[str, Any]:
    """One page of evaluations."""
    found = [
        result
        for (bracket, rung), results in state.results.items()
        if query.bracket in (None, bracket) and query.rung in (None, rung)
        for result in results.values()
        if _fits(state, result, query)
    ]
    metrics = metric_names(state)[:MOST_METRICS]
    found = _sorted(found, _column(state, query.sort, metrics), query.descending)
    names = [axis["name"] for axis in state.space["hyperparameters"]]
    first = query.page * ROWS_PER_PAGE
    return {
        "metrics": [shortened(name, 40) for name in metrics],
        "parameters": [shortened(name, 40) for name in names],
        "rows": [
            _row(state, result, names, metrics) for result in found[first : first + ROWS_PER_PAGE]
        ],
        "total": len(found),
        "pages": math.ceil(len(found) / ROWS_PER_PAGE),
    }


def _fits(state: State, result: JobFinished, query: Query) -> bool:
    if query.run not in (None, result.run):
        return False
    if query.outcome and _outcome(state, result) != query.outcome:
        return False
    return not query.text or query.text in _searched(state, result)


def _outcome(state: State, result: JobFinished) -> str:
    if result.loss is None:
        return "failed"
    if result.stopped_after is not None:
        return "stopped"
    return "infeasible" if verdict(state, result) else "good"


def _searched(state: State, result: JobFinished) -> str:
    config = _config(state, result)
    words = [  # as `brief` formats them, but fast enough for a hundred thousand configs
        f"{name}={value:.6g}" if type(value) is float else f"{name}={value}"
        for name, value in config.items()
    ]
    return "\n".join([*words, result.error or ""]).casefold()


def _config(state: State, result: JobFinished) -> Config:
    return state.config(result.bracket, result.index)


def _sorted(
    found: list[JobFinished], column: Callable[[JobFinished], float | None], descending: bool
) -> list[JobFinished]:
    """Sort by a column, then by bracket, index and rung. Missing values come last."""
    found.sort()
    worst = -math.inf if descending else math.inf
    keys = [worst if value is None else value for value in map(column, found)]
    order = sorted(range(len(found)), key=keys.__getitem__, reverse=descending)
    return [found[place] for place in order]


def _column(
    state: State, sort: str, metrics: Sequence[str]
) -> Callable[[JobFinished], float | None]:
    """The sort key of a column, which is a number: for a choice, its position among all choices."""
    if sort in COLUMNS:
        if sort == "value":
            return lambda result: (
                None if result.number is None else state.criteria.value(result.number)
            )
        return attrgetter(sort)
    metric = {f"m{place}": name for place, name in enumerate(metrics)}.get(sort)
    if metric is not None:
        return lambda result: number(state.criteria.named_results(result).get(metric))
    axes = {f"p{place}": axis for place, axis in enumerate(chart_data.axes(state))}
    if sort not in axes:
        raise InputError(f"there is no column {shown(sort)}.")
    axis = axes[sort]
    if axis.choices is None:
        return lambda result: _config(state, result).get(axis.name)
    return lambda result: axis.position(_config(state, result).get(axis.name))


def _row(state: State, result: JobFinished, names: list[str], metrics: list[str]) -> dict[str, Any]:
    config, found = _config(state, result), state.criteria.named_results(result)
    return {
        "bracket": result.bracket,
        "index": result.index,
        "rung": result.rung,
        "budget": state.run.budgets[result.rung],
        "run": result.run,
        "value": _value(state, result),
        "seconds": result.seconds,
        "failed": result.loss is None,
        "verdict": _note(state, result),
        "error": None if result.error is None else shortened(result.error.split("\n")[0], 80),
        "metrics": [brief(found[name]) if name in found else "" for name in metrics],
        "config": [brief(config[name]) if name in config else "" for name in names],
    }


def _value(state: State, result: JobFinished) -> str | None:
    """The number that is optimised; None for a failure, a rejected config or training that was
    stopped early, and with several objectives."""
    if result.number is None or result.stopped_after or verdict(state, result) == "rejected":
        return None
    return brief(state.criteria.value(result.number))


def _note(state: State, result: JobFinished) -> str | None:
    """Why a result that did not fail cannot be the best, or None."""
    if result.stopped_after is not None:
        return f"stopped after {result.stopped_after:.6g}"
    return verdict(state, result)
