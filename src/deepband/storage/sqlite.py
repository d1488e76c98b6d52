"""Facts in an SQLite file: a study that lasts.

A study is the file `mlp.study` and the folder `mlp.study.files`. One driver writes: it holds an
operating-system lock on a side file, which ends with its process however it dies. Every commit
is on the disk before `append` returns (rollback journal, synchronous EXTRA). Readers need no
lock. Nothing in here executes what it reads.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock, Timeout

from deepband import plain_files
from deepband.errors import HeldError, StorageError, TornError, shown
from deepband.facts import Fact, JobReleased, JobsStarted
from deepband.state import State
from deepband.storage import codec
from deepband.storage.sidecars import check_name, check_sides

BUSY_SECONDS = 30.0
_FOREIGN = "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')"
"""Code that would run whenever a study is read or written."""


class SqliteStorage:
    """The facts of one study in one file."""

    def __init__(self, path: str | os.PathLike[str], looks_only: bool = False) -> None:
        self.path = _read_path(path)
        self._looks_only = looks_only
        self.files = plain_files.files_folder(self.path)
        self._lock = FileLock(
            self.files / "lock", timeout=0, thread_local=False, fallback_to_soft=False
        )
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._commits = 0
        """How many commits the study had when it was last read or written by us."""
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
        with self._complaints():
            self._roll_back()
        return self._read()

    def news(self, state: State) -> list[Fact] | None:
        """The facts that a state, made of what was last read here, does not have yet. None when it
        must be made again, because some of what it has was taken back or is not known to be."""
        with self._reading() as connection:
            commits = _commits(connection)
            if not codec.is_grown(connection, state.created.study, self._commits):
                return None
            if commits == self._commits:
                return []
            if _format(connection) < 2:  # it does not say what came when
                return None
            last = codec.read_commit(connection, self._commits)
            if any(state.result(*told[:3]) != told for told in last):  # a backup that went on
                return None
            drawn = [len(configs) for configs in state.configs]
            news = list(codec.read_since(connection, self._commits, len(state.runs), drawn))
            self._commits = commits
            return news

    def summary(self) -> codec.Summary:
        """The study in a few numbers, without reading all of it."""
        with self._reading() as connection:
            return codec.summary(connection)

    def lock(self) -> bool:
        self._check_process()
        if self._connection is not None:
            stale, self._stale = self._stale, False
            return stale
        self._check_path()
        self._acquire()
        if not self.path.exists():
            return False
        try:
            with self._complaints():
                self._connection = self._connect("rw")
                self._check_ours(self._connection, writing=True)
                if _format(self._connection) == 1:
                    self._connection.executescript(f"BEGIN IMMEDIATE; {codec.FROM_1} COMMIT;")
                return _commits(self._connection) != self._commits
        except BaseException:
            self.close()
            raise

    def append(self, facts: Sequence[Fact]) -> None:
        durable = [fact for fact in facts if not isinstance(fact, JobsStarted | JobReleased)]
        if not durable:
            return
        self._check_process()
        try:
            with self._complaints():
                if self._connection is None:
                    self._create(durable)
                else:
                    self._commit(self._connection, durable)
        except BaseException:
            self._stale = True
            raise
        self._commits += 1

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
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
        check_name(self.path)
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

    def _read(self) -> list[Fact]:
        with self._reading() as connection:
            commits = _commits(connection)
            facts = list(codec.read(connection))
            self._commits = commits
            return facts

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot of a whole study."""
        self._check_path()
        if not self.path.exists():
            raise StorageError(self.path, "is gone.")
        with self._complaints(), closing(self._connect("ro")) as connection:
            connection.execute("BEGIN")
            self._check_ours(connection, writing=False)
            try:
                yield connection
            except (sqlite3.Error, StorageError):
                raise
            except Exception as error:
                raise StorageError(self.path, f"is damaged: {error!r}.") from error

    def _roll_back(self) -> None:
        held = self._lock.is_locked
        self._acquire()
        try:
            with closing(self._connect("rw")) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        finally:
            if not held:
                self._lock.release()

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"file:{quote(str(self.path.absolute()))}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = EXTRA")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _check_ours(self, connection: sqlite3.Connection, writing: bool) -> None:
        """Refuse a file that is not a whole study, or that may not be written."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        size = self.path.stat().st_size
        if size == 0:
            raise StorageError(self.path, "is empty, not a study. Delete it or give another path.")
        if application != codec.APPLICATION:
            raise StorageError(self.path, "is an SQLite file, but not a deepband study.")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if size != page * pages:
            raise StorageError(
                self.path, f"is damaged: it should have {page * pages} bytes and has {size}."
            )
        (foreign,) = connection.execute(_FOREIGN).fetchone()
        if foreign:
            raise StorageError(
                self.path, "has views or triggers, which no study has: it was not made by deepband."
            )
        version = _format(connection)
        if writing and version > codec.FORMAT:
            raise StorageError(
                self.path,
                f"was written by a newer deepband (format {version}; this one writes "
                f"{codec.FORMAT}). It can be read, but not written: update deepband.",
            )

    def _create(self, facts: Sequence[Fact]) -> None:
        """Make the file whole beside its place, then put it there: it exists with its first
        facts or not at all."""
        made = self.files / "new"
        for leftover in (made, made.with_name("new-journal")):
            leftover.unlink(missing_ok=True)
        with closing(sqlite3.connect(made, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.executescript(codec.SCHEMA)
            self._commit(connection, facts)
        os.rename(made, self.path)
        _sync_folder(self.path.parent)
        self._connection = self._connect("rw")

    def _commit(self, connection: sqlite3.Connection, facts: Sequence[Fact]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for fact in facts:
                codec.write(connection, fact, self._commits + 1)
            counted = connection.execute(
                "UPDATE studies SET commits = commits + 1 WHERE commits = ?", (self._commits,)
            )
            if counted.rowcount != 1:
                raise StorageError(
                    self.path, "was changed by somebody else, against the lock. Open it again."
                )
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

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
    def _complaints(self) -> Iterator[None]:
        """Say what an error of SQLite means for the study."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "no such" in str(error):
                raise StorageError(self.path, f"is damaged: {error}.") from error
            if self._connection is None and "readonly" in str(error) and self._journal.exists():
                raise TornError(self.path) from error
            kept = "" if self._connection is None else " Nothing of the last step was kept."
            raise StorageError(self.path, f"cannot be used now: {error}.{kept}") from error
        except sqlite3.DatabaseError as error:
            raise StorageError(self.path, f"is not a whole study file: {error}.") from error
        except OSError as error:
            raise StorageError(self.path, f"cannot be used now: {error}.") from error


def _read_path(given: Any) -> Path:
    """The place of a study, whatever folder becomes the current one later."""
    try:
        text = os.fspath(given)
        path = Path(os.path.abspath(text))
        str(path).encode()
        path.is_symlink()
    except (TypeError, ValueError, OSError) as error:
        raise StorageError(shown(given), f"is no path for a study: {error}.") from error
    if not isinstance(text, str) or not path.name or text.endswith("/") or "\0" in text:
        raise StorageError(shown(given), "is no path for a study: give one such as 'mlp.study'.")
    return path


def _commits(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT commits FROM studies").fetchone()
    return int(row[0])


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _write_new(folder: Path, name: str, content: bytes) -> None:
    with open(plain_files.create_file(folder, name), "wb") as file:
        file.write(content)


def _sync_folder(folder: Path) -> None:
    """Make a rename in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
