"""An open study as the rest of deepband uses it: its facts, its jobs, its runs and its checkpoints.

`Study` is what users see of it. The loop that runs jobs, the command line, the page and the
integrations work with the session.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from deepband.core import hyperband
from deepband.core.facts import (
    JobFinished,
    JobKey,
    JobReleased,
    JobsLeased,
    JobsStarted,
    ObjectiveNamed,
    Outcome,
    SpaceChange,
    fact_of,
)
from deepband.core.jobs import check_open, is_expected, jobs_of, resumable_rungs
from deepband.core.records import Job
from deepband.core.runs import started
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.core.strategies import StrategyName
from deepband.errors import InputError, JobError, UnfinishedError, shown
from deepband.samplers import Sampler
from deepband.samplers.source import ConfigSource
from deepband.space.search_space import Space
from deepband.storage import MemoryStorage, Storage
from deepband.storage.checkpoints import Checkpoints, Inherited
from deepband.storage.retention import Keep, retraining_cost
from deepband.study.fact_log import FactLog
from deepband.study.observers import history
from deepband.study.thread_safety import MethodLock, synchronized

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from deepband.analysis.quote import Quote
    from deepband.execution.progress import Meter
    from deepband.execution.training_watch import TrainingWatch

    SpaceSpec: TypeAlias = Space | ConfigurationSpace | Mapping[str, Any]
    """What users may give as a search space."""

Found = TypeVar("Found")
FREE = {"name", "maximize", "persistent", "files", "checkpoints", "done", "read_state"}
"""What any thread may read at any time: it is one value, never changes, or is locked by itself."""


@synchronized(free=FREE)
class Session(FactLog):
    """A study that this process has opened."""

    def __init__(
        self,
        storage: Storage,
        state: State,
        source: ConfigSource,
        keep: Keep,
        inherited: Inherited | None = None,
    ) -> None:
        super().__init__(storage, state, source)
        self.keep = keep
        self._inherited = inherited
        """The checkpoints of the study that this one is a copy of."""
        self.confirming = MethodLock()
        """Held by the thread that runs repetitions."""
        self._forget: Callable[[], object] | None = None
        """Removes the temporary folder of a study in memory."""

    # What it is

    @property
    def name(self) -> str:
        """The name of the study's file, or "in memory"."""
        return self.storage.path.name if self.storage.path else "in memory"

    @property
    def maximize(self) -> bool:
        """Whether the larger of two values is better."""
        return self.state.created.maximize

    @property
    def space(self) -> Space:
        """The search space."""
        return self.source.space(self.state)

    @property
    def persistent(self) -> bool:
        """Whether the study outlives this process."""
        return self.storage.path is not None

    @property
    def done(self) -> bool:
        """Whether every job of the current run has a result."""
        return hyperband.is_done(self.state)

    def check_done(self, action: str) -> None:
        """Raise UnfinishedError if the current run still has open jobs."""
        if not self.done:
            raise UnfinishedError(action, hyperband.open_jobs(self.state))

    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None:
        """What a function of the state returns. It is called while no other thread uses the study;
        if that takes longer than this many seconds, it is not called, and None is returned."""
        if not self._method_lock.lock.acquire(timeout=seconds):
            return None
        try:
            return function(self.state)
        finally:
            self._method_lock.lock.release()

    def meter(self, workers: int, begun: float) -> Meter:
        """What measures a call that began at this time and has this many workers."""
        from deepband.execution.progress import RunMeter

        return RunMeter(workers, begun)

    def name_objective(self, objective: str) -> None:
        """Record what is evaluated, such as "train.py:objective"."""
        check_text("the objective", objective, "give a text such as 'train.py:objective'.")
        self._lock_storage()
        if objective != self.state.objective:
            self._store([ObjectiveNamed(objective)])

    # Runs

    def start_run(
        self, strategy: StrategyName, schedule: Schedule, change: SpaceChange | None = None
    ) -> None:
        """Start a run with a larger schedule, and with another space if there is a change."""
        self._lock()
        self._record([started(self.state.run.number + 1, strategy, schedule, change)])

    def quote(self, strategy: StrategyName, schedule: Schedule | None) -> Quote:
        """What a run with a larger schedule costs; None if there is nothing to do."""
        from deepband.analysis.quote_computation import quote

        found = quote(self.state, strategy, schedule)
        if schedule is None:
            return found
        return replace(found, retraining=self.retraining_cost(strategy, schedule))

    def retraining_cost(self, strategy: StrategyName, schedule: Schedule | None = None) -> Fraction:
        """The most that the next deepening, or a run with this schedule, may train again because
        checkpoints are missing. Zero if the objective saves none, as far as that is known: a study
        that keeps none does not know it."""
        readable = self._readable
        if readable is None or not (readable.exist or self._keeps_nothing):
            return Fraction(0)
        return retraining_cost(self.state, readable.available(), strategy, schedule)

    @property
    def _keeps_nothing(self) -> bool:
        """Whether an objective that could save something was used, and nothing is kept."""
        return self.keep.nothing and self._saves and self.checkpoints.folder.is_dir()

    # Jobs

    def ask(self) -> Job | None:
        """The next job that can start, marked as running; None if there is none."""
        self._lock()
        key = next(self._startable(), None)
        return None if key is None else self._hand_out([key])[0]

    def ask_all(self, limit: int | None = None) -> list[Job]:
        """All jobs that can start, or at most this many, marked as running."""
        self._lock()
        keys = self.startable(limit)
        return self._hand_out(keys) if keys else []

    def ask_batch(self, limit: int | None = None) -> list[Job]:
        """The jobs with the lowest budget that can start, marked as running."""
        return self.reserve(self.ready_batch()[:limit])

    def ready_batch(self) -> list[JobKey]:
        """The jobs with the lowest budget that can start."""
        self._lock()
        keys = list(self._startable())
        lowest = min((rung for _, _, rung in keys), default=0)
        return [key for key in keys if key[2] == lowest]

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """Those of these jobs that can start, marked as running."""
        self._lock()
        wanted = self.ready_among(keys)
        return self._hand_out(wanted) if wanted else []

    def ready_among(self, keys: Iterable[JobKey]) -> list[JobKey]:
        """Those of these jobs that can start."""
        state, virtual, now = self.state, self._virtual, self._now
        return [key for key in keys if hyperband.is_ready(state, *key, virtual, now)]

    def startable(self, limit: int | None) -> list[JobKey]:
        """The jobs that can start, in order; at most this many."""
        return list(islice(self._startable(), limit))

    @property
    def has_ready_job(self) -> bool:
        """Whether there is a job that can start."""
        return next(self._startable(), None) is not None

    def _startable(self) -> Iterator[JobKey]:
        """The jobs that can start, in order. If equal configs share results, those that wait for
        one cannot; to know them, their configs are sampled first. Neither can promotions that are
        perhaps skipped."""
        if self._shared is None:
            return self._without_held(hyperband.ready_jobs(self.state, self._virtual, self._now))
        while unsampled := self._unsampled():
            self._create_configs(unsampled)
        shared, state = self._shared, self.state
        keys = self._without_held(hyperband.ready_jobs(state, self._virtual, self._now))
        return (key for key in keys if not shared.waits(state, *key[:2]))

    def _without_held(self, keys: Iterator[JobKey]) -> Iterator[JobKey]:
        held = self._held
        return (key for key in keys if key[0] not in held) if held else keys

    @property
    def _now(self) -> float | None:
        """The time, if it matters: while there are leases."""
        return time.time() if self.state.leases else None

    def _unsampled(self) -> list[JobKey]:
        """The jobs that can start as soon as their configs are sampled."""
        sampled = [len(configs) for configs in self.state.configs]
        fronts = enumerate(self.state.progress)
        if not any(front.waiting and front.waiting[0] >= sampled[of] for of, front in fronts):
            return []
        keys = self._without_held(hyperband.ready_jobs(self.state, self._virtual))
        return [key for key in keys if key[1] >= sampled[key[0]]]

    def _create_configs(self, keys: Sequence[JobKey]) -> None:
        """Sample the configs of jobs that have none. Each sample is recorded before the next one,
        which may depend on it."""
        for drawn in self.source.missing(self.state, keys, self._virtual):
            self._record([drawn])

    def _hand_out(self, keys: Sequence[JobKey]) -> list[Job]:
        self._record_with_configs(keys, JobsStarted(tuple(keys)))
        return jobs_of(self.state, keys)

    def lease(self, keys: Sequence[JobKey], lease: JobsLeased) -> list[Job]:
        """The jobs with these keys, after a lease of them is recorded."""
        from deepband.core.leases import job_token

        self._lock()
        self._record_with_configs(keys, lease)
        jobs = jobs_of(self.state, keys)
        return [job._replace(token=job_token(job.key, lease.token)) for job in jobs]

    def _record_with_configs(self, keys: Sequence[JobKey], fact: JobsStarted | JobsLeased) -> None:
        """Record that jobs are handed out, and their configs if they are new."""
        if self.learns:
            self._create_configs(keys)
            self._record([fact])
        else:
            self._record([*self.source.missing(self.state, keys), fact])

    def renew(self, leases: Sequence[JobsLeased]) -> None:
        """Record new ends of leases."""
        self._lock()
        self._record(leases)

    def seed(self, job: Job) -> int:
        """What `context.seed` is."""
        from deepband.execution.context import training_seed  # with numpy

        return training_seed(self.state.created.seed, *job.key)

    def resumable(self, job: Job) -> list[int]:
        """The rungs below a job's own on which its config was evaluated to the end and did not
        fail."""
        return resumable_rungs(self.state, job)

    def watch(self, job: Job) -> TrainingWatch | None:
        """What decides whether the training of a job should stop early; None if nothing does."""
        from deepband.execution.training_watch import TrainingWatch

        criteria = self.state.criteria
        if not criteria.ranks_by_loss:
            return None
        limits = self._omissions.limits(self.state, job.key) if self._omissions else ()
        return TrainingWatch(limits, float(job.budget), criteria.maximize, persistent=True)

    def expects(self, job: Job) -> bool:
        """Whether this is an open job of the study, with the config that the study gave it."""
        return is_expected(self.state, job, self.learns)

    def release(self, job: Job) -> None:
        """Make a job available again."""
        self._lock()
        key = check_open(self.state, job, self.learns)
        if hyperband.is_running(self.state, *key):
            self._record([JobReleased(key)])

    def record_outcomes(
        self, pairs: Iterable[tuple[Job, Outcome]], origin: str | None = None
    ) -> None:
        """Record the outcomes of jobs: all of them, or none if it raises. With an origin, they were
        not evaluated and cost nothing."""
        self._lock()
        state, learns = self.state, self.learns
        run, ahead = state.run.number, state.ahead.running
        finished: dict[JobKey, JobFinished] = {}
        for job, outcome in pairs:
            key = check_open(state, job, learns)
            if key in finished:
                raise JobError(*key, "the same job appears twice in this call.")
            finished[key] = fact_of(key, run + 1 if key in ahead else run, outcome, origin)
        self._record([*self.source.missing(state, finished), *finished.values()])

    # Files

    @cached_property
    def files(self) -> Path:
        """The folder beside the study file, or a temporary one for a study in memory."""
        if self.storage.files is not None:
            return self.storage.files
        folder = mkdtemp(prefix="deepband-")
        self._forget = weakref.finalize(self, rmtree, folder, ignore_errors=True)
        return Path(folder)

    @property
    def checkpoints(self) -> Checkpoints:
        """Where training state is saved."""
        folder = self.files / "checkpoints" / self.state.created.study
        return Checkpoints(folder, self._inherited)

    @property
    def find_checkpoint(self) -> Callable[[JobKey], Path | None] | None:
        """The function that returns the folder of a job's checkpoint if it is intact, otherwise
        None. None in place of the function if there cannot be any checkpoints."""
        readable = self._readable
        return readable.intact if readable else None

    @property
    def _readable(self) -> Checkpoints | Inherited | None:
        """The checkpoints that can be read, if there may be any. This creates no folder."""
        return self.checkpoints if self._saves else self._inherited

    @property
    def _saves(self) -> bool:
        """Whether there may be checkpoints: a study in memory has a folder only once it needs
        one."""
        return self.persistent or "files" in vars(self)

    @property
    def inheritance(self) -> Inherited | None:
        """The checkpoints that a copy of this study can read."""
        readable, results = self._readable, self.state.all_results()
        keys = ((each.bracket, each.index, each.rung) for each in results if each.loss is not None)
        return Inherited(readable, frozenset(keys)) if readable and readable.exist else None

    def copy(self, sampler: Sampler | None) -> Session:
        """A copy in memory, which can read the checkpoints of this study."""
        state = self.state.copy()
        storage, source = MemoryStorage(history(state)), self.source.copy(state, sampler)
        return Session(storage, state, source, self.keep, self.inheritance)

    def save_as(self, path: str | os.PathLike[str]) -> None:
        """Write the study to a new file, with its checkpoints, and continue there."""
        from deepband.storage.copies import write_copy
        from deepband.storage.sqlite import SqliteStorage
        from deepband.storage.storable_values import check_storable

        storage = SqliteStorage(path)
        if storage.path.exists():
            raise InputError(f"{storage.path} exists already: give the path of a new file.")
        for space in (self.state.created.space, *(each.space for each in self.state.changes)):
            check_storable(space)
        write_copy(storage, self.state.created.study, history(self.state), self._readable)
        self._inherited = None  # they are part of the new file
        self._move(storage)
        vars(self).pop("files", None)

    def close(self) -> None:
        """Release the lock and the files. Closing twice does nothing."""
        super().close()
        if self._forget is not None:
            self._forget()


def check_text(name: str, given: object, advice: str) -> None:
    """Raise an InputError unless it is a text that a file can store."""
    if not isinstance(given, str) or not given or given != given.encode(errors="ignore").decode():
        raise InputError(f"{name} is {shown(given)}: {advice}")
