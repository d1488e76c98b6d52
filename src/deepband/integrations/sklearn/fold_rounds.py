"""Rounds whose resource is the folds of cross-validation.

A budget of k is the mean score on the first k folds. A promoted candidate is evaluated only on the
additional folds, and the scores on the others are read from the study.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from deepband.core.records import Job
from deepband.integrations.sklearn.rounds import Evaluate, Rounds, seconds_of

TIMES = ("fit_time", "score_time")


class Earlier(NamedTuple):
    """What a lower rung has recorded for a candidate."""

    rung: int | None
    folds: int
    columns: Mapping[str, Any]


NOTHING = Earlier(None, 0, {})


class FoldRounds(Rounds):
    """Runs the study of a search, rung by rung and fold by fold. Scikit-learn needs the same number
    of splits in all calls, so each call has one fold."""

    def _evaluate(self, evaluate: Evaluate, batch: list[Job], context: Any) -> list[Any]:
        earlier = [self._earlier(job) for job in batch]
        found: list[list[Any]] = [[] for _ in batch]
        missing = range(min(each.folds for each in earlier), int(batch[0].budget))
        with self._task("rung", context, len(missing), in_order=True) as rung:
            for fold in missing:
                among = [
                    number
                    for number, each in enumerate(earlier)
                    if each.folds <= fold and not _failed(found[number])
                ]
                jobs = [batch[number] for number in among]
                for number, columns in zip(
                    among, self._on_fold(evaluate, jobs, fold, rung), strict=True
                ):
                    found[number].append(columns)
        return [self._result(_joined(*each)) for each in zip(earlier, found, strict=True)]

    def _on_fold(self, evaluate: Evaluate, batch: list[Job], fold: int, context: Any) -> list[Any]:
        if not batch:
            return []
        with self._task("fold", context, len(batch)) as reported:
            return self._scored(evaluate, batch, check_cv(self.splits[fold : fold + 1]), reported)

    def _resumed_from(self, job: Job) -> int | None:
        return self._earlier(job).rung

    def _seconds(self, job: Job, columns: Mapping[str, Any]) -> float:
        earlier = self._earlier(job).columns
        before = seconds_of(earlier, self.metrics[0]) if earlier else 0.0
        return max(0.0, super()._seconds(job, columns) - before)

    def _earlier(self, job: Job) -> Earlier:
        """The highest rung below that of a job on which all folds have a score."""
        state = self.study.session.state
        for rung in reversed(range(job.bracket, job.rung)):
            result = state.results.get((job.bracket, rung), {}).get(job.index)
            columns = {} if result is None or result.metrics is None else result.metrics
            folds = int(state.run.budgets[rung])
            wanted = (f"split{fold}_test_{each}" for fold in range(folds) for each in self.metrics)
            if all(name in columns for name in wanted):
                return Earlier(rung, folds, columns)
        return NOTHING


def _failed(columns: Sequence[Any]) -> bool:
    return bool(columns) and isinstance(columns[-1], Exception)


def _joined(earlier: Earlier, new: Sequence[Any]) -> Any:
    """The columns of a candidate on all folds so far, or the error of the last one."""
    if _failed(new):
        return new[-1]
    columns: dict[str, float] = {}
    for name in TIMES:
        columns |= _times(name, earlier, [each[f"mean_{name}"] for each in new])
    for name in (name for name in new[0] if name.startswith("split0_")):
        kind = name.removeprefix("split0_")
        known = [earlier.columns.get(f"split{fold}_{kind}", nan) for fold in range(earlier.folds)]
        columns |= _scores(kind, [*map(float, known), *(each[name] for each in new)])
    return columns


def _scores(kind: str, values: Sequence[float]) -> dict[str, float]:
    """The columns of one score, computed as scikit-learn does."""
    splits = {f"split{fold}_{kind}": value for fold, value in enumerate(values)}
    mean = np.average(values)
    spread = np.sqrt(np.average((np.asarray(values) - mean) ** 2))
    return {**splits, f"mean_{kind}": float(mean), f"std_{kind}": float(spread)}


def _times(name: str, earlier: Earlier, new: Sequence[float]) -> dict[str, float]:
    """The mean and the standard deviation of times, of which only these two are known from lower
    rungs."""
    mean = float(earlier.columns.get(f"mean_{name}", 0))
    square = float(earlier.columns.get(f"std_{name}", 0)) ** 2 + mean**2
    folds = earlier.folds + len(new)
    total = (mean * earlier.folds + sum(new)) / folds
    squares = (square * earlier.folds + sum(each**2 for each in new)) / folds
    return {f"mean_{name}": total, f"std_{name}": float(max(squares - total**2, 0)) ** 0.5}
