"""The tables of a study file, the version of their format, and the upgrade of older files.

Format 1 has neither origins nor commit numbers, and format 2 has no checksums; early files of it
have no origins. Format 3 has no width, number of brackets or change of the space in a run, and
format 4 has neither confirmations nor shared results, and no declared parallelism: samplers that
learn sampled groups of eight, to which eight virtual workers come closest. Format 5 has a single
objective, no constraints and no leases (`lease_rows.py`), format 6 has neither skipped promotions
nor stopped runs, and format 7 has no training that was stopped early. Older files are read as they
are and upgraded by the first write. Newer files are refused, because their facts may mean something
that this version does not know, such as a new kind of run.
"""

from __future__ import annotations

import sqlite3

from deepband.errors import FactError
from deepband.storage.checksums import checksum

FORMAT = 8
FIRST_WITH_CONFIRMATIONS = 5
FIRST_WITH_LEASES = 6
FIRST_WITH_SKIPS = 7
"""And with runs that were stopped."""
APPLICATION = 0x44454550  # "DEEP"

CONFIRMATIONS = """
CREATE TABLE IF NOT EXISTS confirmations (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    repetition INTEGER NOT NULL,
    loss REAL,
    error TEXT,
    metrics TEXT,
    seconds REAL,
    finished TEXT NOT NULL,
    commits INTEGER NOT NULL, -- the commit that it came with
    checksum INTEGER NOT NULL,
    PRIMARY KEY (bracket, "index", rung, repetition),
    FOREIGN KEY (bracket, "index", rung) REFERENCES evaluations (bracket, "index", rung)
) STRICT, WITHOUT ROWID
"""
"""What format 5 adds: evaluations with other seeds."""
LEASES = """
CREATE TABLE IF NOT EXISTS leases (
    bracket INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    token TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL, -- 0 if the lease does not end with a process
    started TEXT NOT NULL, -- when the process did
    until REAL NOT NULL, -- seconds since 1970; 0 if it was released
    commits INTEGER NOT NULL, -- the commit that it came with
    checksum INTEGER NOT NULL,
    PRIMARY KEY (bracket, "index", rung, token),
    FOREIGN KEY (bracket, "index") REFERENCES configs (bracket, "index")
) STRICT, WITHOUT ROWID
"""
"""What format 6 adds: the leases of jobs without a result."""
SKIPS = """
CREATE TABLE IF NOT EXISTS skips (
    run INTEGER NOT NULL,
    bracket INTEGER NOT NULL,
    rung INTEGER NOT NULL,
    "index" INTEGER NOT NULL,
    risk REAL NOT NULL, -- the probability that it would have become the best
    commits INTEGER NOT NULL, -- the commit that it came with
    checksum INTEGER NOT NULL,
    PRIMARY KEY (run, bracket, rung, "index")
) STRICT, WITHOUT ROWID
"""
"""What format 7 adds: promotions that were not evaluated."""
STOPS = """
CREATE TABLE IF NOT EXISTS stops (
    run INTEGER NOT NULL,
    commits INTEGER NOT NULL, -- the commit that it came with; the last one of a run counts
    risk REAL, -- the probability of a better config; NULL if the run continues
    checksum INTEGER NOT NULL,
    PRIMARY KEY (run, commits)
) STRICT, WITHOUT ROWID
"""
"""What format 7 also adds: runs that ended early."""
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
    whole_costs INTEGER NOT NULL, -- whether costs count the whole budgets that jobs carry
    reuse_identical INTEGER NOT NULL, -- whether equal configs share one result per rung
    parallel INTEGER NOT NULL, -- the number of virtual workers
    objectives TEXT, -- their names and directions, if they have names
    constraints TEXT, -- the bounds of metrics
    reopened INTEGER NOT NULL, -- the last commit that took evaluations back
    contents INTEGER NOT NULL, -- the sum of the checksums of all rows of the other tables
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    max_budget TEXT NOT NULL,
    strategy TEXT,
    started TEXT NOT NULL,
    brackets INTEGER, -- how many the run is limited to
    change TEXT, -- the search space from this run on, if it is another one
    width INTEGER NOT NULL,
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
    objectives TEXT, -- one loss for each of several objectives
    stopped_after REAL, -- the budget after which training was stopped early
    checksum INTEGER NOT NULL,
    PRIMARY KEY (bracket, "index", rung),
    FOREIGN KEY (bracket, "index") REFERENCES configs (bracket, "index")
) STRICT, WITHOUT ROWID;
CREATE INDEX evaluations_by_commit ON evaluations (commits);
{CONFIRMATIONS};
{LEASES};
{SKIPS};
{STOPS};
"""
NUMBER = "INTEGER NOT NULL DEFAULT 0"
ADDED = {
    "studies": {
        "reopened": NUMBER,
        "contents": NUMBER,
        "whole_costs": NUMBER,
        "reuse_identical": NUMBER,
        "parallel": "INTEGER NOT NULL DEFAULT 8",
        "objectives": "TEXT",
        "constraints": "TEXT",
        "checksum": NUMBER,
    },
    "runs": {
        "width": "INTEGER NOT NULL DEFAULT 1",
        "brackets": "INTEGER",
        "change": "TEXT",
        "checksum": NUMBER,
    },
    "configs": {"origin": "TEXT", "checksum": NUMBER},
    "evaluations": {
        "commits": NUMBER,
        "origin": "TEXT",
        "objectives": "TEXT",
        "stopped_after": "REAL",
        "checksum": NUMBER,
    },
}
"""Columns added after format 1, in the order of the upgrade."""
DEFAULTS = {"width": 1, "parallel": 8}
"""What columns that an older file does not have are read as, if not as NULL."""
INDEX = "CREATE INDEX IF NOT EXISTS evaluations_by_commit ON evaluations (commits)"

COLUMNS = {
    "studies": "study eta min_budget max_budget seed maximize integer_budgets sampler chunk space "
    "objective created commits reopened contents whole_costs reuse_identical parallel "
    "objectives constraints",
    "runs": "run max_budget strategy started width brackets change",
    "configs": "bracket index config origin",
    "evaluations": "bracket index rung run loss error metrics seconds resumed_from curve origin "
    "objectives stopped_after finished commits",
    "confirmations": "bracket index rung repetition loss error metrics seconds finished commits",
    "leases": "bracket index rung token host pid started until commits",
    "skips": "run bracket rung index risk commits",
    "stops": "run commits risk",
}
"""The columns that the checksum of a row covers, in this order: all but the checksum itself."""
STUDY = COLUMNS["studies"].split()
LISTED = {
    table: ", ".join(f'"{name}"' for name in names.split()) for table, names in COLUMNS.items()
}
"""The same columns as SQL."""
INSERT = {
    table: f"INSERT OR {'REPLACE' if table == 'leases' else 'ABORT'} INTO {table} "
    f"({LISTED[table]}, checksum) VALUES ({'?, ' * len(names.split())}?)"
    for table, names in COLUMNS.items()
}
THIS_JOB = 'WHERE bracket = ? AND "index" = ? AND rung = ?'
KEYS = {
    "runs": 1,
    "configs": 2,
    "evaluations": 3,
    "confirmations": 4,
    "leases": 4,
    "skips": 4,
    "stops": 2,
}
"""How many of these columns form the primary key, for every table except `studies`."""


REFERENCES = {
    "evaluations": ("configs", 2),
    "confirmations": ("evaluations", 3),
    "leases": ("configs", 2),
}
"""The table that each row of a table refers to, and by how many of its first columns."""


def check_references(connection: sqlite3.Connection) -> None:
    """Raise a FactError if a table says that it refers to something else. SQLite ignores that until
    it is asked to check references, and then fails."""
    for table, (parent, count) in REFERENCES.items():
        rows = connection.execute(f"PRAGMA foreign_key_list ({table})").fetchall()
        found = [tuple(str(each).lower() for each in row[2:5]) for row in sorted(rows)]
        expected = [(parent, name, name) for name in COLUMNS[table].split()[:count]]
        if found not in ([], expected):
            raise FactError(f"the definition of the table {table} is not that of any format")


def format_of(connection: sqlite3.Connection) -> int:
    """The format version of a file."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def missing_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The columns added after format 1 that a table does not have. The format number does not say:
    there are files of format 2 with and without origins."""
    if table not in ADDED or format_of(connection) >= FORMAT:
        return []
    present = {row[1] for row in connection.execute(f"PRAGMA table_info ({table})")}
    return [name for name in ADDED[table] if name not in present]


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade an older file to this format, within the current transaction."""
    connection.execute(CONFIRMATIONS)
    connection.execute(LEASES)
    connection.execute(SKIPS)
    connection.execute(STOPS)
    changed = {table: missing_columns(connection, table) for table in ADDED}
    for table, missing in changed.items():
        for name in missing:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {ADDED[table][name]}")
    connection.execute(INDEX)
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    for table in KEYS:
        if changed.get(table):
            _set_checksums(connection, table)
    totals = " + ".join(f"(SELECT coalesce(sum(checksum), 0) FROM {table})" for table in KEYS)
    connection.execute(f"UPDATE studies SET contents = {totals}")
    (row,) = connection.execute(f"SELECT {LISTED['studies']} FROM studies")
    connection.execute("UPDATE studies SET checksum = ?", (checksum("studies", row),))


def _set_checksums(connection: sqlite3.Connection, table: str) -> None:
    """Set the checksum of every row of a table."""
    rows = connection.execute(f"SELECT {LISTED[table]} FROM {table}").fetchall()
    where = " AND ".join(f"{name} = ?" for name in LISTED[table].split(", ")[: KEYS[table]])
    sums = [(checksum(table, row), *row[: KEYS[table]]) for row in rows]
    connection.executemany(f"UPDATE {table} SET checksum = ? WHERE {where}", sums)
