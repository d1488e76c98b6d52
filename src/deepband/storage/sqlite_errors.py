"""What an error of SQLite, or of what was read, means for a study file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepband.errors import DeepbandError, FactError, StorageError, TornError

ADVICE = "See what is wrong with `deepband doctor`, and continue with a backup of it."
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def complaints(path: Path, kept: str = "", journal: Path | None = None) -> Iterator[None]:
    """Raise what happens within as a StorageError that says what it means. `kept` says what
    became of what was to be written; a reader names the `journal` that a torn commit leaves."""
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
    except Exception as error:  # a value that means nothing
        if kept:  # nothing was read: this is a mistake of ours
            raise
        text = "its schema is not text" if isinstance(error, UnicodeDecodeError) else repr(error)
        raise StorageError(path, f"is damaged: {text}. {ADVICE}") from error


def _meaning(error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
        return f"is not a whole study file: {text}. {ADVICE}"
    if "no such" in text or "Could not decode" in text:
        return f"is damaged: {text}. {ADVICE}"
    return f"cannot be used now: {text}."
