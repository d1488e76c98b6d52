"""Encoding of facts as rows of plain tables, and decoding. Files of every format stay readable.

Every row that is read is compared with its checksum, and a complete study with the sum of them.
Files older than format 3 have no checksums.
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
    Confirmed,
    Fact,
    JobFinished,
    JobsReopened,
    ObjectiveNamed,
    RunStarted,
    SpaceChange,
    StudyCreated,
)
from deepband.errors import FactError
from deepband.storage.checksums import Row, Tally, checksum
from deepband.storage.schema import COLUMNS, DEFAULTS, LISTED, format_of, missing_columns
from deepband.storage.tagged_json import from_text, to_text

Head: TypeAlias = Mapping[str, Any]
"""The row of the study, by column."""
_Open: TypeAlias = dict[str, Any]
"""The same row while a commit is being written."""
STUDY = COLUMNS["studies"].split()
ID = re.compile("[0-9A-Za-z]{1,64}")
"""What the id of a study may look like: it is also the name of a folder."""
FIRST_WITH_CONFIRMATIONS = 5
THIS_JOB = 'WHERE bracket = ? AND "index" = ? AND rung = ?'


def write(connection: sqlite3.Connection, facts: Iterable[Fact], head: Head | None) -> Head | None:
    """Write facts within the current transaction, and return the new row of the study. `head` is
    the row before, if there was one; None means that it has changed and nothing may be written."""
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
    """All facts of the study, in an order in which a state can apply them."""
    tally, row = _tally(connection), head(connection)
    yield _study(row)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    yield from _runs(connection, tally, 0, _evaluations(connection, tally))
    yield from _drawn(connection, tally)
    yield from _confirmed(connection, tally)
    _check_contents(tally, row)


def read_since(
    connection: sqlite3.Connection,
    commit: int,
    contents: int | None,
    runs: int,
    drawn: Sequence[int],
) -> Iterator[Fact]:
    """The facts after a commit for a state that has `runs` runs and `drawn` configs per bracket.
    `contents` was the sum of the study's checksums at that commit."""
    tally, row = _tally(connection, contents or 0), head(connection)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    evaluations = _evaluations(connection, tally, "WHERE commits > ?", commit)
    yield from _runs(connection, tally, runs, evaluations)
    for bracket, first in enumerate(drawn):
        where = 'WHERE bracket = ? AND "index" >= ?'
        yield from _drawn(connection, tally, where, bracket, first, first=first)
    yield from _drawn(connection, tally, "WHERE bracket >= ?", len(drawn))
    yield from _confirmed(connection, tally, "WHERE commits > ?", commit)
    _check_contents(tally, row)


def head(connection: sqlite3.Connection) -> Head:
    """The verified row of the study. Columns that an older format does not have are None."""
    rows = list(_rows(connection, "studies", _tally(connection)))
    if len(rows) != 1:
        raise FactError(f"the table studies has {len(rows)} rows, not one")
    return dict(zip(STUDY, rows[0], strict=True))


def _check_contents(tally: Tally | None, row: Head) -> None:
    if tally is not None and tally.total != row["contents"]:
        raise FactError("there are missing or extra rows: their checksums do not add up")


def _tally(connection: sqlite3.Connection, total: int = 0) -> Tally | None:
    """A tally to verify rows with; None for a file without checksums."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info (studies)")}
    if ("checksum" in columns) != (format_of(connection) >= 3):
        raise FactError("its format number does not match its tables")
    return Tally(total) if "checksum" in columns else None


def _rows(
    connection: sqlite3.Connection, table: str, tally: Tally | None, tail: str = "", *given: int
) -> Iterable[Row]:
    """The verified rows of a table, with its COLUMNS."""
    names, missing = COLUMNS[table].split(), missing_columns(connection, table)
    present = [name for name in names if name not in missing]
    listed = ", ".join(f'"{name}"' for name in (*present, *(["checksum"] if tally else ())))
    found = connection.execute(f"SELECT {listed} FROM {table} {tail}", given)
    rows: Iterable[Row] = tally.checked(table, found) if tally else found
    return rows if present == names else (_filled(names, present, row) for row in rows)


def _filled(names: Sequence[str], present: Sequence[str], row: Row) -> Row:
    """A row of an older file, with what its missing columns stand for."""
    values = dict(zip(present, row, strict=True))
    return tuple(values.get(name, DEFAULTS.get(name)) for name in names)


class Summary(NamedTuple):
    """A study in a few numbers."""

    runs: int
    max_budget: Fraction
    width: int
    evaluations: int
    objective: str | None


def summary(connection: sqlite3.Connection) -> Summary:
    """What a list of studies shows of each one. Does not read the evaluations."""
    runs = list(_rows(connection, "runs", _tally(connection), "ORDER BY run"))
    (evaluations,) = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    _, max_budget, _, _, width, *_ = runs[-1]
    objective = head(connection)["objective"]
    return Summary(len(runs), Fraction(max_budget), width, evaluations, objective)


def is_grown(row: Head, study: str, commit: int) -> bool:
    """Whether this is the study as of a commit, perhaps with facts added, but none removed."""
    return bool(row["study"] == study and row["commits"] >= commit >= (row["reopened"] or 0))


def read_commit(connection: sqlite3.Connection, commit: int) -> Iterator[JobFinished | Confirmed]:
    """The results of a commit."""
    tally, where = _tally(connection), "WHERE commits = ?"
    yield from (JobFinished(*row) for row in _evaluations(connection, tally, where, commit))
    yield from _confirmed(connection, tally, where, commit)


def _runs(
    connection: sqlite3.Connection,
    tally: Tally | None,
    first: int,
    evaluations: Iterator[Row],
) -> Iterator[Fact]:
    """The runs from the first one on, and evaluations after the start of their run. Evaluations
    ahead of the next run come last."""
    rows = list(_rows(connection, "runs", tally, "WHERE run >= ? ORDER BY run", first))
    started = [
        RunStarted(run, Fraction(high), strategy, width, brackets, _change(change))
        for run, high, strategy, _, width, brackets, change in rows
    ]
    for run, finished in groupby(evaluations, key=itemgetter(3)):
        while started and started[0].run <= run:
            yield started.pop(0)
        yield from (JobFinished(*row) for row in finished)
    yield from started


def _change(text: str | None) -> SpaceChange | None:
    if text is None:
        return None
    space, added, firsts = from_text(text)
    return SpaceChange(space, added, tuple(firsts))


def _drawn(
    connection: sqlite3.Connection,
    tally: Tally | None,
    where: str = "",
    *given: int,
    first: int = 0,
) -> Iterator[ConfigsDrawn]:
    """The configs of every bracket, from index `first` on."""
    rows = _rows(connection, "configs", tally, f'{where} ORDER BY bracket, "index"', *given)
    following: dict[int, int] = {}
    for (bracket, origin), drawn in groupby(rows, key=itemgetter(0, 3)):
        start = following.get(bracket, first)
        configs = tuple(_configs(drawn, start))
        following[bracket] = start + len(configs)
        yield ConfigsDrawn(bracket, start, configs, origin)


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _study(row: Head) -> StudyCreated:
    if not ID.fullmatch(row["study"]):  # "../.." would lead out of the study's folder
        raise FactError(f"its id {row['study']!r} is not a valid name of a folder")
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
        bool(row["whole_costs"]),
        bool(row["reuse_identical"]),
        row["parallel"],
    )


def _configs(rows: Iterable[Row], first: int) -> Iterator[Config]:
    for expected, (bracket, index, text, _) in enumerate(rows, first):
        config = from_text(text)
        if index != expected or not isinstance(config, dict):
            raise FactError(f"config {expected} of bracket {bracket} is missing or not an object")
        yield config


def _evaluations(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[Row]:
    """Evaluations by run and rung, so that a state can make promotions while it reads them."""
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


def _confirmed(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[Confirmed]:
    if format_of(connection) < FIRST_WITH_CONFIRMATIONS:
        return
    for row in _rows(connection, "confirmations", tally, where, *given):
        bracket, index, rung, repetition, loss, error, metrics, seconds, _, _ = row
        read = dict(from_text(metrics)) if metrics else None
        yield Confirmed(bracket, index, rung, repetition, loss, error, read, seconds)


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """The points of a learning curve. Infinity and NaN, which JSON does not have, are strings."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> int:
    """Insert rows with the values of all COLUMNS, and return the sum of their checksums."""
    sums = [checksum(table, row) for row in rows]
    marks = ", ".join("?" for _ in COLUMNS[table].split())
    connection.executemany(
        f"INSERT INTO {table} ({LISTED[table]}, checksum) VALUES ({marks}, ?)",
        [(*row, each) for row, each in zip(rows, sums, strict=True)],
    )
    return sum(sums)


def _now() -> str:
    """The current time in the format of SQLite's CURRENT_TIMESTAMP."""
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
        whole_costs=int(fact.whole_costs),
        reuse_identical=int(fact.reuse_identical),
        parallel=fact.parallel,
        space=to_text(fact.space),
        objective=None,
        created=_now(),
        reopened=0,
        contents=0,
    )


def _write_objective(_: sqlite3.Connection, facts: Sequence[ObjectiveNamed], row: _Open) -> None:
    row["objective"] = facts[-1].objective


def _write_runs(connection: sqlite3.Connection, facts: Sequence[RunStarted], row: _Open) -> None:
    rows = [
        (
            fact.run,
            str(fact.max_budget),
            fact.strategy,
            _now(),
            fact.width,
            fact.brackets,
            to_text(list(fact.change)) if fact.change else None,
        )
        for fact in facts
    ]
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
            _real(loss),
            error,
            to_text(metrics) if metrics else None,
            _real(seconds),
            resumed_from,
            to_text([list(map(_number, point)) for point in curve]) if curve else None,
            origin,
            now,
            row["commits"],
        )
        for (*key, loss, error, metrics, seconds, resumed_from, curve, origin) in facts
    ]
    row["contents"] += _insert(connection, "evaluations", rows)


def _real(value: float | None) -> float | None:
    """A number as SQLite returns it: it does not store -0.0."""
    return None if value is None else value + 0.0


def _write_confirmed(
    connection: sqlite3.Connection, facts: Sequence[Confirmed], row: _Open
) -> None:
    now = _now()
    rows = [
        (
            *fact.key,
            _real(fact.loss),
            fact.error,
            to_text(fact.metrics) if fact.metrics else None,
            _real(fact.seconds),
            now,
            row["commits"],
        )
        for fact in facts
    ]
    row["contents"] += _insert(connection, "confirmations", rows)


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
    Confirmed: _write_confirmed,
}
"""The functions that write facts of each type, and update the row of the study."""
