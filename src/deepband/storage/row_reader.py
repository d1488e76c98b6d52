"""Facts as they are read from rows of plain tables. Files of every format stay readable.

Every row that is read is compared with its checksum, and a complete study with the sum of them.
Files older than format 3 have no checksums.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    ObjectiveNamed,
    RunStarted,
    SpaceChange,
    StudyCreated,
)
from deepband.errors import FactError
from deepband.storage.checksums import Row, Tally
from deepband.storage.schema import (
    COLUMNS,
    DEFAULTS,
    STUDY,
    check_references,
    format_of,
    missing_columns,
)
from deepband.storage.tagged_json import from_text

Head: TypeAlias = Mapping[str, Any]
"""The row of the study, by column."""
ID = re.compile("[0-9A-Za-z]{1,64}")
"""What the id of a study may look like: it is also the name of a folder."""
FIRST_WITH_CONFIRMATIONS = 5


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
    check_references(connection)
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
