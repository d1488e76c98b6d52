"""The results of a search: `cv_results_`, the best row, and the best estimator."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from deepband.errors import InputError, shown
from deepband.integrations.sklearn.callbacks import task
from deepband.integrations.sklearn.cv_results import (
    best_row,
    candidate,
    chosen_row,
    cv_results,
    front_rows,
)
from deepband.integrations.sklearn.rounds import Rounds, has_score
from deepband.integrations.sklearn.scorers import constraints_of

NAMES = (
    "cv_results_",
    "front_",
    "best_index_",
    "best_score_",
    "best_params_",
    "best_estimator_",
    "refit_time_",
    "refit_indices_",
    "feature_names_in_",
    "n_resources_",
    "width_",
)
"""The results as attributes of a search."""


def outcome(rounds: Rounds, X: Any, y: Any, given: dict[str, Any], context: Any) -> dict[str, Any]:
    """The attributes of a search whose study is done. Unless `refit` is False, the best estimator
    is trained on the data with the given parameters of `fit`."""
    study, refit = rounds.study, rounds.refit
    bounds = constraints_of(rounds.search)
    results = cv_results(study.evaluations, rounds.resource, rounds.named, bool(bounds))
    found: dict[str, Any] = {
        "n_resources_": [int(budget) for budget in study.session.state.run.budgets],
        "width_": study.width,
        "cv_results_": results,
    }
    rows = front_rows(results, rounds.metrics) if len(rounds.metrics) > 1 else None
    if rows is not None:
        found["front_"] = [candidate(results, row) for row in rows]
    if rows == [] or (best := _best(rounds, results, rows)) is None:
        if bounds and has_score(study):
            raise _infeasible(rounds.search.constraints, results)
        raise _unscored(rounds, results["params"][0], X, y, given)
    found |= best
    if refit is not False:
        found |= _refitted(rounds, found, X, y, given, context)
    return found


def _best(rounds: Rounds, results: dict[str, Any], rows: list[int] | None) -> Any:
    """The attributes of the best candidate, among these rows if there are several objectives; empty
    if nothing chooses one of them. None if no candidate has a score."""
    metric, refit = rounds.metrics[0], rounds.refit
    if callable(refit):
        row: int | None = chosen_row(results, refit)
        return {"best_index_": row, "best_params_": results["params"][row]}
    if rows is not None:
        if refit is False:
            return {}
        metric = refit
    if (row := best_row(results, metric, rows)) is None:
        return None
    score = results[f"mean_test_{metric}"][row]
    return {"best_score_": score, "best_index_": row, "best_params_": results["params"][row]}


def _infeasible(bounds: Any, results: dict[str, Any]) -> InputError:
    """The error of a search in which every candidate violates a constraint."""
    scores = ((name, results[f"mean_test_{name}"]) for name in bounds)
    found = ", ".join(f"{name} from {np.nanmin(s):.4g} to {np.nanmax(s):.4g}" for name, s in scores)
    return InputError(
        f"no candidate is within the constraints {shown(dict(bounds))}: the candidates have "
        f"{found}. Relax the constraints, or search in another space; `study_` has all results."
    )


def _unscored(
    rounds: Rounds, params: dict[str, Any], X: Any, y: Any, given: dict[str, Any]
) -> InputError:
    """The error of a search without any score. Scikit-learn only warned about the cause, maybe in
    another process, so one fold of the first candidate is evaluated again to find it."""
    first = rounds.resource.best(
        clone(params, safe=False), int(rounds.study.session.state.run.budgets[0])
    )
    cause: Exception | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cross_validate(
                first,
                X,
                y,
                cv=rounds.splits[:1],
                scoring=rounds.search.scoring,
                params=given,
                error_score="raise",
            )
    except Exception as error:
        cause = error
    why = "its score is nan." if cause is None else f"{type(cause).__name__}: {cause}"
    failure = InputError(f"no candidate has a score. The first one, {shown(params)}: {why}")
    failure.__cause__ = cause
    return failure


def _refitted(
    rounds: Rounds, found: dict[str, Any], X: Any, y: Any, given: dict[str, Any], context: Any
) -> dict[str, Any]:
    resource, largest = rounds.resource, found["n_resources_"][-1]
    best = resource.best(clone(found["best_params_"], safe=False), largest)
    start = time.time()
    weight = given.get("sample_weight")
    data = {"X": X, "y": y, "metadata": None if weight is None else {"sample_weight": weight}}
    within = best if resource.fits else None
    with task(context, "refit-with-best-params", rounds.search, within=within, data=data):
        chosen = resource.refit(best, largest, X, y, given)
    seconds = time.time() - start
    refitted = {"best_estimator_": best, "refit_time_": seconds, "refit_indices_": chosen}
    if hasattr(best, "feature_names_in_"):
        refitted["feature_names_in_"] = best.feature_names_in_
    return refitted
