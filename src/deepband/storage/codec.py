"""Facts as rows of plain tables, and back. What is written here can be read for ever.

The format version goes up whenever rows mean something else; a file of a newer version is read
by the columns that this one knows, and not written.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

from deepband.errors import FactError, SpaceError
from deepband.facts import (
    Config,
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobsReopened,
    ObjectiveNamed,
    RunStarted,
    StudyCreated,
)

FORMAT = 1
APPLICATION = 0x44454550  # "DEEP"

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE studies (
    study TEXT PRIMARY KEY,
    eta INTEGER NOT NULL,
    min_budget TEXT NOT NULL,
    max_budget TEXT NOT NULL,
    seed TEXT NOT NULL,
    maximize INTEGER NOT NULL,
    integer_budgets INTEGER NOT NULL,
    sampler TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    space TEXT NOT NULL,
    objective TEXT,
    created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    commits INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    max_budget TEXT NOT NULL,
    strategy TEXT,
    started TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
CREATE TABLE configs (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (bracket, "index")
) STRICT, WITHOUT ROWID;
CREATE TABLE evaluations (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    run INTEGER NOT NULL, -- one beyond the last of runs for what is ahead
    loss REAL,
    error TEXT,
    metrics TEXT,
    seconds REAL,
    resumed_from INTEGER,
    curve TEXT,
    finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (bracket, "index", rung),
    FOREIGN KEY (bracket, "index") REFERENCES configs (bracket, "index")
) STRICT, WITHOUT ROWID;
"""
THIS_JOB = 'WHERE bracket = ? AND "index" = ? AND rung = ?'


def write(connection: sqlite3.Connection, fact: Fact) -> None:
    """Write one fact within the current transaction."""
    _WRITE[type(fact)](connection, fact)


def read(connection: sqlite3.Connection) -> Iterator[Fact]:
    """All facts within the current transaction, in an order that a state can follow."""
    created, objective = _study(connection)
    yield created
    if objective is not None:
        yield ObjectiveNamed(objective)
    evaluations = groupby(_evaluations(connection), key=itemgetter(3))
    results = next(evaluations, None)
    for run, max_budget, strategy in connection.execute(
        "SELECT run, max_budget, strategy FROM runs ORDER BY run"
    ):
        yield RunStarted(run, Fraction(max_budget), strategy)
        if results is not None and results[0] == run:
            yield from (JobFinished(*row) for row in results[1])
            results = next(evaluations, None)
    if results is not None:  # ahead of the next run
        yield from (JobFinished(*row) for row in results[1])
    rows = connection.execute(
        'SELECT bracket, "index", config FROM configs ORDER BY bracket, "index"'
    )
    for bracket, drawn in groupby(rows, key=itemgetter(0)):
        yield ConfigsDrawn(bracket, 0, tuple(_configs(drawn)))


def check_storable(space: Mapping[str, Any]) -> None:
    """Raise a SpaceError for a described space whose choices would not come back the same."""
    for parameter in space["hyperparameters"]:
        values = parameter.get("choices", parameter.get("sequence", [parameter.get("value")]))
        for value in values:
            if not _is_plain(value):
                raise SpaceError(
                    f"parameter {parameter['name']!r} has the value {value!r} "
                    f"({type(value).__name__}), which a study file cannot keep: use texts, "
                    "numbers, bools, None or lists of them, or leave the study in memory."
                )


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def to_text(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _is_plain(value: object) -> bool:
    """Whether JSON gives back the same value of the same type."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)


def _study(connection: sqlite3.Connection) -> tuple[StudyCreated, str | None]:
    (row,) = connection.execute(
        "SELECT study, space, eta, min_budget, max_budget, seed, maximize, integer_budgets, "
        "sampler, chunk, objective FROM studies"
    )
    study, space, eta, low, high, seed, maximize, whole, sampler, chunk, objective = row
    created = StudyCreated(
        study,
        json.loads(space),
        eta,
        Fraction(low),
        Fraction(high),
        int(seed),
        bool(maximize),
        bool(whole),
        sampler,
        chunk,
    )
    return created, objective


def _configs(rows: Iterable[tuple[int, int, str]]) -> Iterator[Config]:
    for wanted, (bracket, index, text) in enumerate(rows):
        config = json.loads(text)
        if index != wanted or not isinstance(config, dict):
            raise FactError(f"config {wanted} of bracket {bracket} is missing or no object")
        yield config


def _evaluations(connection: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """By run, from the starting rungs up, so that every front can climb while it is read."""
    rows = connection.execute(
        'SELECT bracket, "index", rung, run, loss, error, metrics, seconds, resumed_from, curve '
        'FROM evaluations ORDER BY run, bracket, rung, "index"'
    )
    for row in rows:
        *plain, metrics, seconds, resumed_from, curve = row
        yield (
            *plain,
            dict(json.loads(metrics)) if metrics else None,
            seconds,
            resumed_from,
            _curve(curve) if curve else None,
        )


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """Points as they were reported; what JSON has no number for is written as a text."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))


def _write_study(connection: sqlite3.Connection, fact: StudyCreated) -> None:
    connection.execute(
        "INSERT INTO studies (study, space, eta, min_budget, max_budget, seed, maximize, "
        "integer_budgets, sampler, chunk) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            fact.study,
            to_text(fact.space),
            fact.eta,
            str(fact.min_budget),
            str(fact.max_budget),
            str(fact.seed),
            fact.maximize,
            fact.integer_budgets,
            fact.sampler,
            fact.chunk,
        ),
    )


def _write_objective(connection: sqlite3.Connection, fact: ObjectiveNamed) -> None:
    connection.execute("UPDATE studies SET objective = ?", (fact.objective,))


def _write_run(connection: sqlite3.Connection, fact: RunStarted) -> None:
    connection.execute(
        "INSERT INTO runs (run, max_budget, strategy) VALUES (?, ?, ?)",
        (fact.run, str(fact.max_budget), fact.strategy),
    )


def _write_configs(connection: sqlite3.Connection, fact: ConfigsDrawn) -> None:
    connection.executemany(
        "INSERT INTO configs VALUES (?, ?, ?)",
        [
            (fact.bracket, index, to_text(config))
            for index, config in enumerate(fact.configs, fact.first)
        ],
    )


def _write_finished(connection: sqlite3.Connection, fact: JobFinished) -> None:
    *plain, metrics, seconds, resumed_from, curve = fact
    connection.execute(
        'INSERT INTO evaluations (bracket, "index", rung, run, loss, error, metrics, seconds, '
        "resumed_from, curve) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *plain,
            to_text(metrics) if metrics else None,
            seconds,
            resumed_from,
            to_text([list(map(_number, point)) for point in curve]) if curve else None,
        ),
    )


def _write_reopened(connection: sqlite3.Connection, fact: JobsReopened) -> None:
    connection.executemany(f"DELETE FROM evaluations {THIS_JOB}", fact.jobs)


_WRITE: dict[type, Callable[[sqlite3.Connection, Any], None]] = {
    StudyCreated: _write_study,
    ObjectiveNamed: _write_objective,
    RunStarted: _write_run,
    ConfigsDrawn: _write_configs,
    JobFinished: _write_finished,
    JobsReopened: _write_reopened,
}
