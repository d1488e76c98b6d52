"""A study: ask for jobs, tell their results, deepen when the budget was too small."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from deepband.core import hyperband
from deepband.core.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobKey,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
    own_copy,
)
from deepband.core.placement import facts_to_add, free_place
from deepband.core.records import Attempt, Job, whole_key
from deepband.core.results import read_result
from deepband.core.schedule import Budget
from deepband.core.strategies import StrategyName, check_name
from deepband.errors import (
    ClosedError,
    GoneError,
    InputError,
    JobError,
    StorageError,
    read_index,
    shown,
)
from deepband.execution.executors.base import Timeout
from deepband.execution.loop import Limits
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.samplers import Sampler
from deepband.storage import MemoryStorage, SqliteStorage, state_of
from deepband.storage.codec import check_storable
from deepband.storage.copies import write_copy
from deepband.study.automatic_deepening import read_automatic
from deepband.study.observers import Observer, Observers, history
from deepband.study.thread_safety import synchronized
from deepband.study.view import StudyView

if TYPE_CHECKING:
    from deepband.execution.executors.selection import ExecutorSpec


@synchronized(free=("tell", "add_evaluation", "optimize"))
class Study(StudyView):
    """A study that is open. Made by `open_study`.

    Any thread may call its methods: each call is carried out as a whole, one after another.
    """

    _observers: Observers | None = None
    _unsaved: tuple[Fact, ...] = ()
    """What came after the study's file was gone: in the state, and nowhere else."""

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Running it

    def ask(self) -> Job | None:
        """The next job, handed out once, or None when nothing can start now.

        None does not mean that the run is done: it may wait for jobs that are running.
        """
        self._lock()
        key = hyperband.next_job(self._state, self.group)
        return None if key is None else self._hand_out([key])[0]

    def ask_all(self) -> list[Job]:
        """All jobs that can start now, handed out once."""
        self._lock()
        keys = list(hyperband.ready_jobs(self._state, self.group))
        return self._hand_out(keys) if keys else []

    def release(self, job: Job) -> None:
        """Offer a job that was asked for again, because nobody runs it any more."""
        self._lock()
        key = self._check_open(job)
        if hyperband.is_running(self._state, *key):
            self._record([JobReleased(key)])

    def tell(self, job: Job, result: object) -> None:
        """Record the result of a job, whoever asked for it.

        A result is a real number, a mapping with "loss" (its other values are kept as metrics),
        or an exception for a failed evaluation; NaN is a failure too. Anything else raises, and
        the job stays open.
        """
        self.tell_all([(job, result)])

    def tell_all(self, pairs: Iterable[tuple[Job, object]]) -> None:
        """Record many results together: all of them, or none if it raises."""
        self._lock()
        maximize = self.maximize
        paired = _pairs(pairs, "tell_all takes pairs, [(job, result), ...]")
        self._finish(
            (job, (*read_result(result, maximize), None, None, None)) for job, result in paired
        )

    def tell_attempts(self, attempts: Iterable[Attempt]) -> None:
        """Record what came of running jobs, with how it went."""
        self._lock()
        self._finish((attempt.job, attempt.recorded) for attempt in attempts)

    def expects(self, job: Job) -> bool:
        """Whether this is an open job of the study, as it was handed out."""
        try:
            bracket, index, _ = self._check_open(job)
        except (JobError, InputError):
            return False
        configs = self._state.configs[bracket] if bracket < len(self._state.configs) else []
        return index < len(configs) and configs[index] == job.config

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """Hand out these jobs, as far as they can start now."""
        self._lock()
        state, group = self._state, self.group
        wanted = [key for key in keys if hyperband.is_ready(state, *key, group)]
        return self._hand_out(wanted) if wanted else []

    def enqueue(self, config: Mapping[str, Any], bracket: int = 0) -> tuple[int, int]:
        """Let a config of yours take the next place of a bracket that is not drawn yet, and return
        that (bracket, index). No other draw changes.

        It is evaluated in the current run if that has such a place, else after the next deepening
        (a frugal one has no new slots).
        """
        self._lock()
        place = free_place(self._state, read_index("bracket", bracket, len(self._state.progress)))
        self._record([ConfigsDrawn(*place, (self.space.config(config),), "enqueued")])
        return place

    def add_evaluation(
        self,
        config: Mapping[str, Any],
        budget: Budget,
        result: object,
        origin: str = "elsewhere",
    ) -> JobKey:
        """Take over a result that is known from elsewhere, on the rung of its budget, and return
        its (bracket, index, rung). It costs nothing, and is not evaluated here.

        A config of which the result on the rung below was taken over before goes on there; any
        other takes the next place of the bracket that starts on this rung. `result` is what `tell`
        takes.
        """
        return self.add_evaluations(config, [(budget, result)], origin)[0]

    def add_evaluations(
        self,
        config: Mapping[str, Any],
        results: Iterable[tuple[Budget, object]],
        origin: str = "elsewhere",
        place: tuple[int, int] | None = None,
    ) -> list[JobKey]:
        """Take over all that is known of one config: (budget, result) on neighbouring rungs, the
        lowest first. All of them are recorded, or none if it raises.

        `place` is the (bracket, index) of the config, where several have the same values."""
        _check_text("origin", origin, "say in a text where results come from.")
        self._lock()
        maximize = self.maximize
        paired = _pairs(results, "results are pairs, [(budget, result), ...]")
        read = [(budget, read_result(result, maximize)) for budget, result in paired]
        keys, facts = facts_to_add(self._state, self.space.config(config), read, origin, place)
        self._record(facts)
        return keys

    def retry_failed(self) -> int:
        """Take back failed evaluations on rungs that are not decided yet, and offer their jobs
        again. Returns how many; failures that decided a promotion stay."""
        self._lock()
        failed = tuple(hyperband.failed_jobs(self._state))
        if failed:
            self._record([JobsReopened(failed)])
        return len(failed)

    def optimize(
        self,
        objective: Objective,
        *,
        workers: int | None = None,
        executor: ExecutorSpec = None,
        resources: Mapping[str, float] | None = None,
        timeout: Timeout = None,
        retries: int = 1,
        max_seconds: float | None = None,
        max_cost: Budget | None = None,
        deepen: Literal["auto"] | None = None,
        strategy: StrategyName | None = None,
        max_budget_limit: Budget | None = None,
        ahead: bool = False,
        ahead_limit: Budget | None = None,
        wait: bool = True,
        first_failures: int | None = None,
        on_record: Callable[[], None] | None = None,
    ) -> None:
        """Evaluate jobs until the run is done or a limit is reached.

        `objective(config, budget)` or `objective(config, budget, context)` returns what `tell`
        takes; what it raises is a failed evaluation. See `deepband.Context` for checkpoints,
        seeds and learning curves; it is passed to a parameter named `context`, or to a required
        third one.

        With more than one of `workers`, or a `timeout` (seconds, or a function of the budget),
        jobs run in processes of their own: one that dies, or takes too long, costs only its own
        evaluation, which is tried again `retries` times before it counts as failed.

        An `executor` runs them elsewhere: "dask://host:port" or a Dask client, "ray" or
        "ray://host:port" (with `resources` such as {"num_gpus": 1} for each job), or any
        `concurrent.futures.Executor`; `workers` is then how many jobs it runs at once, where it
        does not tell.

        With `ahead`, workers for which the run has no job take jobs that the next deepening needs
        in any case, up to `ahead_limit` units of budget in this call. Their results show in
        `quote` and in the status.

        No job is started after `max_seconds`, nor one that would bring what this call trains, in
        units of budget, beyond `max_cost`. Jobs that workers of a driver that died are still
        running are waited for; without `wait` they are given up and offered again.

        With `deepen="auto"` it goes on by itself: when a run is done and `advice` says so, the
        study is deepened by `strategy` ("preserving" if left out) and run, as long as max_budget
        stays within `max_budget_limit`, and all runs of the study together, as quoted, within
        `max_cost`. One of the two must be given. Decisions follow from what is recorded: called
        again, it goes on where it was, and does nothing when that was the end.

        If the first evaluations of a call all fail (3, or as many as run at once), the
        objective is at fault: it stops with ObjectiveError and records none of them. Where they
        are to be believed, `first_failures=0` records them.
        """
        if ahead_limit is not None and not ahead:
            raise InputError("ahead_limit bounds what ahead=True spends: give both.")
        automatic = read_automatic(deepen, strategy, max_cost, max_budget_limit)
        if automatic and ahead:
            raise InputError(
                "ahead works for a deepening that is sure to come, and deepen='auto' may end "
                "without one: leave ahead out."
            )
        how = RunOptions(
            workers=workers,
            executor=executor,
            resources=resources,
            timeout=timeout,
            retries=retries,
            wait=wait,
            first_failures=first_failures,
            on_record=on_record,
        )
        limits = Limits(max_seconds, None if automatic else max_cost, ahead_limit if ahead else 0)
        run_jobs(self, objective, limits, automatic, how)

    def name_objective(self, objective: str) -> None:
        """Note what is evaluated, such as "train.py:objective"."""
        _check_text("the objective", objective, "name it in a text such as 'train.py:objective'.")
        self._lock()
        if objective != self._state.objective:
            self._record([ObjectiveNamed(objective)])

    def lock(self) -> None:
        """Become the one driver of the study, or raise LockedError. Every method that writes does
        this first, and the lock is kept until `close`."""
        self._lock()

    def _lock(self) -> None:
        if self._closed:
            raise ClosedError
        if self._observers:
            self._observers.check_quiet()
        if self._storage.lock():
            self._check_saved()
            running = hyperband.running_jobs(self._state)
            self._state = state = state_of(self._storage)
            group = self.group
            still = tuple(key for key in running if hyperband.is_ready(state, *key, group))
            self._state.apply([JobsStarted(still)])
            if self._observers:  # somebody else has written meanwhile
                self._observers.tell(history(state))

    def close(self) -> None:
        """Let go of the storage. Closing twice does nothing."""
        if self._observers:
            self._observers.check_quiet()
        self._closed = True
        self._storage.close()
        if self._forget is not None:
            self._forget()

    def observe(self, observer: Observer) -> None:
        """Tell an observer all that is known, and from now on, until this study is closed, what is
        recorded. It only looks: it gets copies, and what it raises is a warning."""
        if self._observers is None:
            self._observers = Observers()
        self._observers.add(observer, self._state)

    # Going deeper

    def deepen(self, strategy: StrategyName = "preserving", to: Budget | None = None) -> None:
        """Go on with a larger max_budget: eta times the current one, or `to`.

        What was evaluated is re-used. `to` may be any max_budget * eta**j; one where this study
        has already been does nothing, so that a script can be run again.

        "discarding", "preserving" and "efficient" are the paper's. "frugal" is not, and has none
        of its guarantees: it draws nothing and only sends the best of the top rung up by one, for
        about a tenth of the price. One of the others, with `to` the max_budget that was reached
        so, then fills that level.
        """
        check_name(strategy)
        self._lock()
        schedule = hyperband.deepened(self._state, strategy, to)
        if schedule is None:
            return
        self._check_done("deepen")
        number = self._state.run.number + 1
        self._record([RunStarted(number, schedule.max_budget, strategy)])

    def copy(self, sampler: Sampler | None = None) -> Study:
        """The same study in memory, which goes its own way from here: to try what would be, or
        would be with another sampler. Checkpoints stay with this one."""
        storage = MemoryStorage(history(self._state))
        return Study(storage, self._state.copy(), self._source.copy(sampler), self._keep)

    def save_as(self, path: str | os.PathLike[str]) -> None:
        """Write the whole study to a new file, with its checkpoints, and continue there.

        For a study in memory that is to last, and for one whose file was moved or deleted while
        it was open (GoneError): what was reported since then is written too. It also works after
        `close`, and the study then stays closed.
        """
        storage = SqliteStorage(path)
        if storage.path.exists():
            raise InputError(f"{storage.path} exists already: give the path of a new file.")
        check_storable(self._state.created.space)
        saves = self.persistent or "files" in vars(self)
        folder = self.checkpoints.folder if saves else None
        write_copy(storage, history(self._state), folder)
        unsaved, self._unsaved = self._unsaved, ()
        self._storage.close()
        self._storage = storage
        vars(self).pop("files", None)
        if self._closed:
            storage.close()
        if self._observers and unsaved:
            self._observers.tell(unsaved)

    # Within

    def _finish(self, results: Iterable[tuple[Job, tuple[Any, ...]]]) -> None:
        """Record results that were read."""
        run, ahead = self._state.run.number, self._state.ahead.running
        finished: dict[JobKey, JobFinished] = {}
        for job, result in results:
            key = self._check_open(job)
            if key in finished:
                raise JobError(*key, "it stands twice in what is told.")
            finished[key] = JobFinished(*key, run + 1 if key in ahead else run, *result)
        self._record([*self._source.missing(self._state, finished), *finished.values()])

    def _record(self, facts: Sequence[Fact]) -> None:
        """Keep facts, then let the state follow."""
        try:
            self._storage.append([*self._unsaved, *facts] if self._unsaved else facts)
        except GoneError:
            if any(isinstance(fact, JobFinished | JobReleased) for fact in facts):
                self._state.apply(facts)  # what has come must not be lost
                self._unsaved += tuple(facts)
            raise
        self._state.apply(facts)
        if self._observers:
            self._observers.tell([*self._unsaved, *facts])
        self._unsaved = ()

    def _check_saved(self) -> None:
        """Refuse to load a file again while there are results that it does not have."""
        if self._unsaved:
            raise StorageError(
                self._storage.path if isinstance(self._storage, SqliteStorage) else "the study",
                "has changed while it was away, and the study in memory has results that it does "
                "not have. Write those to another file with study.save_as(path).",
            )

    def _hand_out(self, keys: Sequence[JobKey]) -> list[Job]:
        state = self._state
        self._record([*self._source.missing(self._state, keys), JobsStarted(tuple(keys))])
        configs, budgets, study = state.configs, state.run.budgets, state.created.study
        if max(keys)[0] >= len(budgets):  # ahead, in the next run's new bracket
            budgets = state.coming.job_budgets(state.created.integer_budgets)
        return [
            Job(bracket, index, rung, budgets[rung], own_copy(configs[bracket][index]), study)
            for bracket, index, rung in keys
        ]

    def _check_open(self, job: Job) -> JobKey:
        if not isinstance(job, Job):
            raise InputError(
                f"{shown(job)} is not a job: give what ask() handed out, or a deepband.Job made "
                "of what was noted of it."
            )
        bracket, index, rung, _, _, study = job
        if not (type(bracket) is type(index) is type(rung) is int):
            bracket, index, rung = whole_key(job)
        if study and study != self._state.created.study:
            raise JobError(bracket, index, rung, "another study handed it out.")
        if not hyperband.is_open(self._state, bracket, index, rung):
            known = index in self._state.results.get((bracket, rung), {})
            if known or (bracket, index, rung) in self._state.ahead.results:
                raise JobError(bracket, index, rung, "its result is known already.")
            raise JobError(bracket, index, rung, "the current run does not wait for it.")
        if self.learns and index >= len(self._state.configs[bracket]):
            raise JobError(bracket, index, rung, "its config is not drawn yet: ask for it first.")
        return bracket, index, rung


def _pairs(given: object, wanted: str) -> list[tuple[Any, Any]]:
    """What was given, if it is made of pairs. Nothing is caught here: what the user's own iterators
    raise is theirs."""
    if not isinstance(given, Iterable):
        raise InputError(f"{wanted}, and was given {shown(given)}.")
    return [_pair(each, wanted) for each in given]


def _pair(given: object, wanted: str) -> tuple[Any, Any]:
    if type(given) is tuple and len(given) == 2:  # nearly always
        return given
    pair = tuple(islice(given, 3)) if isinstance(given, Iterable) else ()
    if len(pair) != 2:
        raise InputError(f"{wanted}, and {shown(given)} is not one.")
    return pair


def _check_text(name: str, given: object, advice: str) -> None:
    """Refuse what is not a text that any file can keep."""
    if not isinstance(given, str) or not given or given != given.encode(errors="ignore").decode():
        raise InputError(f"{name} is {shown(given)}: {advice}")
