"""A storage in an SQLite file, for persistent studies.

A study is the file `mlp.study` and the folder `mlp.study.files`. One process at a time writes: it
has an operating-system lock on a file in the folder, which ends with the process however it dies.
Readers need no lock. Every commit is on disk before `append` returns (rollback journal,
synchronous EXTRA). Nothing that is read is executed, and nothing is written to a damaged file.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from deepband.core.facts import Fact, Note
from deepband.core.state import State
from deepband.errors import GoneError, StorageError, TornError
from deepband.storage import row_reader, row_writer
from deepband.storage.connections import close_writer, connect, patiently, sync_folder, transaction
from deepband.storage.driver_lock import DriverLock
from deepband.storage.inspection import check_ours, check_whole, problems
from deepband.storage.news import read_news
from deepband.storage.schema import FORMAT, SCHEMA, format_of, upgrade
from deepband.storage.sidecars import journal_of
from deepband.storage.sqlite_errors import storage_errors
from deepband.storage.study_head import Head, read_head
from deepband.storage.study_path import check_name, check_path, read_path
from deepband.system import plain_files


class SqliteStorage:
    """The facts of one study in one file. Use it from one thread at a time."""

    def __init__(self, path: str | os.PathLike[str], looks_only: bool = False) -> None:
        self.path = read_path(path)
        check_name(self.path)
        self._looks_only = looks_only
        self.files = plain_files.files_folder(self.path)
        self._lock = DriverLock(self.path, self.files)
        weakref.finalize(self, self._lock.release)  # even if the study itself is never closed
        self._connection: sqlite3.Connection | None = None
        self._end: weakref.finalize[..., SqliteStorage] | None = None
        """Closes the connection, even if the study itself is never closed."""
        self._identity: tuple[int, int] | None = None
        """Device and inode of the file that the connection writes to."""
        self._process = os.getpid()
        self._head: Head | None = None
        """The row of the study when it was last read or written here."""
        self._version: int | None = None
        """SQLite's number of the content that the connection for writing has seen."""
        self._keeps_journal = False
        """Whether the journal stays between the commits of the connection."""
        self._stale = False
        """Whether a commit failed, so that the file must be read to know its content."""

    def load(self) -> Iterable[Fact]:
        check_path(self.path, self.files)
        if not self.path.exists():
            return []
        try:
            return self._read()
        except TornError:  # a living writer would have rolled it back already
            if self._looks_only:
                raise
        with storage_errors(self.path):
            patiently(self.path, self._roll_back)
        return self._read()

    def news(self, state: State) -> list[Fact] | None:
        """The facts that were added since the state was read here. None if the state must be
        rebuilt, because facts in it were removed or cannot be confirmed."""
        with self._reading() as connection:
            return self._news(connection, state)

    def _news(self, connection: sqlite3.Connection, state: State) -> list[Fact] | None:
        found = read_news(connection, state, self._head)
        if found is None:
            return None
        facts, self._head = found
        return facts

    def summary(self) -> row_reader.Summary:
        """The study in a few numbers. Reads only part of the file."""
        with self._reading() as connection:
            return row_reader.summary(connection)

    def problems(self) -> list[str]:
        """Everything that is wrong with the file; an empty list if it is intact."""
        with self._reading() as connection:
            return problems(connection)

    def lock(self) -> bool:
        self._check_process()
        if self._lost() is not None:
            return False  # there is nothing to lock or to load: `append` raises
        if self._connection is not None and self._lock.is_held:
            stale, self._stale = self._stale, False
            return stale
        check_path(self.path, self.files)
        self._lock.acquire()
        if not self.path.exists():
            return False
        try:
            with storage_errors(self.path):
                return patiently(self.path, self._take_over)
        except BaseException:
            self.close()
            raise

    def begin_turn(self, state: State, seconds: float) -> Sequence[Fact] | None:
        self._check_process()
        if self._lost() is not None:
            return []  # there is nothing to lock or to read: `append` raises
        if self._connection is None:  # otherwise it was checked, as before any first commit
            check_path(self.path, self.files)
        self._lock.acquire(seconds, named=False)
        try:
            self._lock.check_exclusive()
            with storage_errors(self.path):
                changed = patiently(self.path, self._take_over)
                self._keep_journal()
                stale, self._stale = self._stale, False
                return None if stale else self._read_news(state) if changed else []
        except BaseException:
            self.close()
            raise

    def _keep_journal(self) -> None:
        """Let SQLite overwrite the journal instead of creating and deleting it, until the
        connection is closed. A commit is as durable, but waits less: no folder changes."""
        if not self._keeps_journal and self._connection is not None:
            self._connection.execute("PRAGMA journal_mode = PERSIST").fetchone()
            self._keeps_journal = True

    def _read_news(self, state: State) -> list[Fact] | None:
        """What other processes have written, read with the connection for writing."""
        connection = self._connection
        assert connection is not None
        with transaction(connection, "DEFERRED"):
            return self._news(connection, state)

    def end_turn(self) -> None:
        self._lock.release(tidily=False)

    def append(self, facts: Sequence[Fact]) -> None:
        self._check_process()
        self._check_there()
        durable = [fact for fact in facts if not isinstance(fact, Note)]
        if not durable:
            return
        try:
            with storage_errors(self.path, "Nothing from the last step was saved."):
                if (connection := self._connection) is None:
                    self._create(durable)
                else:
                    self._head = patiently(self.path, lambda: self._commit(connection, durable))
        except BaseException as error:
            self._stale = True
            if isinstance(error, StorageError):
                self._check_there(error)
            raise

    def check_unlocked(self) -> None:
        """Raise LockedError if another process has locked the study."""
        if not self._lock.is_held:
            self._lock.acquire()
            self._lock.release()

    def close(self) -> None:
        self._disconnect()
        self._lock.release()

    def _check_process(self) -> None:
        """Raise in a forked child of the process that opened the study."""
        if os.getpid() != self._process:
            raise StorageError(
                self.path, "was opened before this process was forked. Open it again here."
            )

    def _lost(self) -> str | None:
        """What happened to the file, if it is no longer the one that was opened."""
        try:
            found = os.stat(self.path)
        except OSError:
            return "was moved or deleted" if self._head else None
        if self._identity is not None and self._identity != (found.st_dev, found.st_ino):
            return "was replaced by another file"
        return None

    def _check_there(self, cause: BaseException | None = None) -> None:
        problem = self._lost()
        if problem is not None:
            raise GoneError(self.path, problem) from cause

    def _read(self) -> list[Fact]:
        with self._reading() as connection:
            row = read_head(connection)
            facts = list(row_reader.read(connection))
            self._head = row
            return facts

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that reads one snapshot of the study."""
        check_path(self.path, self.files)
        if not self.path.exists():
            raise StorageError(self.path, "does not exist.")
        with storage_errors(self.path, journal=journal_of(self.path)):
            snapshot = patiently(self.path, self._snapshot, gives_up=self._looks_only)
            with closing(snapshot) as connection:
                yield connection

    def _snapshot(self) -> sqlite3.Connection:
        connection = connect(self.path, "ro")
        try:
            connection.execute("BEGIN")
            check_ours(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _roll_back(self) -> None:
        held = self._lock.is_held
        self._lock.acquire()
        try:
            with closing(connect(self.path, "rw")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            if not held:
                self._lock.release()

    def _take_over(self) -> bool:
        """Connect for writing, and return whether the study has changed since it was read. After a
        turn, the connection is still there."""
        if self._connection is not None:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            changed, self._version = bool(version != self._version), version
            return changed
        connection = self._keep(connect(self.path, "rw"))
        try:
            check_ours(connection, self.path)
            older = format_of(connection) < FORMAT
            with transaction(connection, "IMMEDIATE" if older else "DEFERRED"):
                check_whole(connection)
                if older:
                    upgrade(connection)
                row = read_head(connection)
            if self._head is not None and row["study"] != self._head["study"]:
                raise GoneError(self.path, "was replaced by another study")
        except BaseException:
            self._disconnect()
            raise
        if self._head is None or row["commits"] != self._head["commits"]:
            return True
        self._head = row  # with checksums, if the file was upgraded
        return False

    def _keep(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Keep the connection for writing, until this object is closed or garbage-collected."""
        found = os.stat(self.path)
        self._identity = found.st_dev, found.st_ino
        self._connection, self._version, self._keeps_journal = connection, None, False
        given = connection, self._process, self.path, self._identity
        self._end = weakref.finalize(self, close_writer, *given)
        return connection

    def _disconnect(self) -> None:
        if self._end is not None:
            self._end()
        self._connection = self._end = self._identity = None

    def _create(self, facts: Sequence[Fact]) -> None:
        """Write the file under another name, then rename it: it never exists without its facts."""
        made = self.files / "new"
        for leftover in (made, made.with_name("new-journal")):
            leftover.unlink(missing_ok=True)
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.executescript(SCHEMA)
            head = self._commit(connection, facts)
        os.rename(made, self.path)
        sync_folder(self.path.parent)
        self._keep(connect(self.path, "rw"))
        self._head = head

    def _commit(self, connection: sqlite3.Connection, facts: Sequence[Fact]) -> Head:
        """Write facts, and return the new row of the study."""
        with transaction(connection):
            head = row_writer.write(connection, facts, self._head)
            if head is None:
                raise StorageError(
                    self.path, "was changed by a program that ignores the lock. Open it again."
                )
            return head
