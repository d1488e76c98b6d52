"""The scorers of a search, and which of them decides."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import check_scoring

from deepband.errors import InputError


def scorers_of(estimator: Any, scoring: Any) -> Any:
    """The scorer, or all of them by name; an error if there is none."""
    if isinstance(scoring, list | tuple | set):
        scoring = {name: name for name in scoring}
    if isinstance(scoring, dict):
        return {name: check_scoring(estimator, each) for name, each in scoring.items()}
    return scoring if callable(scoring) else check_scoring(estimator, scoring)


def metric_of(scoring: Any, refit: Any) -> str:
    """The name of the score that decides, as `cv_results_` has it."""
    if isinstance(scoring, list | tuple | dict | set):
        if not isinstance(refit, str) or refit not in scoring:
            raise InputError("with several metrics, refit names the one that decides.")
        return refit
    return refit if callable(scoring) and isinstance(refit, str) else "score"
