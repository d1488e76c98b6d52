"""The files that SQLite keeps beside a study, checked before SQLite opens them.

SQLite opens `mlp.study-journal` by its name and does what it says. From somebody else, it could be
a FIFO, which would block forever, or name a "super-journal": a file of a transaction over several
databases, which SQLite deletes when it has rolled back. Any file could be named there. A study is
one database, so a journal of ours never names any.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deepband.errors import StorageError
from deepband.system import plain_files

SIDES = ("-journal", "-wal", "-shm")
LONGEST = max(map(len, (*SIDES, ".files")))
MAGIC = bytes.fromhex("d9d505f920a163d7")
"""How a journal begins, and how one ends that names a super-journal: the last bytes of the file
are the name, its length, its checksum and this (SQLite's file format, section 3.2)."""


def check_sides(study: Path) -> None:
    """Raise a StorageError for a file beside a study that SQLite must not open."""
    for side in (study.with_name(study.name + suffix) for suffix in SIDES):
        try:
            mode = side.lstat().st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(mode):
            raise StorageError(side, "is not a regular file: SQLite did not make it. Delete it.")
        if _names_another(side):
            raise StorageError(
                side,
                "is a journal that names another file, which SQLite would delete. No study has "
                "such a journal: delete it, and do not trust where it came from.",
            )


def check_name(study: Path) -> None:
    """Raise a StorageError for a name that leaves no room for those of the files beside it."""
    try:
        most = os.pathconf(study.parent, "PC_NAME_MAX")
    except (OSError, ValueError):  # no such folder, or one that cannot tell
        return
    size = len(os.fsencode(study.name))
    if size + LONGEST > most:
        raise StorageError(
            study,
            f"has a name of {size} bytes. The files beside it need {LONGEST} more, and names have "
            f"{most} at most here: give one of {most - LONGEST} or less.",
        )


def _names_another(journal: Path) -> bool:
    try:
        descriptor = plain_files.open_file(journal.parent.resolve(), journal.name)
    except OSError:  # it is gone by now, or SQLite cannot read it, either
        return False
    with open(descriptor, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(MAGIC)))
        return size > len(MAGIC) and file.read() == MAGIC
