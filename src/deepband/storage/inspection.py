"""Checks of a study file: is it a study, is it intact, may this version write to it?"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deepband.core.state import State
from deepband.errors import FactError, StorageError
from deepband.storage import row_reader
from deepband.storage.schema import APPLICATION, FORMAT, format_of
from deepband.storage.sqlite_errors import ADVICE

CODE = "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')"
"""Views and triggers are code that would run whenever a study is read or written."""


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Raise a StorageError for a file that is not a study, is truncated, or may not be written."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    size = path.stat().st_size
    if size == 0:
        raise StorageError(path, "is empty, not a study. Delete it, or give another path.")
    if application != APPLICATION:
        raise StorageError(path, "is an SQLite file, but not a deepband study.")
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if size != page * pages:
        raise StorageError(
            path, f"is damaged: it has {size} bytes instead of {page * pages}. {ADVICE}"
        )
    (code,) = connection.execute(CODE).fetchone()
    if code:
        raise StorageError(
            path, "contains views or triggers, which deepband never writes. Do not trust this file."
        )
    version = format_of(connection)
    if version < 1:
        raise StorageError(path, f"is damaged: its format is {version}. {ADVICE}")
    if version > FORMAT:
        raise StorageError(
            path,
            f"was written by a newer version of deepband (format {version}; this version writes "
            f"format {FORMAT}). Update deepband to open it.",
        )


def check_whole(connection: sqlite3.Connection) -> None:
    """Raise a FactError for a damaged file, because writing to it would make it worse. A file of an
    older format is checked completely before its rows get checksums."""
    older = format_of(connection) < FORMAT
    for problem in problems(connection) if older else _damaged_pages(connection, 1):
        raise FactError(problem)


def problems(connection: sqlite3.Connection) -> list[str]:
    """Everything that is wrong with the pages, references, checksums and facts of a study."""
    found = _damaged_pages(connection, 20)
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        found.append(f"a row of {table} refers to a row of {parent} that is missing")
    try:
        State(list(row_reader.read(connection)))  # a list, so that all rows are verified first
    except Exception as error:
        found.append(f"its facts cannot be read: {error}")
    return found


def _damaged_pages(connection: sqlite3.Connection, most: int) -> list[str]:
    """The problems that SQLite finds in pages, rows and indexes."""
    found = [text for (text,) in connection.execute(f"PRAGMA integrity_check ({most})")]
    return [] if found == ["ok"] else found
