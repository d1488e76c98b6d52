"""Workers whose driver died, and what they leave: taken in by the next driver."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.outbox import JOBS, Outbox, Running, lock_holder, look
from deepband.system import plain_files
from deepband.system.process_tree import descendants, kill_all


class Orphans:
    """The jobs that workers of an earlier driver are still running."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._running = {running.key: running for running in outbox.running()}

    @property
    def keys(self) -> list[JobKey]:
        return list(self._running)

    def give_up(self) -> None:
        """Want their results no more: those on this host are ended, and a worker without its job
        file leaves none."""
        for running in self._running.values():
            group = self._group(running)
            self._drop(running)
            _end(group)
        self._running.clear()

    def ended(self) -> list[tuple[JobKey, Attempt | None]]:
        """Those that have ended since, with what they left."""
        gone = [running for running in self._running.values() if not self._lives(running)]
        for running in gone:
            del self._running[running.key]
        return [(running.key, self._result(running)) for running in gone]

    def _lives(self, running: Running) -> bool:
        now = look(running.path)
        if now is None and os.path.lexists(running.path):
            return True  # nobody can tell at the moment
        if now is None or not now.held:
            self._drop(running)
            return False
        late = running.deadline is not None and time.time() > running.deadline
        if late:
            _end(self._group(running))
        return True

    def _result(self, running: Running) -> Attempt | None:
        return self.outbox.get(running.key, _token(running))

    def _drop(self, running: Running) -> None:
        self.outbox.drop(running.key, _token(running))

    def _group(self, running: Running) -> int | None:
        """The process group of a worker on this host. None unless the kernel says that the process
        which the file names holds its lock: anybody could have written the number of any process
        into it."""
        if running.host != socket.gethostname() or running.pid in (0, os.getpgrp()):
            return None
        try:
            descriptor = plain_files.open_file(self.outbox.folder, JOBS, running.path.name)
        except OSError:
            return None
        try:
            return running.pid if lock_holder(descriptor) == running.pid else None
        finally:
            os.close(descriptor)


def _token(running: Running) -> str:
    return running.path.name.partition(".")[2]


def _end(group: int | None) -> None:
    """End a worker with all that it started."""
    if group is not None:
        left = descendants({group}, ())
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        kill_all(left)
