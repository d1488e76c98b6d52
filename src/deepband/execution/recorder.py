"""Recording outcomes: first their checkpoints, then the results, then what has become superfluous.

If the first evaluations all fail, the objective is at fault, so failures are held back until there
is a success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from deepband.core.facts import JobKey
from deepband.core.records import Attempt, Job
from deepband.errors import ObjectiveError
from deepband.execution.checkpoint_cleanup import CheckpointCleanup
from deepband.execution.job_session import JobSession
from deepband.execution.outbox import Outbox
from deepband.execution.shared_use import SharedUse, SoleUse
from deepband.storage.checkpoints import Checkpoints

DIVERGED = "the objective reported a loss that is infinite or NaN, and stopped"


class Recorder:
    """Records the outcomes of attempts in a study."""

    def __init__(
        self,
        session: JobSession,
        checkpoints: Checkpoints | None,
        outbox: Outbox | None,
        first_failures: int,
        shared: SharedUse | None = None,
    ) -> None:
        self.pending: list[Attempt] = []
        """Outcomes that are not recorded yet: for a moment, or as long as there are only first
        failures."""
        self.any_failed = False
        """Whether any outcome is a failure."""
        self.recorded: Callable[[], None] | None = None
        """Called after each commit."""
        self._session = session
        self._checkpoints = checkpoints
        self._outbox = outbox
        self._shared = shared or SoleUse(session)
        self._cleanup = CheckpointCleanup(session, checkpoints) if checkpoints else None
        self._first_failures = first_failures
        self._trusted = not first_failures
        self._left: list[JobKey] = []
        """Jobs whose result files are removed after the next commit."""

    def take(self, attempts: Sequence[Attempt], conclusive: bool = True) -> None:
        """Take outcomes that are to be recorded. Raises ObjectiveError if all of them failed or
        diverged, and they are enough, unless others of the same call may still succeed."""
        self.pending += attempts
        self.any_failed |= any(attempt.outcome.loss is None for attempt in attempts)
        if self._trusted or not attempts:
            return
        if any(each.outcome.succeeded for each in attempts) or self._shared.any_succeeded:
            self._trusted = True
        elif conclusive and len(self.pending) >= self._first_failures:
            first = self.pending[: self._first_failures]
            errors = [each.outcome.error or DIVERGED for each in first]
            raise ObjectiveError(errors, _hint(self.pending[0]))

    def clear_later(self, keys: Iterable[JobKey]) -> None:
        """Remove the result files of jobs when everything that is pending then is recorded: a file
        may contain several results."""
        self._left += keys

    def prune_recorded(self, job: Job) -> None:
        """Remove what a driver that was killed has not removed after it recorded a job."""
        if self._cleanup:
            self._cleanup.prune_recorded(job)

    def record_trusted(self) -> None:
        """Record the outcomes, unless there are only first failures."""
        if self._trusted:
            self.record()

    def record(self) -> None:
        """Record all outcomes; from now on, failures are recorded at once."""
        attempts, self._trusted = list(self.pending), True
        if not attempts:
            if self._left:
                self._clear(())
            return
        with self._shared.turn():
            self._record(self._shared.wanted(attempts))
        self._clear(attempt.job.key for attempt in attempts)
        if self.recorded:
            self.recorded()

    def _record(self, attempts: Sequence[Attempt]) -> None:
        if self._cleanup:
            self._cleanup.begin()
        self._accept(attempts)
        self._session.record_outcomes([(each.job, each.outcome) for each in attempts])
        self.pending.clear()
        if self._cleanup:
            self._cleanup.prune([attempt.job for attempt in attempts])

    def disown(self, running: Iterable[JobKey]) -> None:
        """Remove the results of these jobs and of the pending ones: the objective is at fault."""
        self._clear([*running, *(attempt.job.key for attempt in self.pending)])

    def _accept(self, attempts: Sequence[Attempt]) -> None:
        """Turn what attempts saved into the checkpoints of their jobs."""
        for attempt in attempts:
            if self._checkpoints and attempt.saved is not None:
                with suppress(OSError):  # then it has a result without a checkpoint
                    self._checkpoints.accept(attempt.job.key, attempt.saved)

    def _clear(self, keys: Iterable[JobKey]) -> None:
        """Remove the result files of these jobs, and those that are left."""
        if self._outbox:
            self._outbox.clear([*keys, *self._left])
        self._left.clear()


def _hint(failed: Attempt) -> str:
    """The likely cause of a failure, if it is a fractional budget used as a count, or a list used
    as a config."""
    budget, error = failed.job.budget, failed.outcome.error or ""
    if "indices must be integers" in error.partition("\n")[0]:
        return (
            "If the objective takes a list of configs, give batch=True; if it takes one config, "
            "leave out `batch`. "
        )
    if isinstance(budget, int) or "as an integer" not in error:
        return ""
    return (
        f"The budget of the first one is {budget:.6g}, which is not a whole number: make the study "
        "with integer_budgets=True, or use int(budget). "
    )
