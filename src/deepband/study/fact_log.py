"""The facts of an open study: stored, applied to its state, and sent to observers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from deepband.core import hyperband
from deepband.core.facts import (
    Confirmed,
    Fact,
    JobFinished,
    JobReleased,
    JobSkipped,
    JobsStarted,
    RunStopped,
)
from deepband.core.shared_results import SharedResults
from deepband.core.state import State
from deepband.errors import ClosedError, GoneError, StorageError
from deepband.samplers.source import ConfigSource
from deepband.storage import Storage, state_of
from deepband.study.observers import Observer, Observers, history
from deepband.study.thread_safety import MethodLock, synchronized

if TYPE_CHECKING:
    from deepband.core.virtual_schedule import VirtualSchedule
    from deepband.study.omissions import Omissions

SECONDS_TO_WAIT = 30.0
"""How long a call that uses leases waits for another process to unlock the study."""


@synchronized(free={"parallel", "turn", "omitting"})
class FactLog:
    """A study's storage, its state, and its observers."""

    def __init__(self, storage: Storage, state: State, source: ConfigSource) -> None:
        self.storage = storage
        self.source = source
        self.state = state
        """Everything recorded so far. Read it; only `record` changes it."""
        self.learns = source.sampler.learns
        """Whether the sampler uses earlier results."""
        self._closed = False
        self._observers: Observers | None = None
        self._unsaved: tuple[Fact, ...] = ()
        """Facts recorded after the study's file was lost: in the state, and nowhere else."""
        self._shared = SharedResults() if state.created.reuse_identical else None
        self._omissions: Omissions | None = None
        """Decides what is not evaluated, or not to the end, while `optimize` runs."""
        self._entered: list[Omissions] = []
        """Those of all threads that run `optimize`. The last one decides."""
        self._simulated: VirtualSchedule | None = None
        self._method_lock = MethodLock()
        self._keeps_lock = False
        """Whether a call has locked the study until it is closed."""
        self._in_turn = False
        self._had_turns = False

    @property
    def parallel(self) -> int | None:
        """How many jobs at a time a sampler that learns can supply with new configs. None if it
        does not learn: then any config can be sampled at any time."""
        return self.state.created.parallel if self.learns else None

    @property
    def _virtual(self) -> VirtualSchedule | None:
        """The simulation that says when configs are sampled, if the sampler learns."""
        if not self.learns:
            return None
        from deepband.core.virtual_schedule import VirtualSchedule

        simulated, held = self._simulated, self._undecided
        if simulated is None or simulated.run != self.state.run.number:
            simulated = self._simulated = VirtualSchedule(self.state, held)
        else:
            simulated.advance(self.state, held)
        return simulated

    @property
    def _undecided(self) -> Collection[int]:
        """The brackets whose promotions wait for a decision whether they are skipped."""
        return self._omissions.undecided(self.state) if self._omissions else ()

    @property
    def _held(self) -> Collection[int]:
        """The brackets of which no job can start."""
        return self._omissions.held(self.state) if self._omissions else ()

    @property
    def has_unsaved(self) -> bool:
        """Whether results were recorded after the study's file was lost."""
        return bool(self._unsaved)

    def check_unlocked(self) -> None:
        """Raise LockedError if another process has locked the study, which stays unlocked."""
        self.storage.check_unlocked()

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
        now = time.time()
        if self._had_turns and not any(self.state.is_leased(key, now) for key in self.state.leases):
            with suppress(StorageError):  # another process uses the study
                self.storage.check_unlocked()  # which removes an empty folder

    @contextmanager
    def turn(self, seconds: float = SECONDS_TO_WAIT) -> Iterator[None]:
        """Lock the study for one call, unless it is locked until it is closed: within this block,
        the state is up to date and no other process writes. Raises LockedError if another process
        has locked it for longer than this."""
        with self._method_lock.lock:
            if self._closed:
                raise ClosedError
            if self._observers:
                self._observers.check_quiet()
            if self._keeps_lock or self._in_turn:
                yield
                return
            self._in_turn = self._had_turns = True
            try:
                self._update(self.storage.begin_turn(self.state, seconds))
                yield
            finally:
                self._in_turn = False
                self.storage.end_turn()

    @contextmanager
    def omitting(
        self,
        skip: float | None = None,
        stop: float | None = None,
        stop_training: float | None = None,
    ) -> Iterator[Omissions | None]:
        """Within this block, decide by the risks `skip`, `stop` and `stop_training` what is not
        evaluated, or not to the end. A run that was stopped with a larger risk continues. Locks the
        study until it is closed."""
        own: list[Omissions] = []
        with self._method_lock.lock:
            self._lock_storage()  # nothing is derived before it is known what is omitted
            if (skip, stop, stop_training) != (None, None, None):
                from deepband.study.omissions import Omissions

                own.append(Omissions(self.state, self.source, skip, stop, stop_training))
            self._omit(self._entered + own)
        try:
            with self._method_lock.lock:
                self._continue_run()
                with suppress(GoneError):  # then they are kept like any other result
                    self._store_derived(())
            yield own[0] if own else None
        finally:
            with self._method_lock.lock:
                self._omit([each for each in self._entered if each not in own])

    def _omit(self, entered: list[Omissions]) -> None:
        self._entered, self._omissions = entered, entered[-1] if entered else None

    def _continue_run(self) -> None:
        """Take the stop of the current run back, unless it would be stopped again."""
        stopped = self.state.run.stopped
        if stopped is not None and not (self._omissions and self._omissions.keeps(stopped)):
            self._store([RunStopped(self.state.run.number, None)])

    def _update(self, news: Sequence[Fact] | None) -> None:
        """Apply what other processes have written, or load everything again."""
        if news is None:
            self._reload()
        elif news:
            self._disrupt(news)
            try:
                self.state.apply(news)
            except Exception:  # the state is now half updated
                news = None
                self._reload()
        if news and self._observers:
            self._observers.tell(news)
        if self._derives:
            with suppress(GoneError):  # then they are kept like any other result
                self._store_derived(news or ())

    def _lock(self) -> None:
        """Become the only process that writes to the study, or raise LockedError. Every method that
        writes does this first. The lock is held until `close` or, within a turn, until its end."""
        self._lock_storage()
        if self._derives:
            with suppress(GoneError):  # then they are kept like any other result
                self._store_derived(())

    def _lock_storage(self) -> None:
        """The same, without recording what follows from recorded facts."""
        if self._closed:
            raise ClosedError
        if self._observers:
            self._observers.check_quiet()
        if self.storage.lock():
            self._reload()
        self._keeps_lock = self._keeps_lock or not self._in_turn

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

    def _record(self, facts: Sequence[Fact]) -> None:
        """Store facts, then apply them to the state. The caller has called `lock`."""
        if not self._derives:
            self._store(facts)
            return
        try:
            self._store(facts)
        except BaseException:
            self._forget_due()
            raise
        self._store_derived(facts)

    @property
    def _derives(self) -> bool:
        """Whether facts may follow from others."""
        return bool(self._shared or self._omissions)

    def _store_derived(self, facts: Sequence[Fact]) -> None:
        """Store what follows from these facts: skipped promotions first, then the end of the run,
        then the results that equal configs share. If the process dies before, the next one does
        it."""
        new = list(facts)
        try:
            while True:
                while self._omissions and (decided := self._omissions.due(self.state)):
                    self._store(decided)
                    new += decided
                shared = self._due_shares(new)
                if not shared:
                    return
                self._store(shared)
                new = [*shared]
        except BaseException:
            self._forget_due()
            raise

    def _due_shares(self, facts: Sequence[Fact]) -> list[JobFinished]:
        if self._shared is None:
            return []
        return self._shared.due(self.state, facts, time.time(), self._held)

    def _forget_due(self) -> None:
        """Let what was due be due again."""
        if self._shared is not None:
            self._shared = SharedResults()

    def _disrupt(self, facts: Sequence[Fact]) -> None:
        """Start the simulation again if facts change a part of it."""
        if self._simulated is not None and any(map(self._simulated.is_disrupted_by, facts)):
            self._simulated = None

    def _store(self, facts: Sequence[Fact]) -> None:
        self._disrupt(facts)
        try:
            self.storage.append([*self._unsaved, *facts] if self._unsaved else facts)
        except GoneError:
            kept = JobFinished | JobSkipped | RunStopped | JobReleased | Confirmed
            if any(isinstance(fact, kept) for fact in facts):
                self.state.apply(facts)  # a result must not be lost
                self._unsaved += tuple(facts)
            raise
        self.state.apply(facts)
        if self._observers:
            self._observers.tell([*self._unsaved, *facts])
        self._unsaved = ()

    def _move(self, storage: Storage) -> None:
        """Continue with a storage that has all facts, the unsaved ones too."""
        unsaved, self._unsaved = self._unsaved, ()
        self.storage.close()
        self.storage = storage
        if self._closed:
            storage.close()
        if self._observers and unsaved:
            self._observers.tell(unsaved)

    # The same for callers that do not hold the method lock.
    lock, record, virtual = _lock, _record, _virtual
