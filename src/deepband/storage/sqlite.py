"""Facts in an SQLite file: a study that is persistent.

A study is the file `mlp.study` and the folder `mlp.study.files`. One driver writes: it holds an
operating-system lock on a side file, which ends with its process however it dies. Every commit
is on the disk before `append` returns (rollback journal, synchronous EXTRA). Readers need no
lock. Nothing in here executes what it reads, and nothing is written to a file that is damaged.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from deepband.core.facts import Fact, JobReleased, JobsStarted
from deepband.core.state import State
from deepband.errors import GoneError, HeldError, StorageError, TornError
from deepband.storage import codec
from deepband.storage.connections import connect, patiently, read_path, sync_folder
from deepband.storage.inspection import check_ours, check_whole, problems
from deepband.storage.schema import FORMAT, SCHEMA, format_of, upgrade
from deepband.storage.sidecars import check_name, check_sides
from deepband.storage.sqlite_errors import complaints
from deepband.system import plain_files


class SqliteStorage:
    """The facts of one study in one file. For one thread at a time."""

    def __init__(self, path: str | os.PathLike[str], looks_only: bool = False) -> None:
        self.path = read_path(path)
        check_name(self.path)
        self._looks_only = looks_only
        self.files = plain_files.files_folder(self.path)
        self._lock = FileLock(
            self.files / "lock", timeout=0, thread_local=False, fallback_to_soft=False
        )
        self._connection: sqlite3.Connection | None = None
        self._end: weakref.finalize[[sqlite3.Connection, int], SqliteStorage] | None = None
        """Closes the connection, also that of a study which nobody closed."""
        self._identity: tuple[int, int] | None = None
        """The file that the connection writes to, whatever has its path by now."""
        self._process = os.getpid()
        self._head: codec.Head | None = None
        """The row of the study when it was last read or written by us."""
        self._stale = False
        """Whether a commit failed, so that nobody knows without looking what the file holds."""

    def load(self) -> Iterable[Fact]:
        self._check_path()
        if not self.path.exists():
            return []
        try:
            return self._read()
        except TornError:  # if a driver lives, it has rolled it back already
            if self._looks_only:
                raise
        with complaints(self.path):
            patiently(self.path, self._roll_back)
        return self._read()

    def news(self, state: State) -> list[Fact] | None:
        """The facts that a state, made of what was last read here, does not have yet. None when it
        must be made again, because some of what it has was taken back or is not known to be."""
        with self._reading() as connection:
            row = codec.head(connection)
            known = self._head or row
            commit, contents = known["commits"], known["contents"]
            if not codec.is_grown(row, state.created.study, commit):
                return None
            if row["commits"] == commit:
                return []
            if contents is None:  # read in an older format, which does not say what is new
                return None
            last = codec.read_commit(connection, commit)
            if any(state.result(*told[:3]) != told for told in last):  # a backup that went on
                return None
            drawn = [len(configs) for configs in state.configs]
            news = codec.read_since(connection, commit, contents, len(state.runs), drawn)
            found = list(news)
            self._head = row
            return found

    def summary(self) -> codec.Summary:
        """The study in a few numbers, without reading all of it."""
        with self._reading() as connection:
            return codec.summary(connection)

    def problems(self) -> list[str]:
        """What is wrong with the file; nothing, if it is whole. Nothing is changed."""
        with self._reading() as connection:
            return problems(connection)

    def lock(self) -> bool:
        self._check_process()
        if self._lost() is not None:
            return False  # nothing to lock, nor to load again: `append` raises
        if self._connection is not None:
            stale, self._stale = self._stale, False
            return stale
        self._check_path()
        self._acquire()
        if not self.path.exists():
            return False
        try:
            with complaints(self.path):
                return patiently(self.path, self._take_over)
        except BaseException:
            self.close()
            raise

    def append(self, facts: Sequence[Fact]) -> None:
        self._check_process()
        self._check_there()
        durable = [fact for fact in facts if not isinstance(fact, JobsStarted | JobReleased)]
        if not durable:
            return
        try:
            with complaints(self.path, "Nothing of the last step was kept."):
                if (connection := self._connection) is None:
                    self._create(durable)
                else:
                    self._head = patiently(self.path, lambda: self._commit(connection, durable))
        except BaseException as error:
            self._stale = True
            if isinstance(error, StorageError):
                self._check_there(error)
            raise

    def close(self) -> None:
        self._let_go()
        self._lock.release()

    @property
    def _journal(self) -> Path:
        return self.path.with_name(self.path.name + "-journal")

    def _check_path(self) -> None:
        if self.path.is_symlink():
            raise StorageError(self.path, "is a symbolic link. Give the path of the file itself.")
        if self.path.exists() and not self.path.is_file():
            raise StorageError(self.path, "is not a file. Give the path of a study file.")
        if not self.path.parent.is_dir():
            raise StorageError(self.path, f"the folder {self.path.parent} does not exist.")
        if self.files.is_symlink():
            raise StorageError(
                self.files,
                "is a symbolic link. It may lead to a folder of the same name only: move the study "
                "with its folder instead.",
            )
        check_sides(self.path)
        if self._journal.exists() and not self.path.exists():
            raise StorageError(
                self.path,
                f"is gone, but {self._journal.name} of it is there. Put the study back beside it, "
                "or delete the journal.",
            )

    def _check_process(self) -> None:
        """Refuse to be used by a child of the process that opened the study."""
        if os.getpid() != self._process:
            raise StorageError(
                self.path, "was opened by another process, which this one was forked from."
            )

    def _lost(self) -> str | None:
        """What happened to the file since it was opened, if it is not there any more."""
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
            row = codec.head(connection)
            facts = list(codec.read(connection))
            self._head = row
            return facts

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot of a whole study."""
        self._check_path()
        if not self.path.exists():
            raise StorageError(self.path, "is gone.")
        with complaints(self.path, journal=self._journal):
            snapshot = patiently(self.path, self._snapshot, gives_up=self._looks_only)
            with closing(snapshot) as connection:
                yield connection

    def _snapshot(self) -> sqlite3.Connection:
        """A connection that reads the file as it is at one moment."""
        connection = connect(self.path, "ro")
        try:
            connection.execute("BEGIN")
            check_ours(connection, self.path, writing=False)
        except BaseException:
            connection.close()
            raise
        return connection

    def _roll_back(self) -> None:
        held = self._lock.is_locked
        self._acquire()
        try:
            with closing(connect(self.path, "rw")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            if not held:
                self._lock.release()

    def _take_over(self) -> bool:
        """Connect to write, and return whether the study changed since it was read."""
        connection = self._hold(connect(self.path, "rw"))
        try:
            check_ours(connection, self.path, writing=True)
            older = format_of(connection) < FORMAT
            with _transaction(connection, "IMMEDIATE" if older else "DEFERRED"):
                check_whole(connection)
                if older:
                    upgrade(connection)
                row = codec.head(connection)
            if self._head is not None and row["study"] != self._head["study"]:
                raise GoneError(self.path, "was replaced by another study")
        except BaseException:
            self._let_go()
            raise
        if self._head is None or row["commits"] != self._head["commits"]:
            return True
        self._head = row  # with checksums, if it had none
        return False

    def _hold(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Keep the connection to write with, until it is closed or this object is gone."""
        found = os.stat(self.path)
        self._identity = found.st_dev, found.st_ino
        self._connection = connection
        self._end = weakref.finalize(self, _close, connection, self._process)
        return connection

    def _let_go(self) -> None:
        if self._end is not None:
            self._end()
        self._connection = self._end = self._identity = None

    def _create(self, facts: Sequence[Fact]) -> None:
        """Make the file whole beside its place, then put it there: it exists with its first
        facts or not at all."""
        made = self.files / "new"
        for leftover in (made, made.with_name("new-journal")):
            leftover.unlink(missing_ok=True)
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.executescript(SCHEMA)
            head = self._commit(connection, facts)
        os.rename(made, self.path)
        sync_folder(self.path.parent)
        self._hold(connect(self.path, "rw"))
        self._head = head

    def _commit(self, connection: sqlite3.Connection, facts: Sequence[Fact]) -> codec.Head:
        """Write facts, and return the new row of the study."""
        with _transaction(connection):
            head = codec.write(connection, facts, self._head)
            if head is None:
                raise StorageError(
                    self.path, "was changed by somebody else, against the lock. Open it again."
                )
            return head

    def _acquire(self) -> None:
        try:
            self.files.mkdir(exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise HeldError(self.path, self._holder()) from None
        except OSError as error:
            raise StorageError(self.path, f"cannot be locked for writing: {error}.") from error
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with suppress(OSError):  # only for the message of whoever comes second
            _write_new(self.files, "driver.json", json.dumps(holder).encode())

    def _holder(self) -> Mapping[str, object]:
        try:
            holder = json.loads(plain_files.read_file(self.files, "driver.json", most=4096))
        except (OSError, ValueError, RecursionError):
            return {}
        return holder if isinstance(holder, dict) else {}


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Write all of what is done within, or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _write_new(folder: Path, name: str, content: bytes) -> None:
    with open(plain_files.create_file(folder, name), "wb") as file:
        file.write(content)


def _close(connection: sqlite3.Connection, process: int) -> None:
    """Close a connection in the process that opened it: a forked child must not, since that would
    roll back a commit of its parent."""
    if os.getpid() == process:
        connection.close()
