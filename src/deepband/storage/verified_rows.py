"""The rows of a study file, each compared with its checksum and completed for older formats."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from deepband.errors import FactError
from deepband.storage.checksums import Row, Tally
from deepband.storage.schema import COLUMNS, DEFAULTS, format_of, missing_columns


def tally_of(connection: sqlite3.Connection, total: int = 0) -> Tally | None:
    """A tally to verify rows with; None for a file without checksums."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info (studies)")}
    if ("checksum" in columns) != (format_of(connection) >= 3):
        raise FactError("its format number does not match its tables")
    return Tally(total) if "checksum" in columns else None


def verified_rows(
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


def check_contents(tally: Tally | None, contents: int) -> None:
    """Raise a FactError unless the checksums of all rows add up to those of the study."""
    if tally is not None and tally.total != contents:
        raise FactError("there are missing or extra rows: their checksums do not add up")
