"""A study as scikit-learn's `cv_results_`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import rankdata

from deepband.errors import InputError
from deepband.integrations.sklearn.resources import Resource
from deepband.records import Evaluation

KEPT = ("split", "mean_", "std_")
"""How the columns begin that are kept of each evaluation."""


def kept_columns(results: dict[str, Any], row: int) -> dict[str, float]:
    """One row of what scikit-learn measured."""
    return {name: float(column[row]) for name, column in results.items() if name.startswith(KEPT)}


def cv_results(evaluations: Iterable[Evaluation], resource: Resource) -> dict[str, Any]:
    """Every evaluation of all runs as a row, in the order in which one worker makes them."""
    rows = sorted(evaluations, key=lambda each: (each.run, each.rung, each.bracket, each.index))
    params = [resource.shown(each.config, int(each.budget)) for each in rows]
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
        column: Any = np.ma.MaskedArray(np.empty(len(params)), mask=True, dtype=object)
        for row, each in enumerate(params):
            if name in each:
                column[row] = each[name]
        columns[f"param_{name}"] = column
    return columns


def _ranks(scores: Any) -> Any:
    """1 for the best; those without a score share the last rank."""
    if np.isnan(scores).all():
        return np.ones(len(scores), dtype=np.int32)
    filled = np.nan_to_num(scores, nan=np.nanmin(scores) - 1)
    return rankdata(-filled, method="min").astype(np.int32)


def best_row(results: dict[str, Any], metric: str) -> int:
    """The best score of the highest resource on which anything has one; the first of equals."""
    scores = results[f"mean_test_{metric}"]
    known = np.flatnonzero(~np.isnan(scores))
    if not len(known):
        raise InputError("no candidate has a score: look at study_.evaluations for the reasons.")
    top = results["n_resources"][known].max()
    among = known[results["n_resources"][known] == top]
    return int(among[np.argmax(scores[among])])
