"""Running a study by scikit-learn's own evaluation of candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from deepband import report
from deepband.errors import InputError
from deepband.integrations.sklearn.resources import Resource
from deepband.integrations.sklearn.tables import kept_columns
from deepband.records import Job
from deepband.strategies import StrategyName
from deepband.study import Study

Evaluate = Callable[..., dict[str, Any]]


@dataclass
class Rounds:
    """What a search does between its start and its results."""

    study: Study
    resource: Resource
    cv: Any
    metric: str
    strategy: StrategyName
    to: float
    succeeded: bool = False
    failure: ValueError | None = None
    """Why all fits of a round failed."""

    def run(self, evaluate: Evaluate) -> None:
        """Finish the current run, and the one that leads to the wanted resources."""
        self._finish(evaluate)
        self.study.deepen(self.strategy, to=self.to)
        self._finish(evaluate)
        if self.failure is not None and not self.succeeded:
            raise self.failure

    def _finish(self, evaluate: Evaluate) -> None:
        while jobs := self.study.ask_all():
            try:
                for _, same in groupby(jobs, key=attrgetter("rung")):
                    batch = list(same)
                    told = self._evaluate(evaluate, batch)
                    self.study.tell_all(zip(batch, told, strict=True))
            except BaseException:
                for job in jobs:
                    if self.study.expects(job):
                        self.study.release(job)
                raise

    def _evaluate(self, evaluate: Evaluate, batch: list[Job]) -> list[Any]:
        """The results of jobs on one rung. When all fits of a round fail, scikit-learn raises; here
        that is a verdict about these candidates, unless nothing has ever succeeded."""
        candidates = [self.resource.parameters(job) for job in batch]
        try:
            results = evaluate(candidates, cv=self.resource.splitter(self.cv, batch[0]))
        except ValueError as error:
            if report.best(self.study.state) is None or not str(error).lstrip().startswith(
                "All the"
            ):
                raise
            self.failure = error
            return [error] * len(batch)
        self.succeeded = True
        first = len(results["params"]) - len(batch)
        return [self._result(results, first + number) for number in range(len(batch))]

    def _result(self, results: dict[str, Any], row: int) -> dict[str, Any]:
        name = f"mean_test_{self.metric}"
        if name not in results:
            raise InputError(
                f"there is no metric {self.metric!r}: with several, refit names what decides."
            )
        score = float(results[name][row])
        return {"loss": score, **kept_columns(results, row)}
