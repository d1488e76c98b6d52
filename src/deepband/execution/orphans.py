"""Workers that outlived their driver, and the results they write for the next driver."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.outbox import JOBS, Outbox, RunningJob, lock_holder, read_job_file
from deepband.system import plain_files
from deepband.system.process_tree import descendants, kill_all


class Orphans:
    """The jobs that workers of a dead driver are still running."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._running = {running.key: running for running in outbox.running()}

    @property
    def keys(self) -> list[JobKey]:
        return list(self._running)

    def seconds(self, key: JobKey) -> float:
        """How long a job has been running, by the clock of its host."""
        return max(0.0, time.time() - self._running[key].started)

    def give_up(self) -> None:
        """Give these jobs up: kill the workers on this host, and remove all job files, so that
        workers on other hosts write no results."""
        for running in self._running.values():
            group = self._group(running)
            self._drop(running)
            _end(group)
        self._running.clear()

    def ended(self) -> list[tuple[JobKey, Attempt | None]]:
        """The jobs that have ended since the last call, with their results if there are any."""
        gone = [running for running in self._running.values() if not self._lives(running)]
        for running in gone:
            del self._running[running.key]
        return [(each.key, self.outbox.get(each.key, _token(each))) for each in gone]

    def _lives(self, running: RunningJob) -> bool:
        now = read_job_file(running.path)
        if now is None and os.path.lexists(running.path):
            return True  # the file cannot be read at the moment
        if now is None or not now.held:
            self._drop(running)
            return False
        late = running.deadline is not None and time.time() > running.deadline
        if late:
            _end(self._group(running))
        return True

    def _drop(self, running: RunningJob) -> None:
        self.outbox.drop(running.key, _token(running))

    def _group(self, running: RunningJob) -> int | None:
        """The process group of a worker on this host. None unless the kernel confirms that the
        process named in the file has locked it: the file could name any process."""
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


def _token(running: RunningJob) -> str:
    return running.path.name.partition(".")[2]


def _end(group: int | None) -> None:
    """Kill a worker and all processes that it started."""
    if group is not None:
        left = descendants({group}, ())
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        kill_all(left)
