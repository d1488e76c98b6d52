"""The tables of a study file, the version of their format, and the upgrade of older files.

Format 1 has neither origins nor commit numbers, format 2 has no checksums, and early files of it
have no origins. Older files are read as they are and upgraded by the first write. A newer format
may add tables and columns, but must keep the meaning of these, checksums included: its files can
be read here, but not written.
"""

from __future__ import annotations

import sqlite3

from deepband.storage.checksums import checksum

FORMAT = 3
APPLICATION = 0x44454550  # "DEEP"

SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE studies (
    study TEXT PRIMARY KEY,
    eta INTEGER NOT NULL,
    min_budget TEXT NOT NULL,
    max_budget TEXT NOT NULL,
    seed TEXT NOT NULL,
    maximize INTEGER NOT NULL,
    integer_budgets INTEGER NOT NULL,
    sampler TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    space TEXT NOT NULL,
    objective TEXT,
    created TEXT NOT NULL,
    commits INTEGER NOT NULL,
    reopened INTEGER NOT NULL, -- the last commit that took evaluations back
    contents INTEGER NOT NULL, -- the sum of the checksums of all rows of the other tables
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    max_budget TEXT NOT NULL,
    strategy TEXT,
    started TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE configs (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    config TEXT NOT NULL,
    origin TEXT, -- of one that the sampler did not draw
    checksum INTEGER NOT NULL,
    PRIMARY KEY (bracket, "index")
) STRICT, WITHOUT ROWID;
CREATE TABLE evaluations (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    run INTEGER NOT NULL, -- one beyond the last of runs for what is ahead
    loss REAL,
    error TEXT,
    metrics TEXT,
    seconds REAL,
    resumed_from INTEGER,
    curve TEXT,
    finished TEXT NOT NULL,
    commits INTEGER NOT NULL, -- the commit that it came with
    origin TEXT, -- of one that was made elsewhere
    checksum INTEGER NOT NULL,
    PRIMARY KEY (bracket, "index", rung),
    FOREIGN KEY (bracket, "index") REFERENCES configs (bracket, "index")
) STRICT, WITHOUT ROWID;
CREATE INDEX evaluations_by_commit ON evaluations (commits);
"""
NUMBER = "INTEGER NOT NULL DEFAULT 0"
ADDED = {
    "studies": {"reopened": NUMBER, "contents": NUMBER, "checksum": NUMBER},
    "runs": {"checksum": NUMBER},
    "configs": {"origin": "TEXT", "checksum": NUMBER},
    "evaluations": {"commits": NUMBER, "origin": "TEXT", "checksum": NUMBER},
}
"""Columns added after format 1, in the order of the upgrade."""
INDEX = "CREATE INDEX IF NOT EXISTS evaluations_by_commit ON evaluations (commits)"

COLUMNS = {
    "studies": "study eta min_budget max_budget seed maximize integer_budgets sampler chunk space "
    "objective created commits reopened contents",
    "runs": "run max_budget strategy started",
    "configs": "bracket index config origin",
    "evaluations": "bracket index rung run loss error metrics seconds resumed_from curve origin "
    "finished commits",
}
"""The columns that the checksum of a row covers, in this order: all but the checksum itself."""
LISTED = {
    table: ", ".join(f'"{name}"' for name in names.split()) for table, names in COLUMNS.items()
}
"""The same columns as SQL."""
KEYS = {"runs": 1, "configs": 2, "evaluations": 3}
"""How many of these columns form the primary key, for every table except `studies`."""


def format_of(connection: sqlite3.Connection) -> int:
    """The format version of a file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def missing_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns added after format 1 that a table does not have. The format number does not say:
    there are files of format 2 with and without origins."""
    present = {row[1] for row in connection.execute(f"PRAGMA table_info ({table})")}
    return [name for name in ADDED[table] if name not in present]


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade an older file to this format, within the current transaction."""
    for table in ADDED:
        for name in missing_columns(connection, table):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {ADDED[table][name]}")
    connection.execute(INDEX)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    contents = sum(_add_checksums(connection, table) for table in KEYS)
    connection.execute("UPDATE studies SET contents = ?", (contents,))
    (row,) = connection.execute(f"SELECT {LISTED['studies']} FROM studies")
    connection.execute("UPDATE studies SET checksum = ?", (checksum("studies", row),))


def _add_checksums(connection: sqlite3.Connection, table: str) -> int:
    """Set the checksum of every row of a table, and return their sum."""
    rows = connection.execute(f"SELECT {LISTED[table]} FROM {table}").fetchall()
    where = " AND ".join(f"{name} = ?" for name in LISTED[table].split(", ")[: KEYS[table]])
    sums = [(checksum(table, row), *row[: KEYS[table]]) for row in rows]
    connection.executemany(f"UPDATE {table} SET checksum = ? WHERE {where}", sums)
    return sum(each for each, *_ in sums)
