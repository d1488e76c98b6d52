"""Jobs that outlived their driver, and the results they write for the next driver.

Workers of a dead driver finish the jobs that they run. Jobs in Slurm's queue are started, and
started again, without any driver.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.outbox import JOBS, Outbox, RunningJobs, lock_holder, read_job_file
from deepband.execution.slurm_queue import SlurmQueue, require_slurm
from deepband.execution.submissions import Submissions, SubmittedCall
from deepband.system import plain_files
from deepband.system.process_tree import kill_tree


class Orphans:
    """The jobs that workers of a dead driver are still running, or that wait for one in Slurm."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._submitted = SubmittedJobs(outbox)
        self._running: dict[JobKey, RunningJobs] = {}
        self._started: dict[JobKey, float] = {}
        self._adopted = False
        """Whether `find` has returned the jobs in Slurm."""

    def find(self, is_taken: Callable[[JobKey], bool] = lambda key: False) -> list[JobKey]:
        """Add the jobs that are running or queued, except for those that a process is in charge of,
        and return the new ones."""
        files = [each for each in self.outbox.running() if not any(map(is_taken, each.keys))]
        self._started |= {key: each.started for each in files for key in each.keys}
        queued = self._submitted.keys  # Slurm knows more about them than their files
        found = {key: each for each in files for key in each.keys if key not in queued}
        new = [key for key in found if key not in self._running]
        self._running |= {key: found[key] for key in new}
        adopted, self._adopted = () if self._adopted else queued, True
        return [*new, *adopted]

    @property
    def keys(self) -> list[JobKey]:
        return [*self._running, *self._submitted.keys]

    def seconds(self, key: JobKey) -> float:
        """How long a job has been running, by the clock of its host; 0 if it waits."""
        now = time.time()
        return max(0.0, now - self._started.get(key, now))

    def give_up(self, keys: Iterable[JobKey]) -> None:
        """Give jobs up: kill the workers on this host, and remove all job files, so that workers on
        other hosts write no results."""
        given_up = [self._running.pop(key) for key in keys if key in self._running]
        for running in {each.path: each for each in given_up}.values():
            group = self._group(running)
            self._drop(running)
            if group is not None:
                kill_tree(group)
        self._submitted.give_up()

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
        return found + self._submitted.ended()

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
        if late and (group := self._group(running)) is not None:
            kill_tree(group)
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


class SubmittedJobs:
    """The jobs that a driver which has ended submitted to Slurm."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._submissions = Submissions(outbox.folder)
        self._calls = self._submissions.calls()
        self._queue = SlurmQueue()
        self._gone: list[SubmittedCall] = []
        """The calls whose jobs were not in the queue when Slurm was asked last."""

    @property
    def keys(self) -> list[JobKey]:
        return [key for call in self._calls for key in call.keys]

    def give_up(self) -> None:
        """Cancel these jobs. If Slurm cannot be asked, they find nothing to do when they start."""
        if not self._calls:
            return
        places = [call.place for call in self._calls]
        for call in self._calls:
            self._submissions.end(call.place)
            self._outbox.drop_all(call.keys[0], call.token)
        for token in {token for token, _ in places}:
            self._submissions.remove(token)
        if shutil.which("squeue"):
            self._queue.update(places)
            self._queue.cancel(places)
        self._calls = []

    def ended(self) -> list[tuple[JobKey, Attempt | None]]:
        """The jobs that have left Slurm's queue, with their results if there are any. It may take a
        while until this host sees the results, so Slurm is asked twice."""
        if not self._calls:
            return []
        require_slurm()
        if not self._queue.update([call.place for call in self._calls]):
            return []
        before = self._gone
        self._gone = [call for call in self._calls if not self._is_queued(call)]
        gone = [call for call in self._gone if call in before]
        tokens = self._outbox.tokens() if gone else {}
        found: list[tuple[JobKey, Attempt | None]] = []
        for call in gone:
            self._end(call)
            left = self._outbox.left(call.keys, call.token, tokens)
            attempts = {attempt.job.key: attempt for attempt in left}
            found += [(key, attempts.get(key)) for key in call.keys]
        return found

    def _is_queued(self, call: SubmittedCall) -> bool:
        """Whether the job of a call waits or runs. One that Slurm holds, because a node could not
        start it, would wait for ever: it is cancelled when its call ends."""
        job = self._queue.find(call.place)
        return job is not None and not job.ended and not job.launch_failed

    def _end(self, call: SubmittedCall) -> None:
        """Note that a call has ended, and remove its folder with the last one of its submission."""
        self._calls.remove(call)
        self._queue.cancel([call.place])
        self._submissions.end(call.place)
        self._outbox.drop_all(call.keys[0], call.token)
        if call.place[0] not in {other.place[0] for other in self._calls}:
            self._submissions.remove(call.place[0])


def _token(running: RunningJobs) -> str:
    return running.path.name.partition(".")[2]
