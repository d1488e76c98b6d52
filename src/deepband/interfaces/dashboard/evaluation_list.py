"""The table of evaluations: sorted, filtered, and a page at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from deepband.analysis import chart_data
from deepband.analysis.formatting import brief, shortened
from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.errors import InputError

ROWS_A_PAGE = 50
PLAIN = ("bracket", "index", "rung", "run", "value", "seconds")
OUTCOMES = ("", "good", "failed")


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows, in which order, and which page of them."""

    sort: str = "bracket"
    """A plain column, or "p0", "p1", ... for a parameter by its place in the space."""
    descending: bool = False
    page: int = 0
    bracket: int | None = None
    rung: int | None = None
    run: int | None = None
    outcome: str = ""
    text: str = ""
    """In a parameter's name or value, or in an error; case does not matter."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Query:
        """From the parameters of a request. What is not known or no number is an InputError."""
        unknown = set(given) - set(cls.__dataclass_fields__)
        if unknown:
            raise InputError(f"unknown parameters: {sorted(unknown)}")
        outcome = given.get("outcome", "")
        if outcome not in OUTCOMES:
            raise InputError("outcome is 'good' or 'failed'.")
        return cls(
            sort=given.get("sort", "bracket"),
            descending=given.get("descending") == "1",
            page=_number(given, "page") or 0,
            bracket=_number(given, "bracket"),
            rung=_number(given, "rung"),
            run=_number(given, "run"),
            outcome=outcome,
            text=given.get("text", "").casefold(),
        )


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"{name} is a whole number.")
    return int(text)


def listing(state: State, query: Query) -> dict[str, Any]:
    """One page of evaluations."""
    found = [
        told
        for (bracket, rung), results in state.results.items()
        if query.bracket in (None, bracket) and query.rung in (None, rung)
        for told in results.values()
        if _fits(state, told, query)
    ]
    found = _sorted(found, _column(state, query.sort), query.descending)
    names = [axis["name"] for axis in state.created.space["hyperparameters"]]
    first = query.page * ROWS_A_PAGE
    return {
        "parameters": [shortened(name, 40) for name in names],
        "rows": [_row(state, told, names) for told in found[first : first + ROWS_A_PAGE]],
        "total": len(found),
        "pages": math.ceil(len(found) / ROWS_A_PAGE),
    }


def _fits(state: State, told: JobFinished, query: Query) -> bool:
    if query.run not in (None, told.run):
        return False
    if query.outcome and (told.loss is None) != (query.outcome == "failed"):
        return False
    return not query.text or query.text in _searched(state, told)


def _searched(state: State, told: JobFinished) -> str:
    config = _config(state, told)
    words = [  # as `brief` writes them, but of a hundred thousand configs
        f"{name}={value:.6g}" if type(value) is float else f"{name}={value}"
        for name, value in config.items()
    ]
    return "\n".join([*words, told.error or ""]).casefold()


def _config(state: State, told: JobFinished) -> Config:
    return state.configs[told.bracket][told.index]


def _sorted(
    found: list[JobFinished], column: Callable[[JobFinished], float | None], descending: bool
) -> list[JobFinished]:
    """By a column, then by bracket, index and rung. Where there is no value, it comes last."""
    found.sort()
    worst = -math.inf if descending else math.inf
    keys = [worst if value is None else value for value in map(column, found)]
    order = sorted(range(len(found)), key=keys.__getitem__, reverse=descending)
    return [found[place] for place in order]


def _column(state: State, sort: str) -> Callable[[JobFinished], float | None]:
    """What a column is sorted by: numbers only, of a choice its place among the others."""
    if sort in PLAIN:
        if sort == "value":
            return lambda told: None if told.loss is None else state.value(told.loss)
        return attrgetter(sort)
    axes = {f"p{number}": axis for number, axis in enumerate(chart_data.axes(state))}
    if sort not in axes:
        raise InputError("there is no such column.")
    axis = axes[sort]
    if axis.choices is None:
        return lambda told: _config(state, told).get(axis.name)
    return lambda told: axis.position(_config(state, told).get(axis.name))


def _row(state: State, told: JobFinished, names: list[str]) -> dict[str, Any]:
    config = _config(state, told)
    return {
        "bracket": told.bracket,
        "index": told.index,
        "rung": told.rung,
        "budget": state.run.budgets[told.rung],
        "run": told.run,
        "value": None if told.loss is None else brief(state.value(told.loss)),
        "seconds": told.seconds,
        "error": None if told.error is None else shortened(told.error.split("\n")[0], 80),
        "config": [brief(config[name]) if name in config else "" for name in names],
    }
