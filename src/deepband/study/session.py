"""An open study as the rest of deepband uses it: its state, its storage, its checkpoints, and the
one place where facts are recorded and applied.

`Study` is what users see of it. The loop that runs jobs, the command line, the page and the
integrations work with the session.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from deepband.core import hyperband
from deepband.core.facts import (
    Confirmed,
    Fact,
    JobFinished,
    JobKey,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    Outcome,
    SpaceChange,
    fact_of,
    own_copy,
)
from deepband.core.records import Job, whole_key
from deepband.core.runs import started
from deepband.core.schedule import Schedule
from deepband.core.shared_results import SharedResults
from deepband.core.state import State
from deepband.core.strategies import StrategyName
from deepband.core.virtual_schedule import VirtualSchedule, is_disruptive
from deepband.errors import (
    ClosedError,
    GoneError,
    InputError,
    JobError,
    StorageError,
    UnfinishedError,
    shown,
)
from deepband.samplers.source import ConfigSource
from deepband.space.search_space import Space
from deepband.storage import Storage, state_of
from deepband.storage.checkpoints import Checkpoints, Inherited
from deepband.storage.retention import Keep, retraining_cost
from deepband.study.observers import Observer, Observers, history
from deepband.study.thread_safety import MethodLock, synchronized

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from deepband.analysis.quote import Quote
    from deepband.execution.progress import Meter

    SpaceSpec: TypeAlias = Space | ConfigurationSpace | Mapping[str, Any]
    """What users may give as a search space."""

Found = TypeVar("Found")
FREE = {
    "name",
    "maximize",
    "parallel",
    "persistent",
    "files",
    "checkpoints",
    "done",
    "read_state",
}
"""What any thread may read at any time: it is one value, never changes, or is locked by itself."""


@synchronized(free=FREE)
class Session:
    """A study that this process has opened."""

    def __init__(
        self,
        storage: Storage,
        state: State,
        source: ConfigSource,
        keep: Keep,
        inherited: Inherited | None = None,
    ) -> None:
        self.storage = storage
        self.state = state
        """Everything recorded so far. Read it; only `record` changes it."""
        self.source = source
        self.learns = source.sampler.learns
        """Whether the sampler uses earlier results."""
        self.keep = keep
        self._inherited = inherited
        """The checkpoints of the study that this one is a copy of."""
        self._closed = False
        self._observers: Observers | None = None
        self._unsaved: tuple[Fact, ...] = ()
        """Facts recorded after the study's file was lost: in the state, and nowhere else."""
        self._shared = SharedResults() if state.created.reuse_identical else None
        self._simulated: VirtualSchedule | None = None
        self._method_lock = MethodLock()
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
    def parallel(self) -> int | None:
        """How many jobs at a time a sampler that learns can supply with configs. None if it does
        not learn: then any config can be sampled at any time."""
        return self.state.created.parallel if self.learns else None

    @property
    def persistent(self) -> bool:
        """Whether the study outlives this process."""
        return self.storage.path is not None

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
    def inheritance(self) -> Inherited | None:
        """The checkpoints that a copy of this study can read."""
        readable, results = self._readable, self.state.all_results()
        keys = ((each.bracket, each.index, each.rung) for each in results if each.loss is not None)
        return Inherited(readable, frozenset(keys)) if readable and readable.exist else None

    @property
    def done(self) -> bool:
        """Whether every job of the current run has a result."""
        return hyperband.is_done(self.state)

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

    def check_done(self, action: str) -> None:
        """Raise UnfinishedError if the current run still has open jobs."""
        if not self.done:
            raise UnfinishedError(action, hyperband.open_jobs(self.state))

    def quote(self, strategy: StrategyName, schedule: Schedule | None) -> Quote:
        """What a run with a larger schedule costs; None if there is nothing to do."""
        from deepband.analysis.quote import quote

        found = quote(self.state, strategy, schedule)
        if schedule is None:
            return found
        return replace(found, retraining=self.retraining_cost(strategy, schedule))

    def start_run(
        self, strategy: StrategyName, schedule: Schedule, change: SpaceChange | None = None
    ) -> None:
        """Start a run with a larger schedule, and with another space if there is a change."""
        self._lock()
        self._record([started(self.state.run.number + 1, strategy, schedule, change)])

    def space_change(
        self, given: SpaceSpec | None, added: Mapping[str, Any] | None, reached: bool
    ) -> SpaceChange | None:
        """The change to a space that a user gave, or None if it is the current one. If the target
        is already reached, a space that the study has had is accepted, too."""
        if given is None:
            if added is not None:
                raise InputError("added belongs to a new space: give space, too.")
            return None
        new, state = Space.of(given), self.state
        had = [state.created.space, *(change.space for change in state.changes)]
        if reached and any(not Space.described(each).difference(new) for each in had):
            return None
        if not self.space.difference(new):
            return None
        if reached:
            raise InputError(
                "the study has already been extended so far, with another space. To change the "
                "space, extend it further."
            )
        return self._changed(new, added)

    def _changed(self, new: Space, added: Mapping[str, Any] | None) -> SpaceChange:
        from deepband.space.space_change import combined, read_added
        from deepband.storage.storable_values import check_storable

        # All spaces so far, so that no parameter comes back with another type.
        old = Space.described(combined(self.state)) if self.state.changes else self.space
        values = read_added(old, new, added)
        if self.persistent:
            check_storable(new.description)
        firsts = tuple(map(len, self.state.configs))
        return SpaceChange(new.description, values, firsts)

    def retraining_cost(self, strategy: StrategyName, schedule: Schedule | None = None) -> Fraction:
        """The most that the next deepening, or a run with this schedule, may train again because
        checkpoints are missing. Zero if the objective never saved any."""
        readable = self._readable
        if readable is None or not readable.exist:
            return Fraction(0)
        return retraining_cost(self.state, readable.available(), strategy, schedule)

    # Jobs

    def ask(self) -> Job | None:
        """The next job that can start, marked as running; None if there is none."""
        self._lock()
        if self._shared is None:
            key = hyperband.next_job(self.state, self._virtual)
        else:
            key = next(self._startable(), None)
        return None if key is None else self._hand_out([key])[0]

    def ask_all(self) -> list[Job]:
        """All jobs that can start, marked as running."""
        self._lock()
        keys = list(self._startable())
        return self._hand_out(keys) if keys else []

    @property
    def has_ready_job(self) -> bool:
        """Whether there is a job that can start."""
        return next(self._startable(), None) is not None

    def _startable(self) -> Iterator[JobKey]:
        """The jobs that can start, in order. If equal configs share results, those that wait for
        one cannot; to know them, their configs are sampled first."""
        keys = hyperband.ready_jobs(self.state, self._virtual)
        if self._shared is None:
            return keys
        while keys_without_config := self._unsampled():
            self._create_configs(keys_without_config)
        shared, state = self._shared, self.state
        keys = hyperband.ready_jobs(state, self._virtual)
        return (key for key in keys if not shared.waits(state, *key[:2]))

    def _create_configs(self, keys: Sequence[JobKey]) -> None:
        """Sample the configs of jobs that have none. Each sample is recorded before the next one,
        which may depend on it."""
        for drawn in self.source.missing(self.state, keys, self._virtual):
            self._record([drawn])

    @property
    def _virtual(self) -> VirtualSchedule | None:
        """The simulation that says when configs are sampled, if the sampler learns."""
        if not self.learns:
            return None
        simulated = self._simulated
        if simulated is None or simulated.run != self.state.run.number:
            simulated = self._simulated = VirtualSchedule(self.state)
        else:
            simulated.advance(self.state)
        return simulated

    def _unsampled(self) -> list[JobKey]:
        """The jobs that can start as soon as their configs are sampled."""
        sampled = [len(configs) for configs in self.state.configs]
        fronts = enumerate(self.state.progress)
        if not any(front.waiting and front.waiting[0] >= sampled[of] for of, front in fronts):
            return []
        keys = hyperband.ready_jobs(self.state, self._virtual)
        return [key for key in keys if key[1] >= sampled[key[0]]]

    def resumable(self, job: Job) -> list[int]:
        """The rungs below a job's own on which its config was evaluated and did not fail."""
        bracket, index, top, *_ = job
        found = (
            (rung, self.state.results[bracket, rung].get(index)) for rung in range(bracket, top)
        )
        return [rung for rung, result in found if result and result.loss is not None]

    def seed(self, job: Job) -> int:
        """What `context.seed` is."""
        from deepband.execution.objective import training_seed  # with numpy

        return training_seed(self.state.created.seed, *job.key)

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """Those of these jobs that can start, marked as running."""
        self._lock()
        state, virtual = self.state, self._virtual
        wanted = [key for key in keys if hyperband.is_ready(state, *key, virtual)]
        return self._hand_out(wanted) if wanted else []

    def release(self, job: Job) -> None:
        """Make a job available again."""
        self._lock()
        key = self._check_open(job)
        if hyperband.is_running(self.state, *key):
            self._record([JobReleased(key)])

    def reopen_failed(self) -> int:
        """Make failed evaluations available again, if nothing depends on them yet. Returns how
        many."""
        self._lock()
        failed = tuple(hyperband.failed_jobs(self.state, self._virtual))
        if failed:
            self._record([JobsReopened(failed)])
        return len(failed)

    def expects(self, job: Job) -> bool:
        """Whether this is an open job of the study, with the config that the study gave it."""
        try:
            bracket, index, _ = self._check_open(job)
        except (JobError, InputError):
            return False
        configs = self.state.configs[bracket] if bracket < len(self.state.configs) else []
        return index < len(configs) and self.state.config(bracket, index) == job.config

    def record_outcomes(self, pairs: Iterable[tuple[Job, Outcome]]) -> None:
        """Record the outcomes of jobs: all of them, or none if it raises."""
        self._lock()
        run, ahead = self.state.run.number, self.state.ahead.running
        finished: dict[JobKey, JobFinished] = {}
        for job, outcome in pairs:
            key = self._check_open(job)
            if key in finished:
                raise JobError(*key, "the same job appears twice in this call.")
            finished[key] = fact_of(key, run + 1 if key in ahead else run, outcome)
        self._record([*self.source.missing(self.state, finished), *finished.values()])

    # Recording

    def lock(self) -> None:
        """Become the only process that writes to the study, or raise LockedError. Every method that
        writes does this first; the lock is held until `close`."""
        self._lock()

    def check_unlocked(self) -> None:
        """Raise LockedError if another process has locked the study, which stays unlocked."""
        self.storage.check_unlocked()

    def _lock(self) -> None:
        if self._closed:
            raise ClosedError
        if self._observers:
            self._observers.check_quiet()
        if self.storage.lock():
            self._reload()
        if self._shared is not None:
            with suppress(GoneError):  # then they are kept like any other result
                self._store_shared((), self._shared)

    def record(self, facts: Sequence[Fact]) -> None:
        """Store facts, then apply them to the state. The caller has called `lock`."""
        self._record(facts)

    def _record(self, facts: Sequence[Fact]) -> None:
        if self._shared is None:
            self._store(facts)
        else:
            self._store_shared(facts, self._shared)

    def _store_shared(self, facts: Sequence[Fact], shared: SharedResults) -> None:
        """Store facts, then the results that equal configs share after them. If the process dies in
        between, the next one does the rest."""
        try:
            if facts:
                self._store(facts)
            while facts := shared.due(self.state, facts):
                self._store(facts)
        except BaseException:
            self._shared = SharedResults()  # what was due is due again
            raise

    def _store(self, facts: Sequence[Fact]) -> None:
        if self._simulated is not None and any(map(is_disruptive, facts)):
            self._simulated = None
        try:
            self.storage.append([*self._unsaved, *facts] if self._unsaved else facts)
        except GoneError:
            if any(isinstance(fact, JobFinished | JobReleased | Confirmed) for fact in facts):
                self.state.apply(facts)  # a result must not be lost
                self._unsaved += tuple(facts)
            raise
        self.state.apply(facts)
        if self._observers:
            self._observers.tell([*self._unsaved, *facts])
        self._unsaved = ()

    def name_objective(self, objective: str) -> None:
        """Record what is evaluated, such as "train.py:objective"."""
        check_text("the objective", objective, "give a text such as 'train.py:objective'.")
        self._lock()
        if objective != self.state.objective:
            self._record([ObjectiveNamed(objective)])

    def observe(self, observer: Observer) -> None:
        """Send an observer all facts so far and, until the study is closed, all new ones."""
        if self._observers is None:
            self._observers = Observers()
        self._observers.add(observer, self.state)

    def close(self) -> None:
        """Release the lock and the file. Closing twice does nothing."""
        if self._observers:
            self._observers.check_quiet()
        self._closed = True
        self.storage.close()
        if self._forget is not None:
            self._forget()

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
        folder = self.checkpoints.folder if self._saves else None
        write_copy(storage, history(self.state), folder)
        unsaved, self._unsaved = self._unsaved, ()
        self.storage.close()
        self.storage = storage
        vars(self).pop("files", None)
        if self._closed:
            storage.close()
        if self._observers and unsaved:
            self._observers.tell(unsaved)

    @property
    def _readable(self) -> Checkpoints | Inherited | None:
        """The checkpoints that can be read, if there may be any. This creates no folder."""
        return self.checkpoints if self._saves else self._inherited

    @property
    def _saves(self) -> bool:
        """Whether there may be checkpoints: a study in memory has a folder only once it needs
        one."""
        return self.persistent or "files" in vars(self)

    def _reload(self) -> None:
        """Load what another process has written in the meantime."""
        if self._unsaved:
            raise StorageError(
                self.storage.path or "the study",
                "has changed while it was away, and the study in memory has results that it does "
                "not have. Write those to another file with study.save_as(path).",
            )
        running = hyperband.running_jobs(self.state)
        self.state = state = state_of(self.storage)
        self._shared = SharedResults() if state.created.reuse_identical else None
        self._simulated, virtual = None, self._virtual
        still = tuple(key for key in running if hyperband.is_ready(state, *key, virtual))
        state.apply([JobsStarted(still)])
        if self._observers:
            self._observers.tell(history(state))

    def _hand_out(self, keys: Sequence[JobKey]) -> list[Job]:
        state = self.state
        if self.learns:
            self._create_configs(keys)
        self._record([*self.source.missing(state, keys, self._virtual), JobsStarted(tuple(keys))])
        budgets, study = state.run.budgets, state.created.study
        if max(keys)[0] >= len(budgets):  # ahead, in the next run's new bracket
            budgets = state.coming.job_budgets(state.created.integer_budgets)
        return [
            Job(bracket, index, rung, budgets[rung], own_copy(state.config(bracket, index)), study)
            for bracket, index, rung in keys
        ]

    def _check_open(self, job: Job) -> JobKey:
        if not isinstance(job, Job):
            raise InputError(
                f"{shown(job)} is not a job: give what ask() returned, or a deepband.Job with the "
                "same values."
            )
        bracket, index, rung, _, _, study = job
        if not (type(bracket) is type(index) is type(rung) is int):
            bracket, index, rung = whole_key(job)
        if study and study != self.state.created.study:
            raise JobError(bracket, index, rung, "it belongs to another study.")
        if not hyperband.is_open(self.state, bracket, index, rung):
            known = index in self.state.results.get((bracket, rung), {})
            if known or (bracket, index, rung) in self.state.ahead.results:
                raise JobError(bracket, index, rung, "its result is already recorded.")
            raise JobError(bracket, index, rung, "the current run does not need it.")
        if self.learns and index >= len(self.state.configs[bracket]):
            raise JobError(bracket, index, rung, "its config is not sampled yet: ask for it first.")
        return bracket, index, rung


def check_text(name: str, given: object, advice: str) -> None:
    """Raise an InputError unless it is a text that a file can store."""
    if not isinstance(given, str) or not given or given != given.encode(errors="ignore").decode():
        raise InputError(f"{name} is {shown(given)}: {advice}")
