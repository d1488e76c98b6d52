"""The lock of the process that writes to a study: the file `lock` in the study's folder.

The kernel releases it when the process ends, however it ends. The folder belongs to the lock as
well: it is created with it and, if nothing worth keeping is in it, removed with it. Removing a lock
file is safe only for the process that has locked it, and only because a process that then locks
the removed file notices and tries again.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from deepband.errors import LockedError, StorageError
from deepband.system import plain_files

LOCK, HOLDER = "lock", "driver.json"
FOLDERS = ("jobs", "outbox", "output")
CHECKPOINTS, ATTEMPTS = "checkpoints", "attempts"
ATTEMPTS_TO_LOCK = 100
"""How often to try again because another process has just removed the lock file."""


class DriverLock:
    """The lock of one study. Locking twice, or releasing twice, does nothing."""

    def __init__(self, study: Path, folder: Path) -> None:
        self._study = study
        self._folder = folder
        self._is_link = folder != study.with_name(folder.name)
        """Whether the user has put the folder elsewhere: then it is never removed."""
        self._file = FileLock(folder / LOCK, timeout=0, thread_local=False, fallback_to_soft=False)
        self._process = os.getpid()
        self._identity: tuple[int, int] | None = None
        """Device and inode of the lock file."""

    @property
    def is_held(self) -> bool:
        return self._file.is_locked

    def acquire(self) -> None:
        """Lock the study, or raise a LockedError at once."""
        if self.is_held:
            return
        try:
            self._lock()
            found = os.stat(self._folder / LOCK)
        except OSError as error:
            raise StorageError(self._study, f"cannot be locked for writing: {error}.") from error
        self._identity = found.st_dev, found.st_ino
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        with (
            suppress(OSError),  # it only serves the error message of the next process
            open(plain_files.create_file(self._folder, HOLDER), "wb") as file,
        ):
            file.write(json.dumps(holder).encode())

    def release(self) -> None:
        """Release the lock, and remove the folder if it is empty otherwise."""
        if self.is_held and os.getpid() == self._process:  # a forked child must leave it alone
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
