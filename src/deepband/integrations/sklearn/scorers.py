"""The scorers of a search, and those that it optimises."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sklearn.metrics import check_scoring

from deepband.core.criteria import Bounds, read_bounds
from deepband.errors import InputError, shown

COLUMN = re.compile(r"(split[0-9]+|mean|std)_(test|train)_.*|(mean|std)_(fit|score)_time")
"""Columns of `cv_results_` that are stored with each evaluation, next to the objectives."""


def scorers_of(estimator: Any, scoring: Any) -> Any:
    """The scorer, or a dict of scorers by name. Raises if one is invalid."""
    if isinstance(scoring, list | tuple | set):
        scoring = {name: name for name in scoring}
    if isinstance(scoring, dict):
        return {name: check_scoring(estimator, each) for name, each in scoring.items()}
    return scoring if callable(scoring) else check_scoring(estimator, scoring)


def metrics_of(search: Any) -> tuple[str, ...]:
    """The names of the optimised scores in `cv_results_`: one, or those of several objectives."""
    if search.objectives is None:
        return (_metric(search.scoring, search.refit),)
    names = _objectives(search.objectives)
    _check_known("objectives", names, search.scoring)
    refit = search.refit
    if isinstance(refit, str):
        _check_known("refit", [refit], search.scoring)
    elif refit is not False and not callable(refit):
        raise InputError(
            f"refit is {shown(refit)}, but several objectives have no single best candidate: set "
            "refit to a function of cv_results_ that returns a row, to the name of a scorer, or to "
            "False."
        )
    return names


def constraints_of(search: Any) -> dict[str, Bounds]:
    """The bounds of scores, by their columns in `cv_results_`."""
    given = search.constraints
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f"constraints is {shown(given)}: give a mapping from names of scorers to bounds, such "
            'as {"recall": (0.8, None)}.'
        )
    _check_known("constraints", given, search.scoring)
    return {f"mean_test_{name}": read_bounds(name, bounds) for name, bounds in given.items()}


def is_multimetric(search: Any) -> bool:
    """Whether the columns of `cv_results_` have the names of scorers."""
    return metrics_of(search) != ("score",)


def _metric(scoring: Any, refit: Any) -> str:
    if isinstance(scoring, list | tuple | dict | set):
        if not isinstance(refit, str) or refit not in scoring:
            raise InputError(
                "with several metrics, set refit to the one to optimise, or name several of them "
                "as objectives."
            )
        return refit
    return refit if callable(scoring) and isinstance(refit, str) else "score"


def _objectives(given: Any) -> tuple[str, ...]:
    names = tuple(given) if isinstance(given, list | tuple) else ()
    texts = all(isinstance(name, str) for name in names)
    if len(names) < 2 or not texts or len(set(names)) < len(names):
        raise InputError(
            f"objectives is {shown(given)}: give a list of two or more different names of scorers. "
            "To optimise one of several scores, set refit to its name instead."
        )
    for name in names:
        if COLUMN.fullmatch(name):
            raise InputError(
                f"{name!r} cannot be an objective: a column of cv_results_ has this name. Choose "
                "another name for the scorer."
            )
    return names


def _check_known(argument: str, names: Any, scoring: Any) -> None:
    """Raise if a name is not that of a scorer. The names that a function returns are not known
    before it is called."""
    if callable(scoring):
        return
    known = list(scoring) if isinstance(scoring, list | tuple | set | dict) else []
    for name in names:
        if name not in known:
            raise InputError(
                f"{argument} has {name!r}, which is not a scorer: scoring is {shown(scoring)}. "
                "Give scoring a dict or a list that has it."
            )
