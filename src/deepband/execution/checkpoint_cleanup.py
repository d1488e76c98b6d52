"""The cleanup of checkpoints while a study runs: those that `keep` does not keep are removed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from deepband.core.facts import JobKey
from deepband.core.hyperband import is_decided
from deepband.core.records import Job
from deepband.core.state import State
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep, protected, superfluous


class StateHolder(Protocol):
    """The part of an open study that decides which checkpoints are superfluous."""

    @property
    def state(self) -> State: ...
    @property
    def keep(self) -> Keep: ...
    @property
    def done(self) -> bool: ...


class CheckpointCleanup:
    """Removes superfluous checkpoints after results are recorded.

    What cannot be removed now, for example on a full disk, is superfluous next time, too.
    """

    def __init__(self, session: StateHolder, checkpoints: Checkpoints) -> None:
        self.session = session
        self.checkpoints = checkpoints
        self.keep = session.keep
        self._protected = protected(session.state, self.keep)
        """The checkpoints of the best evaluations when superfluous ones were last removed."""

    def begin(self) -> None:
        """Note which evaluations are the best before others are recorded: other processes may have
        recorded results, too."""
        self._protected |= protected(self.session.state, self.keep)

    def prune(self, jobs: Sequence[Job]) -> None:
        """Remove what recorded jobs, or the ends of their rungs, make superfluous."""
        if self.keep.all:
            return
        state = self.session.state
        with suppress(OSError):
            if self.keep.configs is None:
                self._discard_outdated(jobs)
            elif self.session.done or any(is_decided(state, *job.key[::2]) for job in jobs):
                self._discard(superfluous(state, self.keep, self.checkpoints.kept()))

    def prune_recorded(self, job: Job) -> None:
        """Do the same for a driver that recorded a job and was killed before it had removed
        everything. Which evaluation was the best before is no longer known, so this looks at all
        checkpoints."""
        state = self.session.state
        if not self.keep.all and job.index in state.results.get((job.bracket, job.rung), {}):
            with suppress(OSError):
                self._discard(superfluous(state, self.keep, self.checkpoints.found()))

    def _discard_outdated(self, jobs: Sequence[Job]) -> None:
        """Remove the older checkpoints of the jobs' configs, and those of former best evaluations
        whose configs have newer ones."""
        best = protected(self.session.state, self.keep)
        outdated = {key for key in self._protected - best if self._has_newer(key)}
        for bracket, index, rung in (job.key for job in jobs):
            if self.checkpoints.path((bracket, index, rung)).exists():
                outdated |= {(bracket, index, lower) for lower in range(bracket, rung)}
        self._discard(sorted(outdated - best))
        self._protected = best

    def _has_newer(self, key: JobKey) -> bool:
        bracket, index, rung = key
        state = self.session.state
        return any(
            index in state.results.get((bracket, higher), {})
            and self.checkpoints.path((bracket, index, higher)).exists()
            for higher in range(rung + 1, state.schedule.top + 1)
        )

    def _discard(self, keys: list[JobKey]) -> None:
        for key in keys:
            self.checkpoints.discard(key)
