"""Study files of older formats."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

FORMATS = Path(__file__).parents[1] / "formats"
HELD = (FORMATS / "format_2.jsonl").read_text().splitlines()
"""The evaluations of the file of format 2."""


def make_format_2(place: Path) -> None:
    """A study file of format 2."""
    shutil.copy(FORMATS / "format_2.sqlite", place)


def turn_into_format_1(place: Path) -> None:
    """Remove from a study file what format 1 did not have."""
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(
            "DROP INDEX evaluations_by_commit;"
            "ALTER TABLE evaluations DROP COLUMN commits;"
            "ALTER TABLE evaluations DROP COLUMN origin;"
            "ALTER TABLE evaluations DROP COLUMN checksum;"
            "ALTER TABLE configs DROP COLUMN origin;"
            "ALTER TABLE configs DROP COLUMN checksum;"
            "ALTER TABLE runs DROP COLUMN checksum;"
            "ALTER TABLE studies DROP COLUMN reopened;"
            "ALTER TABLE studies DROP COLUMN contents;"
            "ALTER TABLE studies DROP COLUMN checksum;"
            "PRAGMA user_version = 1;"
        )
