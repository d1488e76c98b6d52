"""Connections to a study file: waiting while another program has locked it, transactions, and the
end of a connection."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from deepband.errors import BusyWarning, show_warning
from deepband.system import interrupts

BUSY_SECONDS = 2.0
"""How long another program may lock the file before the user is warned. deepband's own readers
release it sooner, unless a study is very large."""
SECONDS_TO_GIVE_UP = 30.0
"""How long a page waits. It only reads, and tries again anyway."""
LOCKS = Path("/proc/locks")
SECONDS_PER_ATTEMPT = 0.2
"""How long SQLite itself waits for a lock, during which it ignores Ctrl-C."""

Result = TypeVar("Result")


class _Connection(sqlite3.Connection):
    """A connection that releases the file when it is closed. A cursor that is still referenced,
    such as by a traceback, would otherwise keep the file locked."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def execute(self, *given: Any) -> sqlite3.Cursor:
        cursor = super().execute(*given)
        self._cursors.add(cursor)
        return cursor

    def close(self) -> None:
        for cursor in list(self._cursors):
            cursor.close()
        super().close()


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection to an existing file. Any thread may use it, one at a time."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        timeout=SECONDS_PER_ATTEMPT,
        check_same_thread=False,
        factory=_Connection,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = EXTRA")
    except BaseException:
        connection.close()
        raise
    return connection


def patiently(path: Path, action: Callable[[], Result], gives_up: bool = False) -> Result:
    """The result of an action, which is repeated while another program has locked the file. The
    user is warned once and can interrupt the wait. An action that meets the lock must undo what it
    did, so that readers get in between two attempts."""
    start, warned = time.monotonic(), False
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            waited = time.monotonic() - start
            if not _is_busy(error) or (gives_up and waited >= SECONDS_TO_GIVE_UP):
                raise
        if waited >= BUSY_SECONDS and not warned and not gives_up:
            show_warning(
                f"{path} is locked by another program{_holder(path)}, such as a backup or an open "
                "sqlite3 shell. Nothing is lost; deepband waits until the lock is released. To "
                "stop instead, press Ctrl-C (twice during optimize).",
                BusyWarning,
            )
            warned = True
        interrupts.check()
        time.sleep(SECONDS_PER_ATTEMPT)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Commit everything that this block writes, or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def close_writer(
    connection: sqlite3.Connection, process: int, path: Path, identity: tuple[int, int]
) -> None:
    """Close a connection for writing, but not in a forked child: that would roll back its parent's
    commit. A journal that was kept is deleted, unless another process is writing or the file has
    gone."""
    if os.getpid() != process:
        return
    with suppress(OSError, sqlite3.Error):
        found = os.stat(path)
        if (found.st_dev, found.st_ino) == identity:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    connection.close()


def sync_folder(folder: Path) -> None:
    """Make a rename within a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str:
    """The process that has locked a file, for a message; empty if the kernel does not say. Asking
    with a descriptor of the file is not an option: closing it would release our own locks."""
    with suppress(OSError, ValueError, IndexError):
        found = os.stat(path)
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        locks = [line.split() for line in LOCKS.read_text().splitlines()]
        pids = {int(lock[4]) for lock in locks if lock[1] == "POSIX" and lock[5] == device}
        pid = min(each for each in pids if each not in (0, os.getpid()))
        return f" (process {pid})"
    return ""


def _is_busy(error: sqlite3.OperationalError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary result code
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
