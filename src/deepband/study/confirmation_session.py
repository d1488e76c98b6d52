"""The repetitions of a confirmation as jobs for the loop.

Their files are in a folder of their own, and nothing that a repetition saves is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from deepband.core.facts import Confirmed, JobKey, Outcome, own_copy
from deepband.core.records import Job
from deepband.core.state import State
from deepband.errors import JobError
from deepband.execution.context import training_seed
from deepband.execution.outbox import JOBS, OUTPUT, RESULTS
from deepband.execution.progress import RunMeter
from deepband.execution.submissions import SUBMISSIONS
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep
from deepband.study.confirmation_meter import ConfirmationMeter
from deepband.study.repetitions import Repetition, job_bracket, repetition_of
from deepband.study.session import Session
from deepband.system import plain_files

FOLDER = "confirmations"

Found = TypeVar("Found")


class ConfirmationSession:
    """Repetitions of an open study as jobs for the loop."""

    learns = False
    parallel = None
    keep = Keep(False, 0)

    def __init__(self, session: Session, wanted: Sequence[Repetition]) -> None:
        self._session = session
        self._wanted = wanted
        self._running: set[Repetition] = set()

    @property
    def state(self) -> State:
        return self._session.state

    @property
    def persistent(self) -> bool:
        return self._session.persistent

    @property
    def files(self) -> Path:
        return self._session.files / FOLDER

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.files / "checkpoints" / self.state.created.study)

    @property
    def done(self) -> bool:
        return all(each in self.state.confirmations for each in self._wanted)

    @property
    def has_ready_job(self) -> bool:
        return any(self._is_ready(each) for each in self._wanted)

    def lock(self) -> None:
        self._session.lock()

    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None:
        return self._session.read_state(function, seconds)

    def meter(self, workers: int, begun: float) -> ConfirmationMeter:
        return ConfirmationMeter(self._wanted, RunMeter(workers, begun))

    def ask(self) -> Job | None:
        ready = (each for each in self._wanted if self._is_ready(each))
        found = next(ready, None)
        return None if found is None else self._hand_out(found)

    def ready_batch(self) -> list[JobKey]:
        """The jobs of all repetitions on the lowest rung that can start."""
        ready = [each for each in self._wanted if self._is_ready(each)]
        lowest = min((each[2] for each in ready), default=0)
        return [(job_bracket(each), *each[1:3]) for each in ready if each[2] == lowest]

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """The jobs of those repetitions that can start, including repetitions of earlier calls."""
        found = map(repetition_of, keys)
        return [self._hand_out(each) for each in found if self._is_ready(each)]

    def expects(self, job: Job) -> bool:
        found = repetition_of(job.key)
        same_study = job.study == self.state.created.study
        return same_study and self._is_open(found) and self._config(found) == job.config

    def release(self, job: Job) -> None:
        self._running.discard(repetition_of(job.key))

    def record_outcomes(
        self, pairs: Iterable[tuple[Job, Outcome]], origin: str | None = None
    ) -> None:
        self.lock()
        facts = []
        for job, outcome in pairs:
            found = repetition_of(job.key)
            if not self._is_open(found):
                raise JobError(*found[:3], f"it has no repetition {found[3]} to record.")
            facts.append(Confirmed(*found, *outcome[:4]))
        self._session.record(facts)
        self._running -= {fact.key for fact in facts}

    def resumable(self, job: Job) -> list[int]:
        return []

    def seed(self, job: Job) -> int:
        return training_seed(self.state.created.seed, *repetition_of(job.key))

    def watch(self, job: Job) -> None:
        """A repetition is never stopped early."""

    def remove_empty_folders(self) -> None:
        """Remove the folders that are now empty."""
        root, study = self._session.files, self.state.created.study
        saved = ("checkpoints", study, "attempts"), ("checkpoints", study), ("checkpoints",)
        for names in (*saved, (JOBS,), (RESULTS,), (OUTPUT,), (SUBMISSIONS,), ()):
            plain_files.remove_empty_folder(root, FOLDER, *names)

    def _is_open(self, found: Repetition) -> bool:
        """Whether the result of a repetition can be recorded: its config has a loss there."""
        bracket, index, rung, _ = found
        result = self.state.results.get((bracket, rung), {}).get(index)
        evaluated = result is not None and result.loss is not None
        return evaluated and found[3] > 0 and found not in self.state.confirmations

    def _is_ready(self, found: Repetition) -> bool:
        return found not in self._running and self._is_open(found)

    def _hand_out(self, found: Repetition) -> Job:
        self._running.add(found)
        _, index, rung, _ = found
        budget, study = self.state.run.budgets[rung], self.state.created.study
        return Job(job_bracket(found), index, rung, budget, own_copy(self._config(found)), study)

    def _config(self, found: Repetition) -> dict[str, object]:
        return self.state.config(found[0], found[1])
