"""Facts as rows of plain tables, and back. What is written here can be read for ever.

The format version goes up whenever rows mean something else; a file of a newer version is read
by the columns that this one knows, and not written.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

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

FORMAT = 2
APPLICATION = 0x44454550  # "DEEP"
TAG = "deepband:"
"""How the key of an object begins that stands for a tuple, or for a dict with keys of any type."""

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
    commits INTEGER NOT NULL DEFAULT 0,
    reopened INTEGER NOT NULL DEFAULT 0 -- the last commit that took evaluations back
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
    origin TEXT, -- of one that the sampler did not draw
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
    commits INTEGER NOT NULL DEFAULT 0, -- the commit that it came with
    origin TEXT, -- of one that was made elsewhere
    PRIMARY KEY (bracket, "index", rung),
    FOREIGN KEY (bracket, "index") REFERENCES configs (bracket, "index")
) STRICT, WITHOUT ROWID;
CREATE INDEX evaluations_by_commit ON evaluations (commits);
"""
FROM_1 = """
ALTER TABLE studies ADD COLUMN reopened INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evaluations ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE evaluations ADD COLUMN origin TEXT;
ALTER TABLE configs ADD COLUMN origin TEXT;
CREATE INDEX evaluations_by_commit ON evaluations (commits);
PRAGMA user_version = 2;
"""
"""What makes a file of format 1 one of format 2."""
THIS_JOB = 'WHERE bracket = ? AND "index" = ? AND rung = ?'


def write(connection: sqlite3.Connection, fact: Fact, commit: int) -> None:
    """Write one fact within the current transaction, which is the commit of that number."""
    _WRITE[type(fact)](connection, fact, commit)


def read(connection: sqlite3.Connection) -> Iterator[Fact]:
    """All facts within the current transaction, in an order that a state can follow."""
    created, objective = _study(connection)
    yield created
    if objective is not None:
        yield ObjectiveNamed(objective)
    yield from _runs(connection, 0, _evaluations(connection))
    yield from _drawn(connection)


def read_since(
    connection: sqlite3.Connection, commit: int, runs: int, drawn: Sequence[int]
) -> Iterator[Fact]:
    """The facts after a commit, for a state that knows so many runs, and so many configs of each
    bracket."""
    _, objective = _study(connection)
    if objective is not None:
        yield ObjectiveNamed(objective)
    yield from _runs(connection, runs, _evaluations(connection, "WHERE commits > ?", commit))
    for bracket, first in enumerate(drawn):
        where = 'WHERE bracket = ? AND "index" >= ?'
        yield from _drawn(connection, where, bracket, first, first=first)
    yield from _drawn(connection, "WHERE bracket >= ?", len(drawn))


class Summary(NamedTuple):
    """A study in a few numbers."""

    runs: int
    max_budget: Fraction
    evaluations: int
    objective: str | None


def summary(connection: sqlite3.Connection) -> Summary:
    """What a list of studies tells of each."""
    rows = connection.execute("SELECT max_budget FROM runs ORDER BY run").fetchall()
    (evaluations,) = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    (objective,) = connection.execute("SELECT objective FROM studies").fetchone()
    return Summary(len(rows), Fraction(rows[-1][0]), evaluations, objective)


def is_grown(connection: sqlite3.Connection, study: str, commit: int) -> bool:
    """Whether this is the study that it was at a commit, with nothing taken back since then."""
    cursor = connection.execute("SELECT * FROM studies")
    names = [name for name, *_ in cursor.description]
    row = dict(zip(names, cursor.fetchone(), strict=True))
    return bool(row["study"] == study and row["commits"] >= commit >= row.get("reopened", 0))


def read_commit(connection: sqlite3.Connection, commit: int) -> Iterator[JobFinished]:
    """The evaluations that came with a commit."""
    for row in _evaluations(connection, "WHERE commits = ?", commit):
        yield JobFinished(*row)


def _runs(
    connection: sqlite3.Connection, known: int, evaluations: Iterator[tuple[Any, ...]]
) -> Iterator[Fact]:
    """Runs that are not known, and evaluations after the start of their run. What is ahead of the
    next run comes last."""
    rows = connection.execute("SELECT run, max_budget, strategy FROM runs ORDER BY run").fetchall()
    for run, told in groupby(evaluations, key=itemgetter(3)):
        while known < len(rows) and known <= run:
            yield _run_started(rows[known])
            known += 1
        yield from (JobFinished(*row) for row in told)
    yield from map(_run_started, rows[known:])


def _run_started(row: tuple[int, str, str | None]) -> RunStarted:
    run, max_budget, strategy = row
    return RunStarted(run, Fraction(max_budget), strategy)


def _drawn(
    connection: sqlite3.Connection, where: str = "", *given: int, first: int = 0
) -> Iterator[ConfigsDrawn]:
    """The configs of every bracket, from an index on."""
    rows = connection.execute(
        f'SELECT bracket, "index", config, {_origin(connection)} FROM configs {where} '
        'ORDER BY bracket, "index"',
        given,
    )
    wanted: dict[int, int] = {}
    for (bracket, origin), drawn in groupby(rows, key=itemgetter(0, 3)):
        start = wanted.get(bracket, first)
        configs = tuple(_configs(drawn, start))
        wanted[bracket] = start + len(configs)
        yield ConfigsDrawn(bracket, start, configs, origin)


def check_storable(space: Mapping[str, Any]) -> None:
    """Raise a SpaceError for a described space whose choices would not come back the same."""
    for parameter in space["hyperparameters"]:
        values = parameter.get("choices", parameter.get("sequence", [parameter.get("value")]))
        for value in values:
            if not _is_plain(value):
                raise SpaceError(
                    f"parameter {parameter['name']!r} has the value {value!r} "
                    f"({type(value).__name__}), which a study file cannot keep: use texts, "
                    "numbers, bools, None, or lists, tuples and dicts of them, or leave the study "
                    "in memory."
                )


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def to_text(value: object) -> str:
    """A value as JSON. `from_text` gives back the same, tuples and keys of dicts included."""
    return json.dumps(_tagged(value), allow_nan=False, separators=(",", ":"))


def from_text(text: str) -> Any:
    """The value of a text that `to_text` made."""
    return json.loads(text, object_hook=_untagged) if f'"{TAG}' in text else json.loads(text)


def _tagged(value: Any) -> Any:
    """What JSON has no type for, as objects that say what they are."""
    kind = type(value)
    if kind is list:
        return list(map(_tagged, value))
    if kind is tuple:
        return {f"{TAG}tuple": list(map(_tagged, value))}
    if not isinstance(value, Mapping):
        return value
    if any(type(key) is not str or key.startswith(TAG) for key in value):
        return {f"{TAG}dict": [[_tagged(key), _tagged(held)] for key, held in value.items()]}
    return {key: _tagged(held) for key, held in value.items()}


def _untagged(found: dict[str, Any]) -> Any:
    if found.keys() == {f"{TAG}tuple"}:
        return tuple(found[f"{TAG}tuple"])
    if found.keys() == {f"{TAG}dict"}:
        return dict(found[f"{TAG}dict"])
    return found


def _is_plain(value: object) -> bool:
    """Whether a text gives back the same value of the same type."""
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))  # type: ignore[call-overload] # it is one of the two
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(held) for key, held in value.items())
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
        from_text(space),
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


def _configs(rows: Iterable[tuple[int, int, str, str | None]], first: int) -> Iterator[Config]:
    for wanted, (bracket, index, text, _) in enumerate(rows, first):
        config = from_text(text)
        if index != wanted or not isinstance(config, dict):
            raise FactError(f"config {wanted} of bracket {bracket} is missing or no object")
        yield config


def _evaluations(
    connection: sqlite3.Connection, where: str = "", *given: int
) -> Iterator[tuple[Any, ...]]:
    """By run, from the starting rungs up, so that every front can climb while it is read."""
    rows = connection.execute(
        'SELECT bracket, "index", rung, run, loss, error, metrics, seconds, resumed_from, curve, '
        f'{_origin(connection)} FROM evaluations {where} ORDER BY run, bracket, rung, "index"',
        given,
    )
    for row in rows:
        *plain, metrics, seconds, resumed_from, curve, origin = row
        yield (
            *plain,
            dict(from_text(metrics)) if metrics else None,
            seconds,
            resumed_from,
            _curve(curve) if curve else None,
            origin,
        )


def _origin(connection: sqlite3.Connection) -> str:
    """The column of origins, which files of format 1 do not have."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return "origin" if version >= 2 else "NULL"


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """Points as they were reported; what JSON has no number for is written as a text."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))


def _write_study(connection: sqlite3.Connection, fact: StudyCreated, _: int) -> None:
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


def _write_objective(connection: sqlite3.Connection, fact: ObjectiveNamed, _: int) -> None:
    connection.execute("UPDATE studies SET objective = ?", (fact.objective,))


def _write_run(connection: sqlite3.Connection, fact: RunStarted, _: int) -> None:
    connection.execute(
        "INSERT INTO runs (run, max_budget, strategy) VALUES (?, ?, ?)",
        (fact.run, str(fact.max_budget), fact.strategy),
    )


def _write_configs(connection: sqlite3.Connection, fact: ConfigsDrawn, _: int) -> None:
    connection.executemany(
        "INSERT INTO configs VALUES (?, ?, ?, ?)",
        [
            (fact.bracket, index, to_text(config), fact.origin)
            for index, config in enumerate(fact.configs, fact.first)
        ],
    )


def _write_finished(connection: sqlite3.Connection, fact: JobFinished, commit: int) -> None:
    *plain, metrics, seconds, resumed_from, curve, origin = fact
    connection.execute(
        'INSERT INTO evaluations (bracket, "index", rung, run, loss, error, metrics, seconds, '
        "resumed_from, curve, origin, commits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *plain,
            to_text(metrics) if metrics else None,
            seconds,
            resumed_from,
            to_text([list(map(_number, point)) for point in curve]) if curve else None,
            origin,
            commit,
        ),
    )


def _write_reopened(connection: sqlite3.Connection, fact: JobsReopened, commit: int) -> None:
    connection.executemany(f"DELETE FROM evaluations {THIS_JOB}", fact.jobs)
    connection.execute("UPDATE studies SET reopened = ?", (commit,))


_WRITE: dict[type, Callable[[sqlite3.Connection, Any, int], None]] = {
    StudyCreated: _write_study,
    ObjectiveNamed: _write_objective,
    RunStarted: _write_run,
    ConfigsDrawn: _write_configs,
    JobFinished: _write_finished,
    JobsReopened: _write_reopened,
}
