"""Workers that outlived their driver, and the results they write for the next driver."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.outbox import JOBS, Outbox, RunningJobs, lock_holder, read_job_file
from deepband.system import plain_files
from deepband.system.process_tree import descendants, kill_all


class Orphans:
    """The jobs that workers of a dead driver are still running."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._running = {key: running for running in outbox.running() for key in running.keys}

    @property
    def keys(self) -> list[JobKey]:
        return list(self._running)

    def seconds(self, key: JobKey) -> float:
        """How long a job has been running, by the clock of its host."""
        return max(0.0, time.time() - self._running[key].started)

    def give_up(self) -> None:
        """Give these jobs up: kill the workers on this host, and remove all job files, so that
        workers on other hosts write no results."""
        for running in self._files():
            group = self._group(running)
            self._drop(running)
            _end(group)
        self._running.clear()

    def ended(self) -> list[tuple[JobKey, Attempt | None]]:
        """The jobs that have ended since the last call, with their results if there are any."""
        found: list[tuple[JobKey, Attempt | None]] = []
        for running in self._files():
            if not self._lives(running):
                left = self.outbox.get(running.keys, _token(running))
                attempts = {attempt.job.key: attempt for attempt in left}
                found += [(key, attempts.get(key)) for key in running.keys]
        for key, _ in found:
            self._running.pop(key, None)
        return found

    def _files(self) -> list[RunningJobs]:
        """The jobs of each job file."""
        return list({running.path: running for running in self._running.values()}.values())

    def _lives(self, running: RunningJobs) -> bool:
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

    def _drop(self, running: RunningJobs) -> None:
        self.outbox.drop(running.key, _token(running))

    def _group(self, running: RunningJobs) -> int | None:
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


def _token(running: RunningJobs) -> str:
    return running.path.name.partition(".")[2]


def _end(group: int | None) -> None:
    """Kill a worker and all processes that it started."""
    if group is not None:
        left = descendants({group}, ())
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        kill_all(left)
