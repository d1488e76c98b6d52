"""A study as scikit-learn's `cv_results_`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from scipy.stats import rankdata

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.errors import InputError, shown
from deepband.integrations.sklearn.resources import Resource

KEPT = ("split", "mean_", "std_")
"""How the columns begin that are kept of each evaluation."""


class NotAnIndexError(InputError, TypeError):
    """What a callable `refit` returned is not a whole number."""


class NoSuchRowError(InputError, IndexError):
    """What a callable `refit` returned is not a row of `cv_results_`."""


def kept_columns(results: dict[str, Any], row: int) -> dict[str, float]:
    """One row of what scikit-learn measured."""
    return {name: float(column[row]) for name, column in results.items() if name.startswith(KEPT)}


def cv_results(
    evaluations: Iterable[Evaluation], resource: Resource, named: Callable[[Config], Config]
) -> dict[str, Any]:
    """Every evaluation of all runs as a row, in the order in which one worker makes them. `named`
    gives a config the names of the estimator's parameters."""
    rows = sorted(evaluations, key=lambda each: (each.run, each.rung, each.bracket, each.index))
    params = [resource.shown(named(each.config), int(each.budget)) for each in rows]
    results: dict[str, Any] = {
        "iter": np.array([each.rung - each.bracket for each in rows]),
        "n_resources": np.array([int(each.budget) for each in rows]),
        "bracket": np.array([each.bracket for each in rows]),
        "run": np.array([each.run for each in rows]),
        "params": params,
    }
    results |= _parameter_columns(params)
    names = list(dict.fromkeys(name for each in rows for name in each.metrics))
    for name in names:
        results[name] = np.array([float(each.metrics.get(name, np.nan)) for each in rows])
        if name.startswith("mean_test_"):
            results[name.replace("mean_", "rank_", 1)] = _ranks(results[name])
    return results


def _parameter_columns(params: list[dict[str, Any]]) -> dict[str, Any]:
    """A masked column a parameter: a config need not have it."""
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
    """The type of a column: a number that holds all values where they are numbers."""
    is_numeric = {type(value) for value in values} <= {int, float, bool}
    return np.array(values).dtype if is_numeric else np.dtype(object)


def _ranks(scores: Any) -> Any:
    """1 for the best; those without a score share the last rank."""
    if np.isnan(scores).all():
        return np.ones(len(scores), dtype=np.int32)
    filled = np.nan_to_num(scores, nan=np.nanmin(scores) - 1)
    return rankdata(-filled, method="min").astype(np.int32)


def best_row(results: dict[str, Any], metric: str) -> int | None:
    """The best score of the highest resource on which anything has one; the first of equals. None
    when nothing has a score."""
    scores = results[f"mean_test_{metric}"]
    known = np.flatnonzero(~np.isnan(scores))
    if not len(known):
        return None
    top = results["n_resources"][known].max()
    among = known[results["n_resources"][known] == top]
    return int(among[np.argmax(scores[among])])


def chosen_row(results: dict[str, Any], refit: Callable[[dict[str, Any]], Any]) -> int:
    """The row that a callable `refit` chooses."""
    chosen, rows = refit(results), len(results["params"])
    if isinstance(chosen, bool) or not isinstance(chosen, Integral):
        raise NotAnIndexError(
            f"best_index_ returned is not an integer: refit returned {shown(chosen)}. Return the "
            "number of a row of cv_results_."
        )
    if not 0 <= int(chosen) < rows:
        raise NoSuchRowError(
            f"best_index_ index out of range: refit returned {chosen}, and cv_results_ has {rows} "
            "rows. Return the number of one of them."
        )
    return int(chosen)
