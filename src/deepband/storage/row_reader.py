"""Facts as they are read from rows of plain tables. Files of every format stay readable.

Every row that is read is compared with its checksum, and a complete study with the sum of them.
Files older than format 3 have no checksums.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from deepband.core.criteria import Criteria, read_criteria
from deepband.core.facts import (
    Config,
    ConfigsDrawn,
    Confirmed,
    Fact,
    JobFinished,
    JobSkipped,
    JobsLeased,
    ObjectiveNamed,
    RunStarted,
    RunStopped,
    SpaceChange,
    StudyCreated,
)
from deepband.errors import FactError, InputError
from deepband.storage import lease_rows
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
"""The row of the study, by column. Two entries are not stored: the `format` of the file, and as
`leased` the part of `contents` that belongs to leases, whose rows are removed one day."""
ID = re.compile("[0-9A-Za-z]{1,64}")
"""What the id of a study may look like: it is also the name of a folder."""
FIRST_WITH_CONFIRMATIONS = 5
FIRST_WITH_LEASES = 6
FIRST_WITH_SKIPS = 7
"""And with runs that were stopped."""


def read(connection: sqlite3.Connection) -> Iterator[Fact]:
    """All facts of the study, in an order in which a state can apply them."""
    tally, row = _tally(connection), head(connection)
    yield _study(row)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    yield from _runs(connection, tally, 0, _outcomes(connection, tally))
    yield from _drawn(connection, tally)
    yield from _stopped(connection, tally)
    yield from _confirmed(connection, tally)
    yield from _leased(connection, tally)
    _check_contents(tally, row)


def read_since(
    connection: sqlite3.Connection,
    row: Head,
    commit: int,
    contents: int,
    runs: int,
    drawn: Sequence[int],
) -> Iterator[Fact]:
    """The facts after a commit for a state that has `runs` runs and `drawn` configs per bracket.
    `row` is that of the study now, and `contents` was the sum of its checksums at that commit,
    without those of leases."""
    tally = _tally(connection, contents + row["leased"])
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    outcomes = _outcomes(connection, tally, "WHERE commits > ?", commit)
    yield from _runs(connection, tally, runs, outcomes)
    known = [each for place in enumerate(drawn) for each in place]
    new = '(bracket = ? AND "index" >= ?) OR ' * len(drawn) + "bracket >= ?"
    yield from _drawn(connection, tally, f"WHERE {new}", *known, len(drawn), firsts=drawn)
    yield from _stopped(connection, tally, "WHERE commits > ?", commit)
    yield from _confirmed(connection, tally, "WHERE commits > ?", commit)
    _check_contents(tally, row)
    yield from _leased(connection, Tally(), "WHERE commits > ?", commit)


def head(connection: sqlite3.Connection) -> Head:
    """The verified row of the study, and its format. Columns that an older format does not have are
    None."""
    check_references(connection)
    rows = list(_rows(connection, "studies", _tally(connection)))
    if len(rows) != 1:
        raise FactError(f"the table studies has {len(rows)} rows, not one")
    version = format_of(connection)
    leased = lease_rows.total(connection) if version >= FIRST_WITH_LEASES else 0
    return dict(zip(STUDY, rows[0], strict=True)) | {"format": version, "leased": leased}


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


def read_commit(
    connection: sqlite3.Connection, commit: int
) -> Iterator[JobFinished | JobSkipped | RunStopped | Confirmed]:
    """The results, skips and stops of a commit."""
    tally, where = _tally(connection), "WHERE commits = ?"
    yield from _outcomes(connection, tally, where, commit)
    yield from _stopped(connection, tally, where, commit)
    yield from _confirmed(connection, tally, where, commit)


def _runs(
    connection: sqlite3.Connection,
    tally: Tally | None,
    first: int,
    outcomes: Iterator[JobFinished | JobSkipped],
) -> Iterator[Fact]:
    """The runs from the first one on, and results and skips after the start of their run. Results
    ahead of the next run come last."""
    rows = list(_rows(connection, "runs", tally, "WHERE run >= ? ORDER BY run", first))
    started = [
        RunStarted(run, Fraction(high), strategy, width, brackets, _change(change))
        for run, high, strategy, _, width, brackets, change in rows
    ]
    for run, same in groupby(outcomes, key=itemgetter(3)):
        while started and started[0].run <= run:
            yield started.pop(0)
        yield from same
    yield from started


def _outcomes(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[JobFinished | JobSkipped]:
    """Results and skips in an order in which a state can apply them: by run, bracket and rung, and
    on a rung the skips first."""
    finished = (JobFinished(*row) for row in _evaluations(connection, tally, where, *given))
    if format_of(connection) < FIRST_WITH_SKIPS:
        return finished
    order = 'ORDER BY run, bracket, rung, "index"'
    rows = _rows(connection, "skips", tally, f"{where} {order}", *given)
    skipped = (JobSkipped(b, index, rung, run, risk) for run, b, rung, index, risk, _ in rows)
    return merge(skipped, finished, key=itemgetter(3, 0, 2))


def _stopped(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[RunStopped]:
    if format_of(connection) < FIRST_WITH_SKIPS:
        return
    for run, _, risk in _rows(connection, "stops", tally, f"{where} ORDER BY commits, run", *given):
        yield RunStopped(run, risk)


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
    firsts: Sequence[int] = (),
) -> Iterator[ConfigsDrawn]:
    """The configs of every bracket, from the first index of each on, by default 0."""
    rows = _rows(connection, "configs", tally, f'{where} ORDER BY bracket, "index"', *given)
    following = dict(enumerate(firsts))
    for (bracket, origin), drawn in groupby(rows, key=itemgetter(0, 3)):
        start = following.get(bracket, 0)
        configs = tuple(_configs(drawn, start))
        following[bracket] = start + len(configs)
        yield ConfigsDrawn(bracket, start, configs, origin)


def _study(row: Head) -> StudyCreated:
    if not ID.fullmatch(row["study"]):  # "../.." would lead out of the study's folder
        raise FactError(f"its id {row['study']!r} is not a valid name of a folder")
    criteria = _criteria(row)
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
        criteria.objectives,
        criteria.constraints,
    )


def _criteria(row: Head) -> Criteria:
    """The objectives and constraints of a study. They are checked like those that users give."""
    objectives, constraints = _pairs(row["objectives"]), _pairs(row["constraints"])
    maximize = None if objectives else bool(row["maximize"])
    try:
        found = read_criteria(maximize, objectives or None, constraints or None)
    except InputError as error:
        raise FactError(str(error)) from error
    if found.maximize != bool(row["maximize"]):
        raise FactError("the direction of its objective is ambiguous")
    return found


def _pairs(text: str | None) -> dict[Any, Any]:
    """The pairs in a JSON list, as a mapping."""
    pairs = [] if text is None else json.loads(text)
    found = dict(pairs)
    if not isinstance(pairs, list) or len(found) != len(pairs) or (text is not None and not pairs):
        raise FactError(f"{text!r} are not objectives or constraints")
    return found


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
        *key, loss, error, metrics, seconds, resumed_from, curve, origin, losses = row[:-3]
        stopped_after = row[-3]
        if stopped_after is not None and not (stopped_after > 0.0 and loss == math.inf):
            raise FactError(f"it was stopped after {stopped_after!r}, but has the loss {loss!r}")
        yield (
            *key,
            loss if losses is None else _losses(losses, loss, error),
            error,
            dict(from_text(metrics)) if metrics else None,
            seconds,
            resumed_from,
            _curve(curve) if curve else None,
            stopped_after,
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


def _losses(text: str, loss: float | None, error: str | None) -> tuple[float, ...]:
    """One loss for each of several objectives. Infinity, which JSON does not have, is a string."""
    losses = json.loads(text)
    valid = isinstance(losses, list) and all(map(_is_loss, losses))
    if not valid or loss is not None or error is not None:
        raise FactError(f"{text!r} are not losses")
    return tuple(map(float, losses))


def _is_loss(given: Any) -> bool:
    return given == "inf" or (type(given) in (int, float) and math.isfinite(given))


def _leased(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[JobsLeased]:
    if format_of(connection) >= FIRST_WITH_LEASES:
        yield from map(lease_rows.read, _rows(connection, "leases", tally, where, *given))


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """The points of a learning curve. Infinity and NaN, which JSON does not have, are strings."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))
