"""The rows of leases: one for each leased job and token, until the job has a result.

Unlike other rows, they are replaced and removed. The sum of their checksums is therefore computed
from the table whenever it is needed, while that of other rows only grows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from deepband.core.facts import JobKey, JobsLeased, Owner
from deepband.storage.checksums import Row, checksum
from deepband.storage.schema import INSERT, THIS_JOB


def total(connection: sqlite3.Connection) -> int:
    """The sum of the checksums of all rows."""
    (found,) = connection.execute("SELECT coalesce(sum(checksum), 0) FROM leases").fetchone()
    return int(found)


def write(connection: sqlite3.Connection, facts: Iterable[JobsLeased], commit: int) -> int:
    """Write leases in place of those with the same job and token, and return by how much the sum
    of checksums changes."""
    before = total(connection)
    rows = [
        (*key, fact.token, *fact.owner, float(fact.until), commit)
        for fact in facts
        for key in fact.jobs
    ]
    connection.executemany(INSERT["leases"], [(*row, checksum("leases", row)) for row in rows])
    return total(connection) - before


def forget(connection: sqlite3.Connection, jobs: Sequence[JobKey]) -> int:
    """Remove the leases of jobs that have a result now, and return by how much the sum of checksums
    changes."""
    if connection.execute("SELECT 1 FROM leases LIMIT 1").fetchone() is None:
        return 0  # nearly always
    before = total(connection)
    connection.executemany(f"DELETE FROM leases {THIS_JOB}", jobs)
    return total(connection) - before


def read(row: Row) -> JobsLeased:
    """The lease that a verified row describes."""
    bracket, index, rung, token, host, pid, started, until, _ = row
    return JobsLeased(((bracket, index, rung),), token, Owner(host, pid, started), until)
