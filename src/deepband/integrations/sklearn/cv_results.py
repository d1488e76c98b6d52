"""A study as scikit-learn's `cv_results_`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata

from deepband.core.facts import Config
from deepband.core.rank_order import non_dominated
from deepband.core.records import Evaluation
from deepband.errors import InputError, shown
from deepband.integrations.sklearn.resources import Resource

KEPT = ("split", "mean_", "std_")
"""The prefixes of the columns that are stored with each evaluation."""


class NotAnIndexError(InputError, TypeError):
    """A callable `refit` returned something that is not a whole number."""


class NoSuchRowError(InputError, IndexError):
    """A callable `refit` returned a number that is not a row of `cv_results_`."""


def kept_columns(results: dict[str, Any], row: int) -> dict[str, float]:
    """One row of scikit-learn's results."""
    return {name: float(column[row]) for name, column in results.items() if name.startswith(KEPT)}


def cv_results(
    evaluations: Iterable[Evaluation],
    resource: Resource,
    named: Callable[[Config], Config],
    constrained: bool = False,
) -> dict[str, Any]:
    """One row per evaluation of all runs, in the order of a single worker. `named` converts a
    config to the names of the estimator's parameters."""
    rows = sorted(evaluations, key=lambda each: (each.run, each.rung, each.bracket, each.index))
    params = [resource.shown(named(each.config), int(each.budget)) for each in rows]
    results: dict[str, Any] = {
        "iter": np.array([each.rung - each.bracket for each in rows]),
        "n_resources": np.array([int(each.budget) for each in rows]),
        "bracket": np.array([each.bracket for each in rows]),
        "run": np.array([each.run for each in rows]),
        "params": params,
    }
    if constrained:
        results["feasible"] = np.array([each.feasible for each in rows])
    results |= _parameter_columns(params)
    names = list(dict.fromkeys(name for each in rows for name in each.metrics))
    for name in names:
        results[name] = np.array([float(each.metrics.get(name, np.nan)) for each in rows])
        if name.startswith("mean_test_"):
            results[name.replace("mean_", "rank_", 1)] = _ranks(results[name])
    return results


def _parameter_columns(params: list[dict[str, Any]]) -> dict[str, Any]:
    """One column per parameter, masked where a config does not have it."""
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in params for name in each):
        kind = _kind([each[name] for each in params if name in each])
        column: Any = np.ma.MaskedArray(np.empty(len(params), dtype=kind), mask=True)
        for row, each in enumerate(params):
            if name in each:
                column[row] = each[name]
        columns[f"param_{name}"] = column
    return columns


def _kind(values: list[Any]) -> Any:
    """The dtype of a column: numeric if all values are numbers."""
    is_numeric = {type(value) for value in values} <= {int, float, bool}
    return np.array(values).dtype if is_numeric else np.dtype(object)


def _ranks(scores: Any) -> Any:
    """Ranks from 1 for the best; rows without a score share the last rank."""
    if np.isnan(scores).all():
        return np.ones(len(scores), dtype=np.int32)
    filled = np.nan_to_num(scores, nan=np.nanmin(scores) - 1)
    return rankdata(-filled, method="min").astype(np.int32)


def best_row(results: dict[str, Any], metric: str, among: list[int] | None = None) -> int | None:
    """The row with the best score, the first of equals: among these rows or, without them, on the
    highest resource that has a feasible score, as `study.best_at()`. None if there is none."""
    scores = results.get(f"mean_test_{metric}")
    if scores is None:
        raise InputError(f"there is no metric {metric!r}: set refit to another one.")
    if among is None:
        rows = _on_top(results, ~np.isnan(scores) & _feasible(results))
    else:
        rows = np.array([row for row in sorted(among) if not np.isnan(scores[row])], dtype=int)
    return int(rows[np.argmax(scores[rows])]) if len(rows) else None


def front_rows(results: dict[str, Any], metrics: Sequence[str]) -> list[int]:
    """The feasible rows on the highest resource that has finite scores which no other one
    dominates, the best by the first metric first, then by the others."""
    unknown = np.full(len(results["params"]), np.nan)
    scores = np.array([results.get(f"mean_test_{metric}", unknown) for metric in metrics]).T
    rows = _on_top(results, np.isfinite(scores).all(axis=1) & _feasible(results))
    ordered = sorted((tuple(-scores[row]), int(row)) for row in rows)
    return [ordered[position][1] for position in non_dominated([each for each, _ in ordered])]


def _feasible(results: dict[str, Any]) -> Any:
    """Which rows are within the constraints; without any, all of them."""
    return results.get("feasible", np.ones(len(results["params"]), dtype=bool))


def _on_top(results: dict[str, Any], known: Any) -> Any:
    """The rows that have the most resources of those that are `known`."""
    rows = np.flatnonzero(known)
    if not len(rows):
        return rows
    return rows[results["n_resources"][rows] == results["n_resources"][rows].max()]


def candidate(results: dict[str, Any], row: int) -> dict[str, Any]:
    """A candidate of the front: its row, its parameters and its mean test scores by scorer."""
    prefix = "mean_test_"
    scores = {
        name.removeprefix(prefix): float(column[row])
        for name, column in results.items()
        if name.startswith(prefix)
    }
    return {"index": row, "params": results["params"][row], "scores": scores}


def chosen_row(results: dict[str, Any], refit: Callable[[dict[str, Any]], Any]) -> int:
    """The row that a callable `refit` returns."""
    chosen, rows = refit(results), len(results["params"])
    if isinstance(chosen, bool) or not isinstance(chosen, Integral):
        raise NotAnIndexError(
            f"best_index_ returned is not an integer: refit returned {shown(chosen)}. Return the "
            "number of a row of cv_results_."
        )
    if not 0 <= int(chosen) < rows:
        raise NoSuchRowError(
            f"best_index_ index out of range: refit returned {chosen}, but cv_results_ has {rows} "
            "rows. Return the number of a row."
        )
    return int(chosen)
