"""Checks of the files that SQLite keeps beside a study, before SQLite opens them.

SQLite opens `mlp.study-journal` by name and executes it. In a study from an untrusted source it
may be a FIFO, which blocks forever, or name a "super-journal", which belongs to a transaction over
several databases and which SQLite deletes after rolling back: that could be any file. A study is
one database, so its journal never names one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deepband.errors import StorageError
from deepband.system import plain_files

SIDES = ("-journal", "-wal", "-shm")
MAGIC = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of every journal, and the last bytes of one that names a super-journal: name,
length, checksum and this (SQLite file format, section 3.2)."""


def journal_of(study: Path) -> Path:
    """The journal of a commit that is being written, or was interrupted."""
    return study.with_name(study.name + "-journal")


def check_sides(study: Path) -> None:
    """Raise a StorageError for a file beside a study that SQLite must not open."""
    for side in (study.with_name(study.name + suffix) for suffix in SIDES):
        try:
            mode = side.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise StorageError(side, "is not a regular file, so SQLite did not make it. Delete it.")
        if _names_another(side):
            raise StorageError(
                side,
                "is a journal that names another file, which SQLite would delete. Studies do not "
                "have such journals: delete it, and do not trust where it came from.",
            )


def _names_another(journal: Path) -> bool:
    try:
        descriptor = plain_files.open_file(journal.parent.resolve(), journal.name)
    except OSError:  # it is gone by now, or SQLite cannot read it either
        return False
    with open(descriptor, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(MAGIC)))
        return size > len(MAGIC) and file.read() == MAGIC
