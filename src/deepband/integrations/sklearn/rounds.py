"""Running a study with scikit-learn's evaluation of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, TypedDict

from sklearn.base import clone

from deepband.core.extension import extended, read_target
from deepband.core.facts import Config, Outcome
from deepband.core.records import Job
from deepband.core.results import read_result
from deepband.core.strategies import StrategyName, check_name
from deepband.errors import InputError
from deepband.integrations.sklearn.callbacks import task
from deepband.integrations.sklearn.cv_results import kept_columns
from deepband.integrations.sklearn.resources import Resource
from deepband.integrations.sklearn.scorers import constraints_of
from deepband.study.study import Study

Evaluate = Callable[..., dict[str, Any]]


class Larger(TypedDict, total=False):
    """What a study is extended to: more resources, a larger width."""

    max_budget: float
    width: int


def has_score(study: Study) -> bool:
    """Whether any evaluation of a study succeeded."""
    state = study.session.state
    found = (state.standings.of(result).losses for result in state.all_results())
    return any(losses is not None and max(losses) < math.inf for losses in found)


def seconds_of(columns: Mapping[str, Any], metric: str) -> float:
    """The time of all folds in the columns of `cv_results_` for one candidate."""
    ending = f"_test_{metric}"
    folds = sum(name.startswith("split") and name.endswith(ending) for name in columns)
    return folds * float(columns["mean_fit_time"] + columns["mean_score_time"])


@dataclass
class Rounds:
    """Runs the study of a search, rung by rung."""

    search: Any
    study: Study
    resource: Resource
    splits: Any
    metrics: tuple[str, ...]
    """The names of the scores to optimise."""
    refit: Any
    """The user's `refit`; `search.refit` is False while scikit-learn's `fit` runs."""
    strategy: StrategyName
    larger: Larger
    named: Callable[[Config], Config]
    """Converts a config to the names of the estimator's parameters."""
    succeeded: bool = False
    failure: ValueError | None = None
    """Why all fits of a round failed."""

    def check(self) -> None:
        """Raise if the study cannot be extended so. Called before the current run is finished, so
        that a mistake costs nothing."""
        check_name(self.strategy)
        state = self.study.session.state
        extended(state, self.strategy, read_target(state, **self.larger))

    def extend(self) -> None:
        """Start the run that is asked for, unless the study has had it."""
        self.study.extend(self.strategy, **self.larger)

    def run(self, evaluate: Evaluate, context: Any) -> None:
        """Finish the current run, extend the study, and finish that run. `context` is the callback
        context or None."""
        with task(context, "search", self.search, max_subtasks=None) as searching:
            self._finish(evaluate, searching)
            self.extend()
            self._finish(evaluate, searching)
        if self.failure is not None and not self.succeeded:
            raise self.failure

    def _finish(self, evaluate: Evaluate, context: Any) -> None:
        while jobs := self.study.ask_all():
            try:
                for _, same in groupby(jobs, key=attrgetter("rung")):
                    batch = list(same)
                    results = self._evaluate(evaluate, batch, context)
                    outcomes = map(self._outcome, batch, results)
                    self.study.session.record_outcomes(zip(batch, outcomes, strict=True))
            except BaseException:
                for job in jobs:
                    if self.study.session.expects(job):
                        self.study.release(job)
                raise

    def _evaluate(self, evaluate: Evaluate, batch: list[Job], context: Any) -> list[Any]:
        """The results of jobs on one rung."""
        cv = self.resource.splitter(self.splits, batch[0])
        with self._task("rung", context, len(batch) * len(self.splits)) as reported:
            found = self._scored(evaluate, batch, cv, reported)
        return [self._result(each) for each in found]

    def _task(
        self, name: str, context: Any, count: int, in_order: bool = False
    ) -> AbstractContextManager[Any]:
        """Report a task and the number of its subtasks to callbacks."""
        settings = {"max_subtasks": count, "sequential_subtasks": in_order}
        return task(context, name, self.search, **settings)

    def _scored(self, evaluate: Evaluate, batch: list[Job], cv: Any, context: Any) -> list[Any]:
        """The columns of `cv_results_` for jobs. If all their fits fail, scikit-learn raises; then
        these candidates count as failed, unless no evaluation of the study has succeeded."""
        candidates = [self.resource.parameters(self.named(job.config), job) for job in batch]
        self._check_parameters(candidates)
        given = {} if context is None else {"callback_ctx": context}
        try:
            results = evaluate(candidates, cv=cv, **given)
        except ValueError as error:
            # Parameters and splits are already checked, so the fits failed.
            if self.search.error_score == "raise" or not has_score(self.study):
                raise
            self.failure = error
            return [error] * len(batch)
        self.succeeded = True
        first = len(results["params"]) - len(batch)
        return [kept_columns(results, first + number) for number in range(len(batch))]

    def _outcome(self, job: Job, result: Any) -> Outcome:
        outcome = read_result(result, self.study.session.state.criteria)
        seconds = None if isinstance(result, Exception) else self._seconds(job, result)
        return outcome._replace(resumed_from=self._resumed_from(job), seconds=seconds)

    def _seconds(self, job: Job, columns: Mapping[str, Any]) -> float:
        """How long all fits and scores of a job took together."""
        return seconds_of(columns, self.metrics[0])

    def _resumed_from(self, job: Job) -> int | None:
        """The rung from which training for a job continued; None if it started from scratch."""
        before = self.resource.continued_from(job)
        lower = self.study.session.state.run.budgets[: job.rung]
        return next((rung for rung, budget in enumerate(lower) if int(budget) == before), None)

    def _check_parameters(self, candidates: list[dict[str, Any]]) -> None:
        """Raise if the estimator does not have a parameter: that is an error of the user, not a
        failure of a candidate."""
        for candidate in candidates:
            clone(self.resource.estimator).set_params(**clone(candidate, safe=False))

    def _result(self, found: Any) -> Any:
        """What is recorded: the scores to optimise and all columns, or an error."""
        if isinstance(found, Exception):
            return found
        columns = {metric: f"mean_test_{metric}" for metric in self.metrics}
        for metric, name in columns.items():
            if name not in found:
                raise InputError(_no_metric(metric, several=len(columns) > 1))
        for name in constraints_of(self.search):
            if name not in found:
                metric = name.removeprefix("mean_test_")
                raise InputError(f"there is no metric {metric!r}: give constraints of others.")
        means = {name: found[name] for name in columns.values()}  # the first is the main metric
        if len(columns) == 1:
            return {"loss": found[columns[self.metrics[0]]], **means, **found}
        return {metric: found[name] for metric, name in columns.items()} | means | found


def _no_metric(metric: str, several: bool) -> str:
    what = "name others as objectives." if several else "with several, set refit to one of them."
    return f"there is no metric {metric!r}: {what}"
