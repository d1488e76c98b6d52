"""Whether a file is a study, whole, and of a format that may be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from deepband.core.state import State
from deepband.errors import FactError, StorageError
from deepband.storage import codec
from deepband.storage.schema import APPLICATION, FORMAT, format_of
from deepband.storage.sqlite_errors import ADVICE

CODE = "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')"
"""What would run whenever a study is read or written."""


def check_ours(connection: sqlite3.Connection, path: Path, writing: bool) -> None:
    """Refuse a file that is not a study, is cut short, or may not be written."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    size = path.stat().st_size
    if size == 0:
        raise StorageError(path, "is empty, not a study. Delete it or give another path.")
    if application != APPLICATION:
        raise StorageError(path, "is an SQLite file, but not a deepband study.")
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if size != page * pages:
        raise StorageError(
            path, f"is damaged: it should have {page * pages} bytes and has {size}. {ADVICE}"
        )
    (code,) = connection.execute(CODE).fetchone()
    if code:
        raise StorageError(path, "has views or triggers, which deepband does not write: refused.")
    version = format_of(connection)
    if version < 1:
        raise StorageError(path, f"is damaged: it has no format {version}. {ADVICE}")
    if writing and version > FORMAT:
        raise StorageError(
            path,
            f"was written by a newer deepband (format {version}; this one writes {FORMAT}). It "
            "can be read, but not written: update deepband.",
        )


def check_whole(connection: sqlite3.Connection) -> None:
    """Raise a FactError for a file that is damaged: writing would make it worse. All of an older
    one is checked, before its rows get the checksums that say they are good."""
    older = format_of(connection) < FORMAT
    for problem in problems(connection) if older else _damaged_pages(connection, 1):
        raise FactError(problem)


def problems(connection: sqlite3.Connection) -> list[str]:
    """All that is wrong with a study: its pages, references, checksums and facts."""
    found = _damaged_pages(connection, 20)
    for table, _, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        found.append(f"a row of {table} refers to a row of {parent} that is not there")
    try:
        State(list(codec.read(connection)))  # all rows are checked before any is made sense of
    except Exception as error:
        found.append(f"its facts cannot be read: {error}")
    return found


def _damaged_pages(connection: sqlite3.Connection, most: int) -> list[str]:
    """What SQLite finds wrong with pages, rows and indexes."""
    found = [text for (text,) in connection.execute(f"PRAGMA integrity_check ({most})")]
    return [] if found == ["ok"] else found
