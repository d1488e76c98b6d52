"""Facts as they are written into rows of plain tables, each with its checksum."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from deepband.core.facts import (
    ConfigsDrawn,
    Confirmed,
    Fact,
    JobFinished,
    JobSkipped,
    JobsLeased,
    JobsReopened,
    ObjectiveNamed,
    RunStarted,
    RunStopped,
    StudyCreated,
)
from deepband.storage import lease_rows
from deepband.storage.checksums import Row, checksum
from deepband.storage.schema import FORMAT, INSERT, STUDY, THIS_JOB
from deepband.storage.study_head import Head
from deepband.storage.tagged_json import to_text

_Open: TypeAlias = dict[str, Any]
"""The row of the study while a commit is being written."""


def write(connection: sqlite3.Connection, facts: Iterable[Fact], head: Head | None) -> Head | None:
    """Write facts within the current transaction, and return the new row of the study. `head` is
    the row before, if there was one; None means that it has changed and nothing may be written."""
    row = dict(head) if head else {"format": FORMAT, "leased": 0}
    row["commits"] = row.get("commits", 0) + 1
    for kind, same in groupby(facts, key=type):
        _WRITE[kind](connection, list(same), row)
    values = tuple([row[name] for name in STUDY])
    row["checksum"] = checksum("studies", values)
    if head is None:
        _insert(connection, "studies", [values])
        return row
    cursor = connection.execute(
        "UPDATE studies SET objective = ?, commits = ?, reopened = ?, contents = ?, checksum = ? "
        "WHERE commits = ? AND checksum = ?",
        (
            *(row[name] for name in ("objective", "commits", "reopened", "contents", "checksum")),
            head["commits"],
            head["checksum"],
        ),
    )
    return row if cursor.rowcount == 1 else None


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> int:
    """Insert rows with the values of all COLUMNS, and return the sum of their checksums."""
    sums = [checksum(table, row) for row in rows]
    checked = [(*row, each) for row, each in zip(rows, sums, strict=True)]
    connection.executemany(INSERT[table], checked)
    return sum(sums)


def _now() -> str:
    """The current time in the format of SQLite's CURRENT_TIMESTAMP."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())


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
        objectives=json.dumps(fact.objectives) if fact.objectives else None,
        constraints=json.dumps(fact.constraints) if fact.constraints else None,
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
            None if isinstance(loss, tuple) else _real(loss),
            error,
            to_text(metrics) if metrics else None,
            _real(seconds),
            resumed_from,
            to_text([list(map(_number, point)) for point in curve]) if curve else None,
            origin,
            json.dumps(list(map(_number, loss))) if isinstance(loss, tuple) else None,
            stopped,
            now,
            row["commits"],
        )
        for (*key, loss, error, metrics, seconds, resumed_from, curve, stopped, origin) in facts
    ]
    row["contents"] += _insert(connection, "evaluations", rows)
    _count_leases(row, lease_rows.forget(connection, [fact[:3] for fact in facts]))


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


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
            None if isinstance(fact.loss, tuple) else _real(fact.loss),
            fact.error,
            to_text(fact.metrics) if fact.metrics else None,
            _real(fact.seconds),
            now,
            row["commits"],
        )
        for fact in facts
    ]
    row["contents"] += _insert(connection, "confirmations", rows)


def _write_skipped(connection: sqlite3.Connection, facts: Sequence[JobSkipped], row: _Open) -> None:
    rows = [
        (fact.run, fact.bracket, fact.rung, fact.index, fact.risk, row["commits"]) for fact in facts
    ]
    row["contents"] += _insert(connection, "skips", rows)


def _write_stopped(connection: sqlite3.Connection, facts: Sequence[RunStopped], row: _Open) -> None:
    rows = [(fact.run, row["commits"], fact.risk) for fact in facts]
    row["contents"] += _insert(connection, "stops", rows)


def _write_leased(connection: sqlite3.Connection, facts: Sequence[JobsLeased], row: _Open) -> None:
    _count_leases(row, lease_rows.write(connection, facts, row["commits"]))


def _count_leases(row: _Open, difference: int) -> None:
    """Update the sum of the checksums of leases, and that of all rows."""
    row["leased"] += difference
    row["contents"] += difference


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
    JobSkipped: _write_skipped,
    RunStopped: _write_stopped,
    JobsReopened: _write_reopened,
    Confirmed: _write_confirmed,
    JobsLeased: _write_leased,
}
"""The functions that write facts of each type, and update the row of the study."""
