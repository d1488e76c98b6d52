"""What a budget buys: more samples, a larger parameter, or more calls of partial_fit.

Each way turns a job's budget into the splitter, the estimator and the parameters with which
scikit-learn's own machinery evaluates it, and trains the best one in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.multiclass import unique_labels

from deepband.errors import InputError
from deepband.integrations.sklearn.continuing import Continued, train
from deepband.records import Job


class Resource(Protocol):
    """A way to spend a budget."""

    estimator: Any
    """What is cloned and evaluated."""

    def splitter(self, cv: Any, job: Job) -> Any:
        """How the data are split at the budget of a job."""

    def parameters(self, job: Job) -> dict[str, Any]:
        """What the estimator is given for a job."""

    def shown(self, config: dict[str, Any], budget: int) -> dict[str, Any]:
        """The parameters as `cv_results_` tells them."""

    def refit(self, params: dict[str, Any], budget: int, X: Any, y: Any, given: Any) -> Any:
        """The best one, trained with the largest budget on all the data."""


def resource_of(name: str, estimator: Any, y: Any, folder: Path, seed: int) -> Resource:
    """The way that a name stands for."""
    if name == "n_samples":
        return Samples(estimator, y, seed)
    if name == "partial_fit":
        return PartialFit(estimator, y, folder)
    return Parameter(estimator, name)


class Parameter:
    """A parameter of the estimator, such as the number of trees."""

    def __init__(self, estimator: Any, name: str) -> None:
        if name not in estimator.get_params():
            raise InputError(
                f"resource is {name!r}, which is no parameter of {type(estimator).__name__}: give "
                "the name of one, 'n_samples' or 'partial_fit'."
            )
        self.estimator, self.name = estimator, name

    def splitter(self, cv: Any, job: Job) -> Any:
        return cv

    def parameters(self, job: Job) -> dict[str, Any]:
        return self.shown(job.config, int(job.budget))

    def shown(self, config: dict[str, Any], budget: int) -> dict[str, Any]:
        return {**config, self.name: budget}

    def refit(self, params: dict[str, Any], budget: int, X: Any, y: Any, given: Any) -> Any:
        largest = clone(self.estimator).set_params(**{**params, self.name: budget})
        return _fit(largest, X, y, given)


class Samples:
    """So many of the samples. Those of a smaller budget are among those of a larger one, and the
    test folds stay whole, so that scores can be compared."""

    def __init__(self, estimator: Any, y: Any, seed: int) -> None:
        self.estimator, self.seed = estimator, seed
        labels = np.asarray(y) if y is not None and is_classifier(estimator) else None
        self.labels = labels if labels is not None and labels.ndim == 1 else None

    def splitter(self, cv: Any, job: Job) -> Any:
        return Subsampled(cv, int(job.budget), self.labels, self.seed)

    def parameters(self, job: Job) -> dict[str, Any]:
        return dict(job.config)

    def shown(self, config: dict[str, Any], budget: int) -> dict[str, Any]:
        return dict(config)

    def refit(self, params: dict[str, Any], budget: int, X: Any, y: Any, given: Any) -> Any:
        from sklearn.utils import _safe_indexing
        from sklearn.utils.validation import _check_method_params, _num_samples

        count = _num_samples(X)
        if budget < count:
            chosen = nested(np.arange(count), self.labels, self.seed)[:budget]
            given = _check_method_params(X, given, indices=chosen)
            X, y = _safe_indexing(X, chosen), None if y is None else _safe_indexing(y, chosen)
        return _fit(clone(self.estimator).set_params(**params), X, y, given)


class PartialFit:
    """So many calls of partial_fit on all the data, which go on from the rung below."""

    def __init__(self, estimator: Any, y: Any, folder: Path) -> None:
        if not hasattr(estimator, "partial_fit"):
            raise InputError(
                f"resource is 'partial_fit', and {type(estimator).__name__} has no such method: "
                "choose another estimator, or another resource."
            )
        labelled = y is not None and is_classifier(estimator)
        self.classes = unique_labels(y) if labelled else None
        self.plain = estimator
        self.estimator = Continued(estimator, folder=str(folder), classes=self.classes)

    def splitter(self, cv: Any, job: Job) -> Any:
        return cv

    def parameters(self, job: Job) -> dict[str, Any]:
        inner = {f"estimator__{name}": value for name, value in job.config.items()}
        return {**inner, "place": f"{job.bracket}-{job.index}", "calls": int(job.budget)}

    def shown(self, config: dict[str, Any], budget: int) -> dict[str, Any]:
        return dict(config)

    def refit(self, params: dict[str, Any], budget: int, X: Any, y: Any, given: Any) -> Any:
        model = clone(self.plain).set_params(**params)
        return train(model, budget, X, y, self.classes, self.estimator.routed(given))


def _fit(estimator: Any, X: Any, y: Any, given: Any) -> Any:
    return estimator.fit(X, **given) if y is None else estimator.fit(X, y, **given)


class Subsampled:
    """A splitter whose training folds hold their share of so many samples."""

    def __init__(self, cv: Any, samples: int, labels: Any, seed: int) -> None:
        self.cv, self.samples, self.labels, self.seed = cv, samples, labels, seed

    def get_n_splits(self, *given: Any, **named: Any) -> int:
        return int(self.cv.get_n_splits(*given, **named))

    def split(self, X: Any, y: Any = None, **named: Any) -> Iterator[tuple[Any, Any]]:
        from sklearn.utils.validation import _num_samples

        count = _num_samples(X)
        for training, test in self.cv.split(X, y, **named):
            size = max(1, len(training) * self.samples // count)
            yield nested(np.asarray(training), self.labels, self.seed)[:size], test


def nested(indices: Any, labels: Any, seed: int) -> Any:
    """Samples in an order of which every beginning is a sample of them all, stratified where they
    have labels."""
    shuffled = np.random.RandomState(seed).permutation(indices)
    if labels is None:
        return shuffled
    place = np.empty(len(shuffled))
    for label in np.unique(labels[shuffled]):
        among = np.flatnonzero(labels[shuffled] == label)
        place[among] = (np.arange(len(among)) + 0.5) / len(among)
    return shuffled[np.argsort(place, kind="stable")]
