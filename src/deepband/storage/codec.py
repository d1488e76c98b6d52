"""Facts as rows of plain tables, and back. What is written here can be read for ever.

Every row that is read is compared with its checksum, and a whole study with the sum of them. Files
older than format 3 have no checksums and are read without.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from deepband.core.facts import (
    Config,
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobsReopened,
    ObjectiveNamed,
    RunStarted,
    StudyCreated,
)
from deepband.errors import FactError, SpaceError
from deepband.storage.checksums import Row, Tally, checksum
from deepband.storage.schema import COLUMNS, LISTED, format_of, missing_columns
from deepband.storage.tagged_json import from_text, to_text

Head: TypeAlias = Mapping[str, Any]
"""The row of a study, by column."""
_Open: TypeAlias = dict[str, Any]
"""The same while a commit is written."""
STUDY = COLUMNS["studies"].split()
ID = re.compile("[0-9A-Za-z]{1,64}")
"""What the id of a study can be: folders are named by it."""
THIS_JOB = 'WHERE bracket = ? AND "index" = ? AND rung = ?'


def write(connection: sqlite3.Connection, facts: Iterable[Fact], head: Head | None) -> Head | None:
    """Write facts within the current transaction, and return the new row of the study. It was
    `head`, or there was none; None if it is not `head` any more, and nothing may be written."""
    row = dict(head) if head else {}
    row["commits"] = row.get("commits", 0) + 1
    for kind, same in groupby(facts, key=type):
        _WRITE[kind](connection, list(same), row)
    if head is None:
        _insert(connection, "studies", [tuple(row[name] for name in STUDY)])
        return row
    cursor = connection.execute(
        "UPDATE studies SET objective = ?, commits = ?, reopened = ?, contents = ?, checksum = ? "
        "WHERE commits = ? AND checksum = ?",
        (
            *(row[name] for name in ("objective", "commits", "reopened", "contents")),
            _checksum(row),
            head["commits"],
            _checksum(head),
        ),
    )
    return row if cursor.rowcount == 1 else None


def _checksum(row: Head) -> int:
    return checksum("studies", tuple(row[name] for name in STUDY))


def read(connection: sqlite3.Connection) -> Iterator[Fact]:
    """All facts within the current transaction, in an order that a state can follow."""
    tally, row = _tally(connection), head(connection)
    yield _study(row)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    yield from _runs(connection, tally, 0, _evaluations(connection, tally))
    yield from _drawn(connection, tally)
    _check_contents(tally, row)


def read_since(
    connection: sqlite3.Connection,
    commit: int,
    contents: int | None,
    runs: int,
    drawn: Sequence[int],
) -> Iterator[Fact]:
    """The facts after a commit, when the rows of the study had these contents, for a state that
    has that many runs, and that many configs of each bracket."""
    tally, row = _tally(connection, contents or 0), head(connection)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    evaluations = _evaluations(connection, tally, "WHERE commits > ?", commit)
    yield from _runs(connection, tally, runs, evaluations)
    for bracket, first in enumerate(drawn):
        where = 'WHERE bracket = ? AND "index" >= ?'
        yield from _drawn(connection, tally, where, bracket, first, first=first)
    yield from _drawn(connection, tally, "WHERE bracket >= ?", len(drawn))
    _check_contents(tally, row)


def head(connection: sqlite3.Connection) -> Head:
    """The row of the study by column, checked; None where an older format has no such column."""
    rows = list(_rows(connection, "studies", _tally(connection)))
    if len(rows) != 1:
        raise FactError(f"the table studies has {len(rows)} rows, not one")
    return dict(zip(STUDY, rows[0], strict=True))


def _check_contents(tally: Tally | None, row: Head) -> None:
    if tally is not None and tally.total != row["contents"]:
        raise FactError("rows are missing, or there are too many: their checksums do not add up")


def _tally(connection: sqlite3.Connection, total: int = 0) -> Tally | None:
    """What checks rows; None for a file without checksums."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info (studies)")}
    if ("checksum" in columns) != (format_of(connection) >= 3):
        raise FactError("the number of its format does not fit its tables")
    return Tally(total) if "checksum" in columns else None


def _rows(
    connection: sqlite3.Connection, table: str, tally: Tally | None, tail: str = "", *given: int
) -> Iterable[Row]:
    """Rows of a table in the order of its COLUMNS, checked."""
    missing = [] if tally else missing_columns(connection, table)
    names = ["NULL" if n in missing else f'"{n}"' for n in COLUMNS[table].split()]
    listed = ", ".join([*names, "checksum"] if tally else names)
    rows = connection.execute(f"SELECT {listed} FROM {table} {tail}", given)
    return tally.checked(table, rows) if tally else rows


class Summary(NamedTuple):
    """A study in a few numbers."""

    runs: int
    max_budget: Fraction
    evaluations: int
    objective: str | None


def summary(connection: sqlite3.Connection) -> Summary:
    """What a list of studies tells of each."""
    runs = list(_rows(connection, "runs", _tally(connection), "ORDER BY run"))
    (evaluations,) = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    return Summary(len(runs), Fraction(runs[-1][1]), evaluations, head(connection)["objective"])


def is_grown(row: Head, study: str, commit: int) -> bool:
    """Whether this is the study that it was at a commit, with nothing taken back since then."""
    return bool(row["study"] == study and row["commits"] >= commit >= (row["reopened"] or 0))


def read_commit(connection: sqlite3.Connection, commit: int) -> Iterator[JobFinished]:
    """The evaluations that came with a commit."""
    for row in _evaluations(connection, _tally(connection), "WHERE commits = ?", commit):
        yield JobFinished(*row)


def _runs(
    connection: sqlite3.Connection,
    tally: Tally | None,
    known: int,
    evaluations: Iterator[Row],
) -> Iterator[Fact]:
    """Runs that are not known, and evaluations after the start of their run. What is ahead of the
    next run comes last."""
    rows = list(_rows(connection, "runs", tally, "WHERE run >= ? ORDER BY run", known))
    started = [RunStarted(run, Fraction(high), strategy) for run, high, strategy, _ in rows]
    for run, told in groupby(evaluations, key=itemgetter(3)):
        while started and started[0].run <= run:
            yield started.pop(0)
        yield from (JobFinished(*row) for row in told)
    yield from started


def _drawn(
    connection: sqlite3.Connection,
    tally: Tally | None,
    where: str = "",
    *given: int,
    first: int = 0,
) -> Iterator[ConfigsDrawn]:
    """The configs of every bracket, from an index on."""
    rows = _rows(connection, "configs", tally, f'{where} ORDER BY bracket, "index"', *given)
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


def _is_plain(value: object) -> bool:
    """Whether a text gives back the same value of the same type."""
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))  # type: ignore[call-overload] # it is one of the two
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(held) for key, held in value.items())
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)


def _study(row: Head) -> StudyCreated:
    if not ID.fullmatch(row["study"]):  # "../.." would lead out of the study's folder
        raise FactError(f"its id is {row['study']!r}, which cannot name a folder")
    return StudyCreated(
        row["study"],
        from_text(row["space"]),
        row["eta"],
        Fraction(row["min_budget"]),
        Fraction(row["max_budget"]),
        int(row["seed"]),
        bool(row["maximize"]),
        bool(row["integer_budgets"]),
        row["sampler"],
        row["chunk"],
    )


def _configs(rows: Iterable[Row], first: int) -> Iterator[Config]:
    for wanted, (bracket, index, text, _) in enumerate(rows, first):
        config = from_text(text)
        if index != wanted or not isinstance(config, dict):
            raise FactError(f"config {wanted} of bracket {bracket} is missing or no object")
        yield config


def _evaluations(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[Row]:
    """By run, from the starting rungs up, so that every front can climb while it is read."""
    order = 'ORDER BY run, bracket, rung, "index"'
    for row in _rows(connection, "evaluations", tally, f"{where} {order}", *given):
        *plain, metrics, seconds, resumed_from, curve, origin, _, _ = row
        yield (
            *plain,
            dict(from_text(metrics)) if metrics else None,
            seconds,
            resumed_from,
            _curve(curve) if curve else None,
            origin,
        )


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """Points as they were reported; what JSON has no number for is written as a text."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> int:
    """Add rows with the values of all COLUMNS, and return the sum of their checksums."""
    sums = [checksum(table, row) for row in rows]
    marks = ", ".join("?" for _ in COLUMNS[table].split())
    connection.executemany(
        f"INSERT INTO {table} ({LISTED[table]}, checksum) VALUES ({marks}, ?)",
        [(*row, each) for row, each in zip(rows, sums, strict=True)],
    )
    return sum(sums)


def _now() -> str:
    """As SQLite's CURRENT_TIMESTAMP writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _write_study(_: sqlite3.Connection, facts: Sequence[StudyCreated], row: _Open) -> None:
    (fact,) = facts
    row.update(
        study=fact.study,
        eta=fact.eta,
        min_budget=str(fact.min_budget),
        max_budget=str(fact.max_budget),
        seed=str(fact.seed),
        maximize=int(fact.maximize),
        integer_budgets=int(fact.integer_budgets),
        sampler=fact.sampler,
        chunk=fact.chunk,
        space=to_text(fact.space),
        objective=None,
        created=_now(),
        reopened=0,
        contents=0,
    )


def _write_objective(_: sqlite3.Connection, facts: Sequence[ObjectiveNamed], row: _Open) -> None:
    row["objective"] = facts[-1].objective


def _write_runs(connection: sqlite3.Connection, facts: Sequence[RunStarted], row: _Open) -> None:
    rows = [(fact.run, str(fact.max_budget), fact.strategy, _now()) for fact in facts]
    row["contents"] += _insert(connection, "runs", rows)


def _write_configs(
    connection: sqlite3.Connection, facts: Sequence[ConfigsDrawn], row: _Open
) -> None:
    rows = [
        (fact.bracket, index, to_text(config), fact.origin)
        for fact in facts
        for index, config in enumerate(fact.configs, fact.first)
    ]
    row["contents"] += _insert(connection, "configs", rows)


def _write_finished(
    connection: sqlite3.Connection, facts: Sequence[JobFinished], row: _Open
) -> None:
    now = _now()
    rows = [
        (
            *key,
            None if loss is None else loss + 0.0,  # SQLite has no -0.0
            error,
            to_text(metrics) if metrics else None,
            None if seconds is None else seconds + 0.0,
            resumed_from,
            to_text([list(map(_number, point)) for point in curve]) if curve else None,
            origin,
            now,
            row["commits"],
        )
        for (*key, loss, error, metrics, seconds, resumed_from, curve, origin) in facts
    ]
    row["contents"] += _insert(connection, "evaluations", rows)


def _write_reopened(
    connection: sqlite3.Connection, facts: Sequence[JobsReopened], row: _Open
) -> None:
    jobs = [job for fact in facts for job in fact.jobs]
    for job in jobs:
        sums = connection.execute(f"SELECT checksum FROM evaluations {THIS_JOB}", job)
        row["contents"] -= sum(each for (each,) in sums)
    connection.executemany(f"DELETE FROM evaluations {THIS_JOB}", jobs)
    row["reopened"] = row["commits"]


_WRITE: dict[type, Callable[[sqlite3.Connection, Any, _Open], None]] = {
    StudyCreated: _write_study,
    ObjectiveNamed: _write_objective,
    RunStarted: _write_runs,
    ConfigsDrawn: _write_configs,
    JobFinished: _write_finished,
    JobsReopened: _write_reopened,
}
"""What writes facts of a kind, and notes in the row of the study what they change there."""
