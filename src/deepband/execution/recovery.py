"""What an earlier driver left behind: results that are not recorded, and jobs that still run."""

from __future__ import annotations

import time

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.execution.job_session import JobSession
from deepband.execution.orphans import Orphans
from deepband.execution.outbox import Outbox
from deepband.execution.pace import Started
from deepband.execution.recorder import Recorder
from deepband.execution.shared_use import SharedUse


class Recovery:
    """Finds what workers of another driver left, and waits for those that are still running."""

    def __init__(
        self,
        session: JobSession,
        outbox: Outbox,
        recorder: Recorder,
        shared: SharedUse,
        running: dict[JobKey, Started],
        wait: bool,
    ) -> None:
        """Jobs that still run are added to `running`, or given up unless `wait` is True."""
        self._session = session
        self._outbox = outbox
        self._recorder = recorder
        self._shared = shared
        self._running = running
        self._wait = wait
        self._orphans: Orphans | None = None

    def find(self) -> list[Attempt]:
        """The results that were left and can be recorded. Jobs that still run are marked as
        running. What belongs to leased jobs is left alone."""
        orphans = self._orphans = self._orphans or Orphans(self._outbox)
        self._find_running(orphans)
        is_taken, running = self._shared.is_taken, set(orphans.keys)
        found: list[Attempt] = []
        for attempts in self._outbox.waiting():
            keys = {attempt.job.key for attempt in attempts}
            if running.isdisjoint(keys) and not any(map(is_taken, keys)):
                found += attempts
        wanted = [attempt for attempt in found if self._wants(attempt)]
        self._recorder.clear_later([attempt.job.key for attempt in found])
        return wanted

    def ended(self) -> list[Attempt]:
        """The results of the jobs that have ended since the last call. Those that left none are
        released."""
        wanted: list[Attempt] = []
        ended = self._orphans.ended() if self._orphans else []
        for key, attempt in ended:
            started = self._running.pop(key, None)
            if started is not None and attempt is not None and self._expects(attempt):
                wanted.append(attempt)
            elif started is not None:
                self._session.release(started.job)
        if ended:
            self._recorder.clear_later([key for key, attempt in ended if attempt is not None])
        return wanted

    def _find_running(self, orphans: Orphans) -> None:
        is_taken, known = self._shared.is_taken, set(orphans.keys)
        self._outbox.sweep(lambda key: key in known or is_taken(key))
        new = orphans.find(is_taken)
        if not self._wait:
            orphans.give_up(new)
            new = []
        for job in self._session.reserve(new):  # so that they are not handed out again
            since = time.monotonic() - orphans.seconds(job.key)
            self._running[job.key] = Started(job, since)

    def _wants(self, attempt: Attempt) -> bool:
        """Whether a result that was found is recorded. Its job is then marked as running."""
        reserved = self._session.reserve([attempt.job.key])
        if reserved and self._expects(attempt):
            return True
        for job in reserved:
            self._session.release(job)
        self._recorder.prune_recorded(attempt.job)
        return False

    def _expects(self, attempt: Attempt) -> bool:
        """Whether a result belongs to an open job, and has a loss for each objective."""
        fits = self._session.state.criteria.fits(attempt.outcome.loss)
        return fits and self._session.expects(attempt.job)
