"""What must stay the same when a search continues: data, splits, estimator and scoring."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import process_routing

from deepband.errors import InputError, shown
from deepband.space.content import digest


class Routed(NamedTuple):
    """The parameters of `fit` by receiver."""

    split: dict[str, Any]
    fit: dict[str, Any]


def routed(search: Any, params: dict[str, Any]) -> Routed:
    """Route the parameters of `fit` as scikit-learn's searches do."""
    if get_config()["enable_metadata_routing"]:
        found = process_routing(search, "fit", **params)
        return Routed(dict(found.splitter.split), dict(found.estimator.fit))
    rest = {name: value for name, value in params.items() if name != "groups"}
    return Routed({"groups": params.get("groups")}, rest)


def name_of(search: Any, X: Any, y: Any, splits: Any, params: Any) -> str:
    """A text that identifies what a search evaluates, the same in every process."""
    metric: Any = search.refit if isinstance(search.refit, str) else ""
    if search.objectives is not None:
        metric = tuple(search.objectives)  # refit chooses among the results, and may change
    parts = {
        "estimator": search.estimator,
        "scoring": (search.scoring, metric),
        "splits": splits,
        "data": (X, y),
        "parameters of fit": params,
    }
    digests = ", ".join(f"{part} {digest(value)[:12]}" for part, value in parts.items())
    return f"{type(search.estimator).__name__} by {search.resource}: {digests}"


def check_name(known: str | None, name: str) -> None:
    """Raise an InputError that names the differences if a study evaluated something else."""
    if known in (None, name):
        return
    was, now = (dict(_parts(each)) for each in (known or "", name))
    other = [part for part, found in now.items() if was.get(part) != found]
    raise InputError(
        f"the study evaluated {known}, but this is {name}: {' and '.join(other)} "
        f"{'differs' if len(other) == 1 else 'differ'}. Continue with the same data, estimator, "
        "cv, scoring and resource, or start another study."
    )


def _parts(name: str) -> Iterator[tuple[str, str]]:
    kind, _, digests = name.partition(": ")
    yield "estimator or resource", kind
    for each in digests.split(", "):
        part, _, found = each.rpartition(" ")
        yield part, found


def splits_of(search: Any, X: Any, y: Any, given: dict[str, Any]) -> list[tuple[Any, Any]]:
    """The folds as indices of training and test samples. The folds of a generator are kept, because
    it yields them only once."""
    if hasattr(search.cv, "__next__"):
        if vars(search).get("_splits", (None, None))[0] is not search.cv:
            search._splits = search.cv, list(search.cv)
        cv = check_cv(search._splits[1])
    else:
        cv = check_cv(search.cv, y, classifier=is_classifier(search.estimator))
    if getattr(cv, "shuffle", True) and not isinstance(getattr(cv, "random_state", 0), Integral):
        raise InputError(
            f"cv is {cv}, which splits differently every time: give it a random_state, because "
            "scores on different splits cannot be compared."
        )
    found = [(_indices(training), _indices(test)) for training, test in cv.split(X, y, **given)]
    if not found:
        raise InputError(f"cv is {shown(search.cv)}, which has no splits: give one or more.")
    return found


def _indices(fold: Any) -> Any:
    """A fold, which may be a mask, as indices."""
    found = np.asarray(fold)
    return np.flatnonzero(found) if found.dtype == bool else found
