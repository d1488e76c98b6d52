"""The facts that were committed since a study was read, for processes that follow it."""

from __future__ import annotations

import sqlite3

from deepband.core.facts import Confirmed, Fact, JobFinished, JobSkipped, RunStopped
from deepband.core.state import State
from deepband.storage import row_reader
from deepband.storage.study_head import Head, read_head


def read_news(
    connection: sqlite3.Connection, state: State, known: Head | None
) -> tuple[list[Fact], Head] | None:
    """The facts that were added since the state was read, and the row of the study now; `known` is
    what it was then. None if the state must be rebuilt, because facts in it were removed or cannot
    be confirmed."""
    row = read_head(connection)
    known = known or row
    commit, contents = known["commits"], known["contents"]
    if not _is_grown(row, state.created.study, commit):
        return None
    if row["commits"] == commit:
        return [], row  # with checksums, if the file was upgraded
    if known["format"] != row["format"]:  # read in a format whose checksums say nothing now
        return None
    last = row_reader.read_commit(connection, commit)
    if any(_held(state, each) != each for each in last):
        return None  # a backup was restored and continued
    drawn, contents = [len(configs) for configs in state.configs], contents - known["leased"]
    given = row, commit, contents, len(state.runs), drawn
    return list(row_reader.read_since(connection, *given)), row


def _is_grown(row: Head, study: str, commit: int) -> bool:
    """Whether this is the study as of a commit, perhaps with facts added, but none removed."""
    return bool(row["study"] == study and row["commits"] >= commit >= (row["reopened"] or 0))


def _held(
    state: State, result: JobFinished | JobSkipped | RunStopped | Confirmed
) -> JobFinished | JobSkipped | RunStopped | Confirmed | None:
    """What a state has in the place of a result."""
    if isinstance(result, Confirmed):
        return state.confirmations.get(result.key)
    if isinstance(result, JobSkipped):
        cell = result.bracket, result.rung
        run = state.runs[result.run] if result.run < len(state.runs) else None
        risk = run.skipped.get(cell, {}).get(result.index) if run else None
        return None if risk is None else result._replace(risk=risk)
    if isinstance(result, RunStopped):
        run = state.runs[result.run] if result.run < len(state.runs) else None
        return RunStopped(result.run, run.stopped) if run else None
    return state.result(result.bracket, result.index, result.rung)
