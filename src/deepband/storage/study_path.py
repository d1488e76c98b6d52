"""The path of a study: which ones are valid, and what may be there and beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deepband.errors import StorageError, shown
from deepband.storage.sidecars import SIDES, check_sides, journal_of

LONGEST = max(map(len, (*SIDES, ".files")))


def read_path(given: Any) -> Path:
    """The absolute path of a study, or a StorageError if it cannot be one."""
    try:
        text = os.fspath(given)
        path = Path(os.path.abspath(text))
        str(path).encode()
        path.is_symlink()
    except (TypeError, ValueError, OSError) as error:
        raise StorageError(shown(given), f"is not a valid study path: {error}.") from error
    if not isinstance(text, str) or not path.name or text.endswith("/") or "\0" in text:
        raise StorageError(shown(given), "is not a valid study path: give one like 'mlp.study'.")
    return path


def check_name(study: Path) -> None:
    """Raise a StorageError for a name that is too long once a suffix is added."""
    try:
        most = os.pathconf(study.parent, "PC_NAME_MAX")
    except (OSError, ValueError):  # there is no such folder, or its file system sets no limit
        return
    size = len(os.fsencode(study.name))
    if size + LONGEST > most:
        raise StorageError(
            study,
            f"has a name of {size} bytes. Files beside it need {LONGEST} more, and the limit here "
            f"is {most}: give a name of at most {most - LONGEST} bytes.",
        )


def check_path(study: Path, files: Path) -> None:
    """Raise a StorageError if there is something else at the path of a study, or beside it."""
    if study.is_symlink():
        raise StorageError(study, "is a symbolic link. Give the path of the file itself.")
    if study.exists() and not study.is_file():
        raise StorageError(study, "is not a file. Give the path of a study file.")
    if not study.parent.is_dir():
        raise StorageError(study, f"the folder {study.parent} does not exist.")
    if files.is_symlink():
        raise StorageError(
            files,
            "is a symbolic link to a folder with another name. Only links to a folder of the "
            "same name are followed: move the study together with its folder instead.",
        )
    check_sides(study)
    journal = journal_of(study)
    if journal.exists() and not study.exists():
        raise StorageError(
            study,
            f"does not exist, but its journal {journal.name} does. Put the study back "
            "beside it, or delete the journal.",
        )
