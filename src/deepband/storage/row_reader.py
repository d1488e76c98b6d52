"""Facts as they are read from rows of plain tables. Files of every format stay readable.

Every row that is read is compared with its checksum, and a complete study with the sum of them.
Files older than format 3 have no checksums.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

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
)
from deepband.errors import FactError
from deepband.storage import lease_rows
from deepband.storage.checksums import Row, Tally
from deepband.storage.schema import (
    FIRST_WITH_CONFIRMATIONS,
    FIRST_WITH_LEASES,
    FIRST_WITH_SKIPS,
    format_of,
)
from deepband.storage.study_head import Head, read_head, study_created
from deepband.storage.tagged_json import from_text
from deepband.storage.verified_rows import check_contents, tally_of, verified_rows


def read(connection: sqlite3.Connection) -> Iterator[Fact]:
    """All facts of the study, in an order in which a state can apply them."""
    tally, row = tally_of(connection), read_head(connection)
    yield study_created(row)
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    yield from _runs(connection, tally, 0, _outcomes(connection, tally))
    yield from _drawn(connection, tally)
    yield from _stopped(connection, tally)
    yield from _confirmed(connection, tally)
    yield from _leased(connection, tally)
    check_contents(tally, row["contents"])


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
    tally = tally_of(connection, contents + row["leased"])
    if row["objective"] is not None:
        yield ObjectiveNamed(row["objective"])
    outcomes = _outcomes(connection, tally, "WHERE commits > ?", commit)
    yield from _runs(connection, tally, runs, outcomes)
    known = [each for place in enumerate(drawn) for each in place]
    new = '(bracket = ? AND "index" >= ?) OR ' * len(drawn) + "bracket >= ?"
    yield from _drawn(connection, tally, f"WHERE {new}", *known, len(drawn), firsts=drawn)
    yield from _stopped(connection, tally, "WHERE commits > ?", commit)
    yield from _confirmed(connection, tally, "WHERE commits > ?", commit)
    check_contents(tally, row["contents"])
    yield from _leased(connection, Tally(), "WHERE commits > ?", commit)


class Summary(NamedTuple):
    """A study in a few numbers."""

    runs: int
    max_budget: Fraction
    width: int
    evaluations: int
    objective: str | None


def summary(connection: sqlite3.Connection) -> Summary:
    """What a list of studies shows of each one. Does not read the evaluations."""
    runs = list(verified_rows(connection, "runs", tally_of(connection), "ORDER BY run"))
    (evaluations,) = connection.execute("SELECT count(*) FROM evaluations").fetchone()
    _, max_budget, _, _, width, *_ = runs[-1]
    objective = read_head(connection)["objective"]
    return Summary(len(runs), Fraction(max_budget), width, evaluations, objective)


def read_commit(
    connection: sqlite3.Connection, commit: int
) -> Iterator[JobFinished | JobSkipped | RunStopped | Confirmed]:
    """The results, skips and stops of a commit."""
    tally, where = tally_of(connection), "WHERE commits = ?"
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
    rows = list(verified_rows(connection, "runs", tally, "WHERE run >= ? ORDER BY run", first))
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
    rows = verified_rows(connection, "skips", tally, f"{where} {order}", *given)
    skipped = (JobSkipped(b, index, rung, run, risk) for run, b, rung, index, risk, _ in rows)
    return merge(skipped, finished, key=itemgetter(3, 0, 2))


def _stopped(
    connection: sqlite3.Connection, tally: Tally | None, where: str = "", *given: int
) -> Iterator[RunStopped]:
    if format_of(connection) < FIRST_WITH_SKIPS:
        return
    tail = f"{where} ORDER BY commits, run"
    for run, _, risk in verified_rows(connection, "stops", tally, tail, *given):
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
    rows = verified_rows(connection, "configs", tally, f'{where} ORDER BY bracket, "index"', *given)
    following = dict(enumerate(firsts))
    for (bracket, origin), drawn in groupby(rows, key=itemgetter(0, 3)):
        start = following.get(bracket, 0)
        configs = tuple(_configs(drawn, start))
        following[bracket] = start + len(configs)
        yield ConfigsDrawn(bracket, start, configs, origin)


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
    for row in verified_rows(connection, "evaluations", tally, f"{where} {order}", *given):
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
    for row in verified_rows(connection, "confirmations", tally, where, *given):
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
        yield from map(lease_rows.read, verified_rows(connection, "leases", tally, where, *given))


def _curve(text: str) -> tuple[tuple[float, float], ...]:
    """The points of a learning curve. Infinity and NaN, which JSON does not have, are strings."""
    return tuple((float(step), float(loss)) for step, loss in json.loads(text))
