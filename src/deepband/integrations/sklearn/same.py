"""What must stay the same for a search to go on: data, splits, estimator and scoring."""

from __future__ import annotations

import hashlib
from numbers import Integral
from typing import Any

import joblib
import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv

from deepband.errors import InputError, shown


def name_of(search: Any, X: Any, y: Any, params: Any) -> str:
    """What a search evaluates, in a text that is the same in every process."""
    data = joblib.hash([_contiguous(each) for each in (X, y, *params.values())])
    settings = {
        "estimator": _plain(search.estimator.get_params(deep=True)),
        "scoring": _plain(search.scoring),
        "cv": _plain(search.cv),
        "metric": search.refit if isinstance(search.refit, str) else "",
    }
    digest = hashlib.sha256(repr(settings).encode()).hexdigest()[:8]
    kind = type(search.estimator).__name__
    return f"{kind} by {search.resource}, settings {digest}, data {data}"


def _contiguous(data: Any) -> Any:
    """The same values hash the same, however they lie in memory."""
    return np.ascontiguousarray(data) if isinstance(data, np.ndarray) else data


def _plain(value: Any) -> Any:
    """Settings as texts without addresses in memory."""
    if isinstance(value, dict):
        return sorted((str(key), _plain(each)) for key, each in value.items())
    if isinstance(value, list | tuple | set):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return joblib.hash(np.ascontiguousarray(value))
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def splitter(search: Any, y: Any) -> Any:
    """The splitter of a search, which gives the same folds whenever it is asked. Splits that a
    generator gives are kept, because it gives them once."""
    if hasattr(search.cv, "__next__"):
        if vars(search).get("_splits", (None, None))[0] is not search.cv:
            search._splits = search.cv, list(search.cv)
        return check_cv(search._splits[1])
    cv = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
    if getattr(cv, "shuffle", True) and not isinstance(getattr(cv, "random_state", 0), Integral):
        raise InputError(
            f"cv is {cv}, which splits differently every time: give it a random_state, so that "
            "scores can be compared."
        )
    return cv


def whole(name: str, given: Any) -> int:
    """A number of resources."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InputError(f"{name} is {shown(given)}: give a whole number.")
    return int(given)
