"""The scorers of a search, and the metric that it optimises."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import check_scoring

from deepband.errors import InputError


def scorers_of(estimator: Any, scoring: Any) -> Any:
    """The scorer, or a dict of scorers by name. Raises if one is invalid."""
    if isinstance(scoring, list | tuple | set):
        scoring = {name: name for name in scoring}
    if isinstance(scoring, dict):
        return {name: check_scoring(estimator, each) for name, each in scoring.items()}
    return scoring if callable(scoring) else check_scoring(estimator, scoring)


def metric_of(scoring: Any, refit: Any) -> str:
    """The name of the optimised score in `cv_results_`."""
    if isinstance(scoring, list | tuple | dict | set):
        if not isinstance(refit, str) or refit not in scoring:
            raise InputError("with several metrics, set refit to the one to optimise.")
        return refit
    return refit if callable(scoring) and isinstance(refit, str) else "score"
