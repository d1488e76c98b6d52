"""Tasks: jobs with everything that a worker needs to run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from deepband.core.records import Job
from deepband.core.state import State
from deepband.errors import StorageError
from deepband.execution.context import Context
from deepband.execution.objective import Task
from deepband.execution.training_watch import TrainingWatch
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep
from deepband.system.thread_pool import in_threads

PLAIN = {str, int, float, bool, type(None)}
"""Types of values that can be pickled without cloudpickle."""


class JobSource(Protocol):
    """The part of an open study that tasks are made from."""

    @property
    def state(self) -> State: ...
    @property
    def keep(self) -> Keep: ...
    def resumable(self, job: Job) -> list[int]: ...
    def seed(self, job: Job) -> int: ...
    def watch(self, job: Job) -> TrainingWatch | None: ...


class TaskFactory:
    """Makes the tasks of a study. Without checkpoints, they have no context."""

    def __init__(self, session: JobSource, checkpoints: Checkpoints | None) -> None:
        self._session = session
        self._checkpoints = checkpoints

    def tasks(self, jobs: Sequence[Job]) -> list[Task]:
        """The tasks of jobs. Verifying the checkpoints that those of a batch resume from takes
        time, so it is done in several threads."""
        if self._checkpoints is None or len(jobs) == 1:
            return list(map(self._task, jobs))
        return in_threads(self._task, jobs)

    def _task(self, job: Job) -> Task:
        """The task of a job, with a new folder for its checkpoint."""
        context = self.context(job) if self._checkpoints else None
        if not PLAIN.issuperset(map(type, job.config.values())):
            from deepband.execution.executors.serialization import (
                CarriedConfig,  # loads cloudpickle
            )

            job = job._replace(config=CarriedConfig(job.config))
        session = self._session
        return Task(job, context, session.state.criteria, not session.keep.nothing)

    def context(self, job: Job, token: str | None = None) -> Context:
        """The context of a job, whose folder for checkpoints is named after a token."""
        checkpoints, state, key = self._checkpoints, self._session.state, job.key
        assert checkpoints is not None
        nearest = checkpoints.nearest(key, self._session.resumable(job))
        rung, previous = nearest or (None, None)
        path, partial = _begin(checkpoints, job, token)
        watch = self._session.watch(job)
        return Context(
            seed=self._session.seed(job),
            path=path,
            previous=previous,
            previous_budget=0 if rung is None else state.run.budgets[rung],
            previous_rung=rung,
            partial=partial,
            watch=watch and watch.continued(checkpoints.left_watch(key)),
        )


def _begin(
    checkpoints: Checkpoints, job: Job, token: str | None = None
) -> tuple[Path, Path | None]:
    try:
        return checkpoints.begin(job.key, token)
    except OSError as error:
        raise StorageError(checkpoints.folder, f"cannot store checkpoints: {error}.") from error
