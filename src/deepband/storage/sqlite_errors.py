"""Errors of SQLite, the file system and damaged data as StorageErrors that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepband.errors import DeepbandError, FactError, StorageError, TornError

ADVICE = "Run `deepband doctor` to see what is wrong, and continue with a backup."
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def storage_errors(path: Path, kept: str = "", journal: Path | None = None) -> Iterator[None]:
    """Raise errors of this block as StorageErrors. Writers say in `kept` what became of their
    data; readers pass the `journal` that an interrupted commit leaves behind."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if journal is not None and "readonly" in str(error) and journal.exists():
            raise TornError(path) from error
        raise StorageError(path, f"{_meaning(error)} {kept}".rstrip()) from error
    except OSError as error:
        raise StorageError(path, f"cannot be used now: {error}. {kept}".rstrip()) from error
    except FactError as error:
        raise StorageError(path, f"is damaged: {error}. {ADVICE}") from error
    except DeepbandError:
        raise
    except Exception as error:
        if kept:  # nothing was read, so this is a bug in deepband
            raise
        text = "its schema is not text" if isinstance(error, UnicodeDecodeError) else repr(error)
        raise StorageError(path, f"is damaged: {text}. {ADVICE}") from error


def _meaning(error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
        return f"is not an intact study file: {text}. {ADVICE}"
    if "no such" in text or "Could not decode" in text:
        return f"is damaged: {text}. {ADVICE}"
    return f"cannot be used now: {text}."
