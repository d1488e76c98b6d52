"""A study as its users see it: run jobs, look at results, and continue with a larger budget."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from deepband.core.evaluations import (
    all_evaluations,
    best_evaluation,
    best_evaluation_at,
    evaluation_of,
    front,
    no_result,
)
from deepband.core.exact_numbers import Budget, as_number, check_count
from deepband.core.facts import JobKey
from deepband.core.records import Evaluation, Job, with_checkpoint
from deepband.core.results import read_result, read_results
from deepband.core.strategies import StrategyName
from deepband.errors import InputError, SeveralObjectivesError
from deepband.samplers import Sampler
from deepband.study.observers import Observer
from deepband.study.session import Session
from deepband.study.thread_safety import synchronized

if TYPE_CHECKING:
    import pandas
    import polars

    from deepband.analysis.advice import Advice
    from deepband.analysis.confirmations import Confirmations
    from deepband.analysis.explanation import Verdict
    from deepband.analysis.failures import Failures
    from deepband.analysis.learning_curves.prediction import Prediction
    from deepband.analysis.plan import Plan
    from deepband.analysis.quote import Quote
    from deepband.analysis.run_table import RunSummary
    from deepband.execution.devices import DevicesSpec
    from deepband.execution.display import ProgressSpec
    from deepband.execution.executors.base import Timeout
    from deepband.execution.executors.selection import ExecutorSpec
    from deepband.execution.objective import Objective
    from deepband.execution.precheck import Precheck
    from deepband.execution.runner import Execution
    from deepband.plots import Plots
    from deepband.study.session import SpaceSpec

FREE = {"ask", "ask_all", "ask_batch", "tell", "tell_all", "release", "renew", "optimize", "work"}
FREE |= {"auto_extend", "confirm", "observe", "save_as", "close", "plot"}
FREE |= {"max_budget", "width", "done"}
"""Methods whose steps are locked one by one, and values that any thread may read."""


@synchronized(free=FREE)
class Study:
    """An open study, as returned by `open_study`.

    Use it as a context manager, or call `close` when you are done. Any thread may call its
    methods; calls are carried out one after another.

    >>> import deepband
    >>> study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    >>> study.optimize(lambda config, budget: config["x"] + 1 / budget)
    >>> study
    <deepband study: run 0, max_budget 9, 0 jobs open>
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        """Internal: what deepband's own modules work with. It may change in any release."""
        self._method_lock = session._method_lock

    def __repr__(self) -> str:
        from deepband.study.study_text import study_line

        return study_line(self.session.state)

    def _repr_html_(self) -> str:
        from deepband.study.study_text import study_html

        return study_html(self.session.state, self.session.name)

    def __enter__(self) -> Study:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Running jobs

    def optimize(
        self,
        objective: Objective,
        *,
        workers: int | None = None,
        executor: ExecutorSpec = None,
        resources: Mapping[str, Any] | None = None,
        timeout: Timeout = None,
        retries: int = 1,
        max_seconds: float | None = None,
        max_cost: Budget | None = None,
        ahead: bool = False,
        ahead_limit: Budget | None = None,
        wait: bool = True,
        first_failures: int | None = None,
        devices: DevicesSpec = None,
        per_device: int = 1,
        progress: ProgressSpec = None,
        batch: bool | int | None = None,
        precheck: Precheck | None = None,
        skip: float | None = None,
        stop: float | None = None,
        stop_training: float | None = None,
    ) -> None:
        """Evaluate jobs until the current run is done or a limit is reached.

        `objective(config, budget)` returns what `tell` accepts; an exception is a failed
        evaluation. If it has a parameter named `context`, or a third required one, it receives a
        `deepband.Context` with checkpoints, a seed and a place to report learning curves.

        Where jobs run:

        - `workers`: the number of worker processes. With one, and without a timeout, jobs run in
          this process.
        - `executor`: "dask://host:port" or a Dask client, "ray" or "ray://host:port", "slurm", or
          any `concurrent.futures.Executor`. `workers` is then the number of concurrent jobs, if the
          executor does not report it. In Slurm, it is the number of jobs that wait or run.
        - `resources`: what each job needs on Dask or Ray, such as {"num_gpus": 1}, or in Slurm,
          such as {"partition": "gpu", "gpus_per_node": 1, "timeout_min": 60}.
        - `devices`: the GPUs of worker processes, such as ["cuda:0", "cuda:1"], or "auto" for all.
          Each worker sees only its own, as `context.device`. By default, there is one worker for
          each device.
        - `per_device`: how many workers may share a device.

        With `batch`, `objective(configs, budget)` or `objective(configs, budget, contexts)`
        evaluates several configs with the same budget in one call, for example on one GPU, and
        returns a list with one result per config. It gets all jobs of the lowest budget that can
        start or, if `batch` is a number, at most that many. Several workers share them evenly. If
        the call raises, its configs are run again in halves; only a batch of one fails. Each
        context is a `deepband.BatchContext`.

        `precheck(config, budget)` returns whether a config may be trained. If it returns False, the
        config is recorded as infeasible, at no cost: it ranks behind all that were trained and did
        not fail. It must be a function of its arguments.

        What happens to jobs that fail:

        - `timeout`: seconds, or a function of the budget. A job, or a batch, that takes longer is
          ended.
        - `retries`: how often a job is run again if its worker died or it took too long, before it
          counts as failed.
        - `first_failures`: if this many evaluations fail before any succeeds, the objective is at
          fault; `optimize` raises ObjectiveError and records none of them. By default 3, or the
          number of concurrent jobs if that is larger. 0 records every failure.

        When to stop before the run is done:

        - `max_seconds`: no job starts after this many seconds.
        - `max_cost`: a job does not start if the training of this call would then exceed this
          many units of budget.

        With `skip=0.01`, the promoted configs of a rung that are least likely to become the best on
        the top rung are not evaluated: as many as have estimated probabilities that add up to less
        than 0.01. Their slots stay empty; `explain` reports each probability, and a later extension
        may evaluate them. The promotions of a bracket then wait until earlier brackets are
        complete. It needs a single objective without constraints.

        With `stop=0.05`, the run ends early when the estimated probability is below 0.05 that a
        remaining config is better than the best one by more than a tenth of the distance from the
        best loss to the median. It is then done and marked as stopped. A call without `stop`
        completes it, and an extension continues from what it has evaluated. Brackets run one after
        another. It needs the same as `skip`.

        With `stop_training=0.02`, `context.should_stop()` also returns True when a config is
        unlikely to become the best, by the losses that the objective has reported so far. In each
        bracket, the estimated probability is at most 0.02 that this stops a config which would
        become the best of the study. Only first evaluations above the lowest budget are stopped,
        and stopped configs are not promoted. Brackets run one after another. It needs the same as
        `skip`, and an objective that reports its loss after every unit of budget. `ahead` cannot be
        combined with it.

        If evaluations fail, a FailedEvaluationsWarning says how many of the run failed, and why.

        With `ahead`, idle workers evaluate jobs that the next deepening will need in any case, up
        to `ahead_limit` units of budget. If the previous process died, `optimize` waits for jobs
        that its workers are still running; `wait=False` gives those jobs up instead.

        `progress` controls the display. By default, a terminal (stderr) or a notebook shows a live
        display, and a log shows nothing. With True, a log has one line per finished rung, and at
        least one per minute. False shows nothing. A function receives a `deepband.Progress` when
        results are recorded, at most ten times per second, and at the end.

        >>> study.optimize(lambda config, budget: config["x"] + 1 / budget)
        """
        from deepband.analysis.failures import FailureWatch
        from deepband.execution.limits import Limits, read_ahead_limit
        from deepband.execution.runner import RunOptions, run_jobs
        from deepband.study.omissions import check_stop_training
        from deepband.study.user_warnings import (
            warn_of_failures,
            warn_of_idle_workers,
            warn_of_missing_curves,
            warn_of_small_batches,
            warn_of_small_space,
        )

        limits = Limits(max_seconds, max_cost, read_ahead_limit(ahead, ahead_limit))
        options = RunOptions(
            workers=workers,
            executor=executor,
            resources=resources,
            timeout=timeout,
            retries=retries,
            wait=wait,
            first_failures=first_failures,
            devices=devices,
            per_device=per_device,
            progress=progress,
            batch=batch,
            precheck=precheck,
        )
        check_stop_training(stop_training, ahead, options.gives_context(objective))
        # Which reads what another process has written since.
        with self.session.omitting(skip=skip, stop=stop, stop_training=stop_training) as omissions:
            if not self.done:
                warn_of_small_space(self.session)
                warn_of_idle_workers(self.session, workers)
                warn_of_small_batches(self.session, batch)
            watch = FailureWatch(self.session.state)
            self._take_over()
            run_jobs(self.session, objective, limits, options)
            warn_of_missing_curves(omissions)
        warn_of_failures(watch, self.session)

    def work(
        self,
        objective: Objective,
        *,
        jobs: int | None = None,
        max_seconds: float | None = None,
        **execution: Unpack[Execution],
    ) -> None:
        """Evaluate jobs together with other processes that do the same, until the current run is
        done.

        Unlike `optimize`, this does not keep the study locked. Each job is leased while it runs, so
        any number of processes can work on a study, and any of them can end at any time. While the
        others have leased all remaining jobs, it waits. The study is the same as with `optimize`.

        - `jobs`: how many jobs to evaluate at most.
        - `max_seconds`: no job starts after this many seconds.

        The other arguments are those of `optimize`.

        >>> study.work(lambda config, budget: config["x"] + 1 / budget, jobs=3)
        """
        from deepband.analysis.failures import FailureWatch
        from deepband.execution.limits import Limits
        from deepband.execution.runner import read_execution
        from deepband.study.leasing_session import work
        from deepband.study.user_warnings import warn_of_failures

        options = read_execution("work", execution)
        limits = Limits(max_seconds, max_jobs=jobs)
        watch = FailureWatch(self.session.state)
        work(self.session, objective, limits, options)
        warn_of_failures(watch, self.session)

    def auto_extend(
        self,
        objective: Objective,
        *,
        max_cost: Budget | None = None,
        max_hours: float | None = None,
        max_budget_limit: Budget | None = None,
        strategy: StrategyName = "preserving",
        max_seconds: float | None = None,
        **execution: Unpack[Execution],
    ) -> str:
        """Optimize, then deepen or widen and optimize again, as long as `advice` recommends it.
        Returns why it stopped, in words.

        Give at least one of the first two limits:

        - `max_cost`: what all runs of the study may cost together, as quoted.
        - `max_hours`: how long they may take together: the recorded seconds of all evaluations,
          divided by `workers`.
        - `max_budget_limit`: the largest max_budget to deepen to.

        A step that would exceed a limit is not started; a run that has started is finished. The
        study is deepened with `strategy` and widened with "efficient". The other arguments are
        those of `optimize`. Decisions depend only on recorded results and these limits: a call that
        was interrupted continues where it stopped, and one that has finished does nothing.

        >>> reason = study.auto_extend(lambda config, budget: config["x"], max_cost=500)
        """
        from deepband.execution.limits import Limits
        from deepband.execution.runner import read_execution
        from deepband.study.extension_policy import read_automatic, run_and_extend

        options = read_execution("auto_extend", execution)
        given = max_cost, max_hours, max_budget_limit
        automatic = read_automatic(strategy, *given, options.workers, options.executor)
        return run_and_extend(self, objective, Limits(max_seconds), automatic, options)

    def confirm(
        self,
        objective: Objective,
        *,
        top: int = 3,
        seeds: int = 5,
        max_seconds: float | None = None,
        max_cost: Budget | None = None,
        **execution: Unpack[Execution],
    ) -> Confirmations:
        """Evaluate the best configurations again with other seeds, and return their means.

        The `top` best configurations of the highest rung that has a finite loss are each evaluated
        `seeds` times, from scratch, with the budget of that rung. `context.seed` is different each
        time, and the same whenever repetition k of a configuration is run. What a repetition saves
        is not kept.

        Results are recorded separately from the evaluations. They change neither `best` nor any
        decision, and their cost is reported separately. A recorded repetition is not run again: to
        continue an interrupted call, repeat it. A later call with more `seeds` runs only the new
        ones.

        The other arguments are those of `optimize`.

        >>> def train(config, budget, context):
        ...     return config["x"] + 1 / budget + context.seed / 2**34
        >>> found = study.confirm(train, top=2, seeds=3)
        >>> [len(each.values) for each in found.configs]
        [3, 3]
        """
        from deepband.execution.limits import Limits
        from deepband.execution.runner import read_execution
        from deepband.study.confirmation import confirm

        options = read_execution("confirm", execution)
        return confirm(self.session, objective, top, seeds, Limits(max_seconds, max_cost), options)

    def ask(self, *, lease: float | None = None, detached: bool = False) -> Job | None:
        """The next job to evaluate, or None if nothing can start now.

        None does not mean that the run is done: it may need the results of running jobs first.

        Without `lease`, only this process knows that the job was handed out, and the study is
        locked until it is closed. With `lease`, a number of seconds, the study records it: the
        study is locked for the duration of the call only, and any number of processes can ask and
        tell. The job becomes available again after that time, when it is released, or when a
        process on the same host notices that this process has ended; with `detached`, the lease
        does not end with this process. If another process has locked the study, the call waits up
        to 30 seconds before it raises LockedError.

        `job.token` is a text that stands for a leased job in `tell`, `release` and `renew`, in any
        process.

        >>> while job := study.ask():
        ...     study.tell(job, job.config["x"])
        """
        if lease is None:
            _check_attached(detached)
            found = self.session.ask()
            return self.session.ask() if found is None and self._take_over() else found
        from deepband.study.leased_jobs import lease_jobs

        return next(iter(lease_jobs(self.session, lease, 1, detached)), None)

    def ask_all(
        self, *, limit: int | None = None, lease: float | None = None, detached: bool = False
    ) -> list[Job]:
        """All jobs that can start now, or at most `limit` of them. Evaluate them in any order.

        `lease` and `detached` are those of `ask`.

        >>> jobs = study.ask_all()
        """
        if limit is not None:
            check_count("limit", limit)
        if lease is None:
            _check_attached(detached)
            found = self.session.ask_all(limit)
            return self.session.ask_all(limit) if not found and self._take_over() else found
        from deepband.study.leased_jobs import lease_jobs

        return lease_jobs(self.session, lease, limit, detached)

    def ask_batch(self, limit: int | None = None) -> list[Job]:
        """Reserve the jobs with the lowest budget that can start now, or at most `limit` of them.

        Jobs of different brackets may have the same budget. Report their results with `tell_all`.

        >>> study.deepen(to=27)
        >>> jobs = study.ask_batch()
        >>> len(jobs), {job.budget for job in jobs}
        (18, {1})
        """
        if limit is not None:
            check_count("limit", limit)
        found = self.session.ask_batch(limit)
        return self.session.ask_batch(limit) if not found and self._take_over() else found

    def _take_over(self) -> bool:
        from deepband.study.leased_jobs import take_over

        return take_over(self.session)

    def tell(self, job: Job | str, result: object) -> None:
        """Record the result of a job. A leased job can be given by its token.

        A result is a real number, a mapping with "loss" or "value" (other entries are kept as
        metrics), or an exception for a failed evaluation; NaN is a failure too. Anything else
        raises, and the job stays open. Both names mean the number to minimise or, with
        `maximize`, to maximise.

        The result of a leased job is accepted after the end of its lease, too, unless another
        process has recorded one.

        >>> if job := study.ask():
        ...     study.tell(job, {"loss": 0.25, "accuracy": 0.75})
        """
        session = self.session
        outcome = read_result(result, session.state.criteria)
        if isinstance(job, Job) and not job.token:
            session.record_outcomes([(job, outcome)])
            return
        from deepband.study.leased_jobs import record_leased

        record_leased(session, [(job, outcome)])

    def tell_all(self, pairs: Iterable[tuple[Job, object]]) -> None:
        """Record several results in one commit: all of them, or none if it raises.

        >>> study.tell_all([(job, job.config["x"]) for job in study.ask_all()])
        """
        wanted = "tell_all takes pairs, [(job, result), ...]"
        session = self.session
        outcomes = list(read_results(pairs, wanted, session.state.criteria))
        unusual = [job for job, _ in outcomes if type(job) is not Job or job.token]
        if not any(map(_is_leased, unusual)):
            session.record_outcomes(outcomes)
            return
        from deepband.study.leased_jobs import record_leased

        record_leased(session, outcomes)

    def release(self, job: Job | str) -> None:
        """Return a job to the queue. Use it when a worker gives up a job it received from `ask`. A
        leased job can be given by its token.

        >>> if job := study.ask():
        ...     study.release(job)
        """
        if isinstance(job, Job) and not job.token:
            self.session.release(job)
            return
        from deepband.study.leased_jobs import release_leased

        release_leased(self.session, job)

    def renew(self, job: Job | str, lease: float) -> None:
        """Let the lease of a job, or of its token, end this many seconds from now.

        >>> if job := study.ask(lease=60):
        ...     study.renew(job, 3600)
        """
        from deepband.study.leased_jobs import renew_leased

        renew_leased(self.session, [job], lease)

    def retry_failed(self) -> int:
        """Make failed evaluations available again and return how many: those of the current run on
        the rungs that its brackets are working on, including the top rung. Failures on finished
        rungs stay, because promotions or samples may depend on them.

        >>> study.retry_failed()
        0
        """
        from deepband.study.additions import retry_failed

        return retry_failed(self.session)

    def enqueue(self, config: Mapping[str, Any], bracket: int = 0) -> tuple[int, int]:
        """Add a configuration to the search.

        It takes the next free slot of `bracket` and is evaluated like any sampled configuration;
        other samples are unaffected. If the current run has no free slot, it waits for the next
        extension, with a WaitingWarning (a frugal deepening has no new slots). Returns its
        (bracket, index).

        >>> study.enqueue({"x": 0.5})
        (0, 9)
        """
        from deepband.study.additions import add_config

        return add_config(self.session, config, bracket)

    def add_evaluation(
        self,
        config: Mapping[str, Any],
        budget: Budget,
        result: object,
        origin: str = "elsewhere",
    ) -> JobKey:
        """Import a result that was evaluated elsewhere. It costs nothing here.

        If the result of this configuration on the rung below was imported before, this one joins
        it; otherwise the configuration takes the next slot of the bracket that starts on this
        rung. `result` is what `tell` accepts. If the current run is done, the result has no effect
        on it and waits for the next extension, with a WaitingWarning. Returns its (bracket, index,
        rung).

        >>> study.add_evaluation({"x": 0.125}, 9, 0.25, origin="the pilot study")
        (2, 3, 2)
        """
        from deepband.study.additions import add_results

        return add_results(self.session, config, [(budget, result)], origin)[0]

    def add_evaluations(
        self,
        config: Mapping[str, Any],
        results: Iterable[tuple[Budget, object]],
        origin: str = "elsewhere",
        place: tuple[int, int] | None = None,
    ) -> list[JobKey]:
        """Import several results of one configuration: (budget, result) on neighbouring rungs, the
        lowest first. All of them are recorded, or none if it raises.

        `place` is the (bracket, index) of the configuration. It is needed only if several
        configurations have the same values.

        >>> new = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
        >>> new.add_evaluations({"x": 0.25}, [(3, 0.5), (9, 0.375)])
        [(1, 0, 1), (1, 0, 2)]
        """
        from deepband.study.additions import add_results

        return add_results(self.session, config, results, origin, place)

    # Continuing with more

    def deepen(
        self,
        strategy: StrategyName = "preserving",
        to: Budget | None = None,
        *,
        unfinished: bool = False,
        space: SpaceSpec | None = None,
        added: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a run with a larger max_budget: eta times the current one, or `to`.

        Earlier evaluations are reused as the strategy defines. `to` may be any max_budget * eta**j.
        If a run has already had it, nothing happens, so that a script can be run again.

        "discarding", "preserving" and "efficient" are the paper's strategies. "frugal" is not, and
        has none of its guarantees: it samples nothing and promotes only the best of the top rung,
        for about a tenth of the price. Deepening with one of the others to the same max_budget
        then completes that level.

        `unfinished`, `space` and `added` are those of `extend`.

        >>> study.optimize(lambda config, budget: config["x"])
        >>> study.deepen("preserving")
        """
        from deepband.study.extension_request import start_extension

        size = (to, None, None)
        start_extension(self.session, "deepen", strategy, size, unfinished, space, added)

    def widen(
        self,
        strategy: StrategyName = "efficient",
        to: int | None = None,
        *,
        unfinished: bool = False,
        space: SpaceSpec | None = None,
        added: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a run with more configurations at the same max_budget: one more than the current
        width, or `to`.

        Width w starts every bracket with w times as many configurations as plain Hyperband. The
        default strategy is "efficient", because it then costs exactly what the new configurations
        cost. If a run has already had this width, nothing happens. `unfinished`, `space` and
        `added` are those of `extend`.

        >>> study.optimize(lambda config, budget: config["x"])
        >>> study.widen()
        """
        from deepband.study.extension_request import start_extension

        size = (None, to, None)
        start_extension(self.session, "widen", strategy, size, unfinished, space, added)

    def extend(
        self,
        strategy: StrategyName | None = None,
        *,
        max_budget: Budget | None = None,
        width: int | None = None,
        brackets: int | None = None,
        unfinished: bool = False,
        space: SpaceSpec | None = None,
        added: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a run with a larger max_budget, a larger width, more brackets, or all in one step.

        What is left out stays as it is. If a run has already had the given values, nothing
        happens; otherwise none of them may be smaller than it is now. The default strategy is that
        of `widen` if only the width grows, and that of `deepen` otherwise.

        With `unfinished`, the current run need not be finished. What is recorded at that moment
        counts as evaluated before. A result that arrives later is recorded even if the new run
        does not need it. The study then depends on which results came before the extension.

        With `space`, new configurations come from another search space; existing ones stay as they
        are. Its ranges and choices may be larger or smaller, and a parameter may be fixed to a
        value. For a new parameter, `added` gives the value that existing configurations are taken
        to have; jobs carry it. The run must be finished.

        >>> study.optimize(lambda config, budget: config["x"])
        >>> study.extend("efficient", max_budget=27, width=2)
        """
        from deepband.study.extension_request import start_extension

        size = (max_budget, width, brackets)
        start_extension(self.session, "extend", strategy, size, unfinished, space, added)

    def quote(
        self,
        strategy: StrategyName | None = None,
        to: Budget | None = None,
        *,
        width: int | None = None,
        brackets: int | None = None,
    ) -> Quote:
        """What an extension would reuse, add and cost: to max_budget `to`, to a width, to a number
        of brackets, or by default one level deeper. The default strategy is that of `extend`.

        While a run is unfinished, it quotes what an extension at this moment would cost, and says
        so.

        >>> quote = study.quote("efficient", to=27)
        >>> wider = study.quote("efficient", width=2)
        """
        from deepband.study.extension_request import quote_extension

        return quote_extension(self.session, strategy, (to, width, brackets))

    def advice(self, workers: int = 1) -> Advice:
        """Which next step is likely to pay most: deepen, widen, or stop. The finished run alone is
        the evidence: what each rung gained, how similarly the two top rungs rank
        configurations, how reported learning curves ended, and how far apart the best losses are.

        If evaluations recorded their time, costs are also given as the time that this many
        workers take.

        >>> study.advice().step in ("deepen", "widen", "stop")
        True
        """
        from deepband.study.extension_request import advise_extension

        return advise_extension(self.session, workers)

    # Results

    @property
    def done(self) -> bool:
        """Whether every job of the current run has a result."""
        return self.session.done

    @property
    def max_budget(self) -> int | float:
        """The largest budget of the current run."""
        return as_number(self.session.state.schedule.max_budget)

    @property
    def width(self) -> int:
        """The width of the current run: how many times as many configurations it has as plain
        Hyperband."""
        return self.session.state.schedule.width

    @property
    def best(self) -> Evaluation:
        """The evaluation with the smallest loss on any budget, which is what the paper returns.
        Its `checkpoint` is the folder that the objective saved, or None. With constraints, only
        feasible evaluations count. Raises NoResultError if no evaluation has a finite loss yet, and
        SeveralObjectivesError if there are several objectives: use `front`."""
        self._check_single("study.front()")
        found = best_evaluation(self.session.state)
        if found is None:
            raise no_result(self.session.state)
        return with_checkpoint(found, self.session.find_checkpoint)

    def _check_single(self, instead: str) -> None:
        criteria = self.session.state.criteria
        if criteria.several:
            advice = f"`{instead}` returns the evaluations that no other one dominates."
            problem = "there is no single best evaluation"
            raise SeveralObjectivesError(criteria.names, problem, advice)

    def front(self, rung: int | None = None) -> list[Evaluation]:
        """The evaluations that no other one dominates: none is better in one objective and not
        worse in any other. Over all rungs or, with `rung`, on one of them.

        Only feasible evaluations with finite results count; the list is empty if there is none.
        They are sorted by their objectives, in the order in which these were declared. With a
        single objective, they are all evaluations with the best result.

        >>> [each.loss == study.best.loss for each in study.front()]
        [True]
        """
        found = front(self.session.state, rung)
        find = self.session.find_checkpoint
        return [with_checkpoint(evaluation_of(self.session.state, each), find) for each in found]

    def hypervolume(
        self, reference: Mapping[str, float] | None = None, rung: int | None = None
    ) -> float:
        """How much of the space of objectives the front dominates, up to a reference point: a value
        for each objective, in your direction, by default that of `reference`. Larger is better.

        What is not better than the reference in every objective adds nothing.

        >>> study.hypervolume({"loss": 2.0}) == 2.0 - study.best.loss
        True
        """
        from deepband.analysis.hypervolume import hypervolume

        point = self.reference() if reference is None else reference
        return hypervolume(self.session.state, point, rung)

    def reference(self) -> dict[str, float]:
        """The default reference of hypervolumes: the worst feasible value of each objective in
        the first run. Later runs do not change it. Raises NoResultError if there is none yet.

        >>> study.reference()["loss"] == max(each.loss for each in study.evaluations)
        True
        """
        from deepband.analysis.hypervolume import default_reference

        found = default_reference(self.session.state)
        if found is None:
            raise no_result(self.session.state, missing="reference of the hypervolume")
        return found

    def best_at(self, rung: int | None = None) -> Evaluation:
        """The evaluation with the smallest loss on one rung, by default the highest rung that has
        a finite loss. Raises NoResultError if there is none.

        >>> study.best_at().budget >= study.best_at(0).budget
        True
        """
        self._check_single("study.front(rung=...)")
        found = best_evaluation_at(self.session.state, rung)
        if found is None:
            raise no_result(self.session.state, rung)
        return with_checkpoint(found, self.session.find_checkpoint)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation, sorted by bracket, index and rung."""
        find = self.session.find_checkpoint
        return [with_checkpoint(each, find) for each in all_evaluations(self.session.state)]

    def failures(self) -> Failures:
        """The failed evaluations of all runs, grouped by their error, the most frequent first:
        how many, which configs, and one traceback each. Printed, it is readable text.

        >>> for group in study.failures():
        ...     print(group.count, group.error, group.jobs, group.traceback)
        """
        from deepband.analysis.failures import failures

        return failures(self.session.state)

    def output(self, bracket: int, index: int, rung: int) -> str | None:
        """What the last attempt at a job printed in its worker process, or None if nothing is kept.

        Only the output of worker processes is kept (`workers=2` or more, or a `timeout`), up to 1
        MiB per job. Other evaluations print to the terminal.

        >>> study.output(0, 0, 0) is None
        True
        """
        from deepband.execution.worker_output import read_output

        return read_output(self.session.files, (bracket, index, rung))

    @property
    def confirmations(self) -> Confirmations:
        """Every configuration that `confirm` has evaluated again, with means and intervals."""
        from deepband.analysis.confirmations import confirmations

        return confirmations(self.session.state)

    @property
    def runs(self) -> tuple[RunSummary, ...]:
        """What each run evaluated and what it cost. Printed, it is a table."""
        from deepband.analysis.run_table import run_table

        return run_table(self.session.state, self.done)

    def plan(self) -> Plan:
        """How many configurations the current run evaluates with which budget.

        Warns if the space has fewer configurations than that, unless equal ones share results.

        >>> plan = study.plan()
        """
        from deepband.analysis.plan import plan
        from deepband.study.user_warnings import warn_of_small_space

        warn_of_small_space(self.session)
        return plan(self.session.state)

    def explain(self, bracket: int, index: int) -> tuple[Verdict, ...]:
        """Why a configuration was or was not promoted, on each rung of each run. Printed, it is
        one sentence per line.

        >>> first, *others = study.explain(0, 0)
        """
        from deepband.analysis.explanation import explain

        return explain(self.session.state, bracket, index)

    def predict(self, bracket: int, index: int, budget: Budget | None = None) -> Prediction:
        """The result that a configuration would have with a larger budget, with its uncertainty.

        The budget is that of a rung: by default max_budget, or one that a deepening would reach. A
        model of learning curves learns from all evaluations of the study and from reported curves.
        If the configuration was evaluated with the budget, its result is returned. No decision of
        the study depends on predictions, unless `optimize` has `skip`, `stop` or `stop_training`.

        >>> study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
        >>> study.optimize(lambda config, budget: config["x"] + 1 / budget)
        >>> found = study.predict(0, 0, budget=27)
        >>> low, high = found.interval(0.95)
        >>> low < found.value < high
        True
        """
        from deepband.analysis.learning_curves.prediction import predict

        return predict(self.session.state, bracket, index, budget)

    @property
    def plot(self) -> Plots:
        """Plots, with Matplotlib: `study.plot.brackets()` and others."""
        from deepband.plots import Plots

        return Plots(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Every evaluation as a row of a pandas DataFrame, with typed columns.

        >>> frame = study.to_pandas()
        """
        from deepband.analysis import frames

        return frames.to_pandas(self.session.state)

    def to_polars(self) -> polars.DataFrame:
        """Every evaluation as a row of a Polars DataFrame, with typed columns.

        >>> frame = study.to_polars()
        """
        from deepband.analysis import frames

        return frames.to_polars(self.session.state)

    # The study itself

    def observe(self, observer: Observer) -> None:
        """Send an observer everything recorded so far and, until the study is closed, everything
        new. An observer receives copies; an exception it raises becomes a warning.

        >>> class Counter:
        ...     seen = 0
        ...     def observe(self, facts):
        ...         self.seen += len(facts)
        >>> study.observe(Counter())
        """
        self.session.observe(observer)

    def copy(self, sampler: Sampler | None = None) -> Study:
        """An independent copy in memory, optionally with another sampler: to try what would happen.

        Training in the copy continues from this study's checkpoints, as long as they exist, and
        saves its own in a temporary folder. Nothing of this study is changed or removed.

        >>> what_if = study.copy()
        >>> what_if.deepen("efficient")
        """
        return Study(self.session.copy(sampler))

    def save_as(self, path: str | os.PathLike[str]) -> None:
        """Write the whole study to a new file, with its checkpoints, and continue there.

        Use it to store a study that was only in memory, and to rescue one whose file was moved or
        deleted while it was open (GoneError): results reported since then are written too. It also
        works after `close`; the study then stays closed.

        >>> study.save_as("rescued.study")
        """
        self.session.save_as(path)

    def close(self) -> None:
        """Release the study for other processes. Closing twice does nothing.

        >>> study.close()
        """
        self.session.close()


def _is_leased(job: object) -> bool:
    return bool(job.token) if isinstance(job, Job) else isinstance(job, str)


def _check_attached(detached: bool) -> None:
    if detached:
        raise InputError("detached is for leased jobs: give `lease`, too.")
