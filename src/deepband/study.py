"""A study: ask for jobs, tell their results, deepen when the budget was too small."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import TracebackType
from typing import Any

from deepband import explain as explaining
from deepband import hyperband, report
from deepband import quote as quoting
from deepband.checkpoints import Checkpoints, Keep, retraining_cost
from deepband.drawing import Drawer
from deepband.errors import (
    ClosedError,
    InputError,
    JobError,
    SmallSpaceWarning,
    UnfinishedError,
    shown,
)
from deepband.executors.base import Timeout
from deepband.facts import (
    Fact,
    JobFinished,
    JobKey,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
)
from deepband.loop import Limits
from deepband.objective import Objective
from deepband.records import Attempt, Evaluation, Job, whole_key
from deepband.results import read_result
from deepband.running import run_jobs
from deepband.schedule import Budget, as_number
from deepband.space import Space
from deepband.state import State
from deepband.storage import SqliteStorage, Storage, state_of
from deepband.strategies import strategy_named


class Study:
    """A study that is open. Made by `open_study`; used by one thread."""

    def __init__(self, storage: Storage, state: State, drawer: Drawer, keep: Keep) -> None:
        self._storage = storage
        self._state = state
        self._drawer = drawer
        self._keep = keep
        self._closed = False
        self._forget: Callable[[], object] | None = None
        """Removes the temporary checkpoints of a study in memory."""

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        run = self._state.run
        return (
            f"<deepband study: run {run.number}, max_budget {self.max_budget}, "
            f"{hyperband.open_jobs(self._state)} jobs open>"
        )

    # Running it

    def ask(self) -> Job | None:
        """The next job, handed out once, or None when nothing can start now.

        None does not mean that the run is done: it may wait for jobs that are running.
        """
        self.lock()
        key = hyperband.next_job(self._state)
        return None if key is None else self._hand_out([key])[0]

    def ask_all(self) -> list[Job]:
        """All jobs that can start now, handed out once."""
        self.lock()
        keys = list(hyperband.ready_jobs(self._state))
        return self._hand_out(keys) if keys else []

    def release(self, job: Job) -> None:
        """Offer a job that was asked for again, because nobody runs it any more."""
        self.lock()
        key = self._check_open(job)
        if job.index in self._state.fronts[job.bracket].running:
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
        self.lock()
        maximize = self.maximize
        try:
            paired = [(job, result) for job, result in pairs]
        except (TypeError, ValueError):
            raise InputError("tell_all takes pairs: [(job, result), ...].") from None
        self._finish(
            (job, (*read_result(result, maximize), None, None, None)) for job, result in paired
        )

    def tell_attempts(self, attempts: Iterable[Attempt]) -> None:
        """Record what came of running jobs, with how it went."""
        self.lock()
        self._finish((job, tuple(how)) for job, *how in attempts)

    def expects(self, job: Job) -> bool:
        """Whether this is an open job of the study, as it was handed out."""
        try:
            bracket, index, _ = self._check_open(job)
        except (JobError, InputError):
            return False
        configs = self._state.configs[bracket]
        return index < len(configs) and configs[index] == job.config

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """Hand out these jobs, as far as they can start now."""
        self.lock()
        ready = set(hyperband.ready_jobs(self._state))
        wanted = [key for key in keys if key in ready]
        return self._hand_out(wanted) if wanted else []

    def retry_failed(self) -> int:
        """Take back failed evaluations on rungs that are not decided yet, and offer their jobs
        again. Returns how many; failures that decided a promotion stay."""
        self.lock()
        failed = tuple(hyperband.failed_jobs(self._state))
        if failed:
            self._record([JobsReopened(failed)])
        return len(failed)

    def optimize(
        self,
        objective: Objective,
        *,
        workers: int = 1,
        timeout: Timeout = None,
        retries: int = 1,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        wait: bool = True,
        first_failures: int | None = None,
        on_record: Callable[[], None] | None = None,
    ) -> None:
        """Evaluate jobs until the run is done or a limit is reached.

        `objective(config, budget)` or `objective(config, budget, context)` returns what `tell`
        takes; what it raises is a failed evaluation. See `deepband.Context` for checkpoints,
        seeds and learning curves.

        With more than one of `workers`, or a `timeout` (seconds, or a function of the budget),
        jobs run in processes of their own: one that dies, or takes too long, costs only its own
        evaluation, which is tried again `retries` times before it counts as failed.

        No job is started after `max_seconds`, nor one that would bring what this call trains, in
        units of budget, beyond `max_cost`. Jobs that workers of a driver that died are still
        running are waited for; without `wait` they are given up and offered again.

        If the first evaluations of a call all fail (3, or as many as there are workers), the
        objective is at fault: it stops with ObjectiveError and records none of them. Where they
        are to be believed, `first_failures=0` records them.
        """
        run_jobs(
            self,
            objective,
            Limits(max_seconds, max_cost),
            workers=workers,
            timeout=timeout,
            retries=retries,
            wait=wait,
            first_failures=first_failures,
            on_record=on_record,
        )

    def name_objective(self, objective: str) -> None:
        """Note what is evaluated, such as "train.py:objective"."""
        self.lock()
        if objective != self._state.objective:
            self._record([ObjectiveNamed(objective)])

    def lock(self) -> None:
        """Become the one driver of the study, or raise HeldError. Every method that writes does
        this first, and the lock is kept until `close`."""
        if self._closed:
            raise ClosedError
        if self._storage.lock():
            running = hyperband.running_jobs(self._state)
            self._state = state_of(self._storage)
            ready = set(hyperband.ready_jobs(self._state))
            self._state.apply([JobsStarted(tuple(key for key in running if key in ready))])

    @property
    def done(self) -> bool:
        """Whether every job of the current run is told."""
        return hyperband.is_done(self._state)

    def close(self) -> None:
        """Let go of the storage. Closing twice does nothing."""
        self._closed = True
        self._storage.close()
        if self._forget is not None:
            self._forget()

    # Going deeper

    def deepen(self, strategy: str = "preserving", to: Budget | None = None) -> None:
        """Go on with a larger max_budget: eta times the current one, or `to`.

        What was evaluated is re-used. `to` may be any max_budget * eta**j; one where this study
        has already been does nothing, so that a script can be run again.
        """
        strategy_named(strategy)
        self.lock()
        schedule = hyperband.deepened(self._state, to)
        if schedule == self._state.schedule:
            return
        self._check_done("deepen")
        number = self._state.run.number + 1
        self._record([RunStarted(number, schedule.max_budget, strategy)])

    def quote(self, strategy: str = "preserving", to: Budget | None = None) -> quoting.Quote:
        """What deepening would re-use, add and cost, before anything is spent."""
        strategy_named(strategy)
        self._check_done("quote a deepening")
        quote = quoting.quote(self._state, strategy, hyperband.deepened(self._state, to))
        return replace(quote, retraining=self.retraining_cost())

    # Looking at it

    @property
    def state(self) -> State:
        """All that is known, for reports: to be read, not changed."""
        return self._state

    @property
    def maximize(self) -> bool:
        return self._state.created.maximize

    @property
    def objective(self) -> str | None:
        """What is evaluated, as text such as "train.py:objective", if it was named."""
        return self._state.objective

    @property
    def space(self) -> Space:
        return self._drawer.space

    @property
    def lasts(self) -> bool:
        """Whether the study outlives this process."""
        return isinstance(self._storage, SqliteStorage)

    @property
    def keep(self) -> Keep:
        """Which checkpoints are kept."""
        return self._keep

    @cached_property
    def files(self) -> Path:
        """The folder beside the study file, or a temporary one of a study in memory."""
        if isinstance(self._storage, SqliteStorage):
            return self._storage.files
        folder = mkdtemp(prefix="deepband-")
        self._forget = weakref.finalize(self, rmtree, folder, ignore_errors=True)
        return Path(folder)

    @property
    def checkpoints(self) -> Checkpoints:
        """Where training state is kept."""
        return Checkpoints(self.files / "checkpoints" / self._state.created.study)

    @property
    def best(self) -> Evaluation | None:
        """The evaluation with the smallest loss on any budget; None before any finite loss."""
        return report.best(self._state)

    def best_at(self, rung: int | None = None) -> Evaluation | None:
        """The best on one rung, by default the highest one that has a finite loss."""
        return report.best_at(self._state, rung)

    @property
    def max_budget(self) -> int | float:
        """That of the current run."""
        return as_number(self._state.schedule.max_budget)

    @property
    def runs(self) -> tuple[report.RunSummary, ...]:
        """What each run did and what it cost."""
        return report.runs(self._state, self.done)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation, sorted by bracket, index and rung."""
        return list(report.evaluations(self._state))

    def retraining_cost(self) -> Fraction:
        """The most that the next deepening may train again for want of checkpoints; nothing if the
        objective never saved any."""
        if (not self.lasts and "files" not in vars(self)) or not self.checkpoints.folder.is_dir():
            return Fraction(0)
        return retraining_cost(self._state, set(self.checkpoints.kept()))

    def explain(self, bracket: int, index: int) -> tuple[explaining.Verdict, ...]:
        """Why a config was or was not promoted, on each rung of each run."""
        return explaining.explain(self._state, bracket, index)

    def plan(self) -> report.Plan:
        """How many configs the current run puts on which budget.

        Warns when the space has fewer values than that.
        """
        plan = report.plan(self._state)
        if self.space.size < plan.configs:
            warnings.warn(
                f"the space has at most {self.space.size} different configs and the run needs "
                f"{plan.configs}: some will be evaluated more than once. Widen the space, or "
                "raise min_budget for fewer configs.",
                SmallSpaceWarning,
                stacklevel=2,
            )
        return plan

    # Within

    def _finish(self, results: Iterable[tuple[Job, tuple[Any, ...]]]) -> None:
        """Record results that were read."""
        run = self._state.run.number
        finished: dict[JobKey, JobFinished] = {}
        for job, result in results:
            key = self._check_open(job)
            if key in finished:
                raise JobError(*key, "it stands twice in what is told.")
            finished[key] = JobFinished(*key, run, *result)
        self._record([*self._drawer.missing(self._state, finished), *finished.values()])

    def _record(self, facts: Sequence[Fact]) -> None:
        """Keep facts, then let the state follow."""
        self._storage.append(facts)
        self._state.apply(facts)

    def _hand_out(self, keys: Sequence[JobKey]) -> list[Job]:
        state = self._state
        self._record([*self._drawer.missing(self._state, keys), JobsStarted(tuple(keys))])
        configs, budgets, study = state.configs, state.run.budgets, state.created.study
        return [
            Job(bracket, index, rung, budgets[rung], dict(configs[bracket][index]), study)
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
            if index in self._state.results.get((bracket, rung), {}):
                raise JobError(bracket, index, rung, "its result is known already.")
            raise JobError(bracket, index, rung, "the current run does not wait for it.")
        return bracket, index, rung

    def _check_done(self, action: str) -> None:
        if not self.done:
            raise UnfinishedError(action, hyperband.open_jobs(self._state))
