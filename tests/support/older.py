"""Study files of older formats."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

FORMATS = Path(__file__).parents[1] / "formats"
WRITTEN = sorted(FORMATS.glob("format_*.sqlite"))
"""A file of every format that was ever written, by the deepband of that time."""


def held_by(written: Path) -> list[dict[str, Any]]:
    """The evaluations of a written file, as its own deepband exported them."""
    return [json.loads(line) for line in written.with_suffix(".jsonl").read_text().splitlines()]


def make_format_2(place: Path) -> None:
    """A study file of format 2."""
    shutil.copy(FORMATS / "format_2.sqlite", place)


def turn_into_format_1(place: Path) -> None:
    """Remove from a study file what format 1 did not have."""
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(
            "DROP TABLE confirmations;"
            "DROP TABLE leases;"
            "DROP TABLE skips;"
            "DROP TABLE stops;"
            "ALTER TABLE studies DROP COLUMN reuse_identical;"
            "DROP INDEX evaluations_by_commit;"
            "ALTER TABLE evaluations DROP COLUMN commits;"
            "ALTER TABLE evaluations DROP COLUMN origin;"
            "ALTER TABLE evaluations DROP COLUMN checksum;"
            "ALTER TABLE configs DROP COLUMN origin;"
            "ALTER TABLE configs DROP COLUMN checksum;"
            "ALTER TABLE runs DROP COLUMN checksum;"
            "ALTER TABLE runs DROP COLUMN change;"
            "ALTER TABLE runs DROP COLUMN brackets;"
            "ALTER TABLE runs DROP COLUMN width;"
            "ALTER TABLE studies DROP COLUMN whole_costs;"
            "ALTER TABLE studies DROP COLUMN reopened;"
            "ALTER TABLE studies DROP COLUMN contents;"
            "ALTER TABLE studies DROP COLUMN checksum;"
            "PRAGMA user_version = 1;"
        )
