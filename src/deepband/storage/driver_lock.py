"""The lock of the process that writes to a study: the file `lock` in the study's folder.

The kernel releases it when the process ends, however it ends. The folder belongs to the lock as
well: it is created with it and, if nothing worth keeping is in it, removed with it. Removing a lock
file is safe only for the process that has locked it, and only because a process that then locks
the removed file notices and tries again.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from deepband.errors import LockedError, StorageError
from deepband.system import interrupts, plain_files
from deepband.system.file_locks import excludes_others
from deepband.system.posix import fcntl

LOCK, HOLDER = "lock", "driver.json"
FOLDERS = ("jobs", "outbox", "output", "slurm")
CHECKPOINTS, ATTEMPTS = "checkpoints", "attempts"
ATTEMPTS_TO_LOCK = 100
"""How often to try again because another process has just removed the lock file."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
GROWTH = 1.2
"""Seconds between two attempts to lock a study that another process has locked, and by how much
they grow. Turns take a few milliseconds: if pauses grew fast, the study would often be free while
all others sleep."""
UNSHARED = (
    "its file system does not keep processes from locking the same file at the same time, so only "
    "one process can use the study: move it to a local disk, or to a network file system whose "
    "locks work (`deepband doctor` checks that), or let one process run it with `deepband run`."
)


class DriverLock:
    """The lock of one study. Locking twice, or releasing twice, does nothing."""

    def __init__(self, study: Path, folder: Path) -> None:
        self._study = study
        self._folder = folder
        self._is_link = folder != study.with_name(folder.name)
        """Whether the user has put the folder elsewhere: then it is never removed."""
        self._file = FileLock(folder / LOCK, timeout=0, thread_local=False, fallback_to_soft=False)
        self._path = str(folder / LOCK)
        self._process = os.getpid()
        self._identity: tuple[int, int] | None = None
        """Device and inode of the lock file."""
        self._is_checked = False
        """Whether the lock is known to exclude other processes."""

    @property
    def is_held(self) -> bool:
        return self._file.is_locked

    def acquire(self, seconds: float = 0.0, named: bool = True) -> None:
        """Lock the study, or raise a LockedError if that takes longer than this many seconds. If
        `named`, other processes learn which one has locked it."""
        if self.is_held:
            return
        try:
            self._lock_within(seconds)
            found = os.stat(self._folder / LOCK)
        except OSError as error:
            raise StorageError(self._study, f"cannot be locked for writing: {error}.") from error
        self._identity = found.st_dev, found.st_ino
        if named:
            self._name_holder()
        elif os.path.lexists(self._folder / HOLDER):
            with suppress(OSError):  # it names a process that had locked the study before
                plain_files.remove_file(self._folder, HOLDER)

    def check_exclusive(self) -> None:
        """Raise a StorageError if the lock, which is held, does not exclude others. This is checked
        once."""
        if not self._is_checked and not excludes_others(self._folder, LOCK):
            raise StorageError(self._study, UNSHARED)
        self._is_checked = True

    def _lock_within(self, seconds: float) -> None:
        """Lock the study as soon as it is possible within this time. Waiting processes try again
        at random times, so that none is always the last."""
        end, pause = time.monotonic() + seconds, SHORTEST_PAUSE
        while True:
            try:
                self._lock()
                return
            except LockedError:
                if time.monotonic() >= end:
                    raise
            while time.monotonic() < end and not self._is_free():
                interrupts.check()
                time.sleep(random.uniform(pause / 2, pause))
                pause = min(GROWTH * pause, LONGEST_PAUSE)

    def _is_free(self) -> bool:
        """Whether the study can probably be locked. This is much faster than trying to."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return True  # trying says what is wrong
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def _name_holder(self) -> None:
        """Write which process has locked the study."""
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with (
            suppress(OSError),  # it only serves the error message of the next process
            open(plain_files.create_file(self._folder, HOLDER), "wb") as file,
        ):
            file.write(json.dumps(holder).encode())

    def release(self, tidily: bool = True) -> None:
        """Release the lock and, if `tidily`, remove the folder if it is empty otherwise."""
        if (
            tidily and self.is_held and os.getpid() == self._process
        ):  # a forked child must leave it alone
            with suppress(OSError):
                self._tidy()
        self._file.release()

    def _lock(self) -> None:
        for attempt in range(ATTEMPTS_TO_LOCK):
            last = attempt == ATTEMPTS_TO_LOCK - 1
            try:
                with suppress(FileExistsError):
                    os.mkdir(self._folder)
                self._file.acquire()
                return
            except Timeout:
                if last or os.path.lexists(self._folder / LOCK):
                    raise LockedError(self._study, self._holder()) from None
            except (FileNotFoundError, FileExistsError):  # the folder has gone at the same time
                if last or not self._folder.parent.is_dir():
                    raise

    def _holder(self) -> Mapping[str, object]:
        try:
            holder = json.loads(plain_files.read_file(self._folder, HOLDER, most=4096))
        except (OSError, ValueError, RecursionError):
            return {}
        return holder if isinstance(holder, dict) else {}

    def _tidy(self) -> None:
        """Remove empty folders, and the study's folder if only the lock is left in it."""
        with plain_files.opened_folder(self._folder) as folder:
            found = os.stat(LOCK, dir_fd=folder, follow_symlinks=False)
            if self._identity != (found.st_dev, found.st_ino):
                return  # the folder was moved, and this one belongs to another process
            for name in plain_files.folder_names(self._folder, CHECKPOINTS):
                plain_files.remove_empty_folder(self._folder, CHECKPOINTS, name, ATTEMPTS)
                plain_files.remove_empty_folder(self._folder, CHECKPOINTS, name)
            for name in (*FOLDERS, CHECKPOINTS):
                plain_files.remove_empty_folder(self._folder, name)
            if self._is_link or not {LOCK, HOLDER}.issuperset(os.listdir(folder)):
                return
            for name in (HOLDER, LOCK):  # as soon as the lock file is gone, others may create both
                plain_files.remove_file(self._folder, name)
        os.rmdir(self._folder)
