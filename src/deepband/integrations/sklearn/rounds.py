"""Running a study by scikit-learn's own evaluation of candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from sklearn.base import clone

from deepband.core.evaluations import best_evaluation
from deepband.core.facts import Config
from deepband.core.records import Job
from deepband.core.strategies import StrategyName
from deepband.errors import InputError
from deepband.integrations.sklearn.callbacks import task
from deepband.integrations.sklearn.resources import Resource
from deepband.integrations.sklearn.tables import kept_columns
from deepband.study.study import Study

Evaluate = Callable[..., dict[str, Any]]


@dataclass
class Rounds:
    """What a search does between its start and its results."""

    search: Any
    study: Study
    resource: Resource
    splits: Any
    metric: str
    refit: Any
    """What the user gave; `search.refit` is False while scikit-learn's own `fit` runs."""
    strategy: StrategyName
    to: float
    named: Callable[[Config], Config]
    """A config by the names of the estimator's parameters."""
    succeeded: bool = False
    failure: ValueError | None = None
    """Why all fits of a round failed."""

    def run(self, evaluate: Evaluate, context: Any) -> None:
        """Finish the current run, and the one that leads to the wanted resources. `context` is that
        of callbacks, or None."""
        with task(context, "search", self.search, max_subtasks=None) as searching:
            self._finish(evaluate, searching)
            self.study.deepen(self.strategy, to=self.to)
            self._finish(evaluate, searching)
        if self.failure is not None and not self.succeeded:
            raise self.failure

    def _finish(self, evaluate: Evaluate, context: Any) -> None:
        while jobs := self.study.ask_all():
            try:
                for _, same in groupby(jobs, key=attrgetter("rung")):
                    batch = list(same)
                    told = self._evaluate(evaluate, batch, context)
                    self.study.tell_all(zip(batch, told, strict=True))
            except BaseException:
                for job in jobs:
                    if self.study.session.expects(job):
                        self.study.release(job)
                raise

    def _evaluate(self, evaluate: Evaluate, batch: list[Job], context: Any) -> list[Any]:
        """The results of jobs on one rung. When all fits of a round fail, scikit-learn raises; here
        that is a verdict about these candidates, unless nothing has ever succeeded."""
        candidates = [self.resource.parameters(self.named(job.config), job) for job in batch]
        self._check_parameters(candidates)
        cv = self.resource.splitter(self.splits, batch[0])
        count = len(batch) * len(self.splits)
        settings = {"max_subtasks": count, "sequential_subtasks": False}
        try:
            with task(context, "rung", self.search, **settings) as reported:
                given = {} if reported is None else {"callback_ctx": reported}
                results = evaluate(candidates, cv=cv, **given)
        except ValueError as error:
            # Parameters and splits are checked by now, so it is the fits that failed.
            if (
                best_evaluation(self.study.session.state) is None
                or self.search.error_score == "raise"
            ):
                raise
            self.failure = error
            return [error] * len(batch)
        self.succeeded = True
        first = len(results["params"]) - len(batch)
        return [self._result(results, first + number) for number in range(len(batch))]

    def _check_parameters(self, candidates: list[dict[str, Any]]) -> None:
        """Raise what `set_params` says about a parameter that the estimator does not have: that is
        no verdict about a candidate."""
        for candidate in candidates:
            clone(self.resource.estimator).set_params(**clone(candidate, safe=False))

    def _result(self, results: dict[str, Any], row: int) -> dict[str, Any]:
        name = f"mean_test_{self.metric}"
        if name not in results:
            raise InputError(
                f"there is no metric {self.metric!r}: with several, refit names what decides."
            )
        score = float(results[name][row])
        return {"loss": score, **kept_columns(results, row)}
