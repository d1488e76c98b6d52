"""What a budget is spent on: samples, folds, a parameter of the estimator, or calls of partial_fit.

Each resource turns the budget of a job into the splitter and the parameters with which scikit-learn
evaluates it, and trains the best estimator in the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import unique_labels

from deepband.core.facts import Config
from deepband.core.records import Job
from deepband.errors import InputError
from deepband.integrations.sklearn.continued import Continued
from deepband.integrations.sklearn.models import continued_from
from deepband.integrations.sklearn.partial_fit import PartiallyFitted, known_classes
from deepband.integrations.sklearn.subsamples import (
    Subsampled,
    count,
    nested,
    select,
    select_for,
    select_parameters,
)
from deepband.integrations.sklearn.warm_start import WarmStarted, is_continued


class Resource:
    """A way to spend a budget. Configs have the names of the estimator's parameters."""

    fits = True
    """Whether `refit` calls the estimator's `fit`, which reports to callbacks itself."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        """What is cloned and evaluated."""

    def splitter(self, splits: Any, job: Job) -> Any:
        """The splitter for the budget of a job."""
        return check_cv(splits)

    def parameters(self, config: Config, job: Job) -> dict[str, Any]:
        """The parameters of the estimator for a job."""
        return self.shown(config, int(job.budget))

    def continued_from(self, job: Job) -> int:
        """The budget from which the training for a job continued; 0 is the start."""
        return 0

    def shown(self, config: Config, budget: int) -> dict[str, Any]:
        """The parameters as `cv_results_` shows them."""
        return dict(config)

    def best(self, params: dict[str, Any], budget: int) -> Any:
        """An untrained estimator with these parameters and the largest budget."""
        return clone(self.estimator).set_params(**params)

    def refit(self, best: Any, budget: int, X: Any, y: Any, given: dict[str, Any]) -> Any:
        """Train it with the largest budget. Returns the indices of the samples, None for all."""
        _fit(best, X, y, given)


def resource_of(name: str, estimator: Any, X: Any, y: Any, folder: Path, seed: int) -> Resource:
    """The resource of a name."""
    if name == "n_samples":
        return Samples(estimator, count(X), y, seed)
    if name == "folds":
        return Resource(estimator)  # the rounds choose the folds
    if name == "partial_fit":
        return PartialFit(estimator, y, folder)
    if is_continued(estimator, name):
        return WarmStart(estimator, name, folder)
    return Parameter(estimator, name)


class Parameter(Resource):
    """A parameter of the estimator, such as the number of trees."""

    def __init__(self, estimator: Any, name: str) -> None:
        if name not in estimator.get_params():
            raise InputError(
                f"resource is {name!r}, which is not a parameter of {type(estimator).__name__}: "
                "give the name of a parameter, 'n_samples', 'folds' or 'partial_fit'."
            )
        super().__init__(estimator)
        self.name = name

    def shown(self, config: Config, budget: int) -> dict[str, Any]:
        return {**config, self.name: budget}

    def best(self, params: dict[str, Any], budget: int) -> Any:
        return super().best({**params, self.name: budget}, budget)


class Samples(Resource):
    """A number of training samples. A smaller budget uses a subset of the samples of a larger one,
    and the test folds stay complete, so that scores can be compared."""

    def __init__(self, estimator: Any, samples: int, y: Any, seed: int) -> None:
        super().__init__(estimator)
        self.samples, self.seed = samples, seed
        labels = np.asarray(y) if y is not None and is_classifier(estimator) else None
        self.labels = labels if labels is not None and labels.ndim == 1 else None

    def splitter(self, splits: Any, job: Job) -> Any:
        return Subsampled(splits, int(job.budget), self.samples, self.labels, self.seed)

    def refit(self, best: Any, budget: int, X: Any, y: Any, given: dict[str, Any]) -> Any:
        chosen = None
        if budget < self.samples:
            chosen = nested(np.arange(self.samples), self.labels, self.seed)[:budget]
            given = select_parameters(given, self.samples, chosen)
            X, y = select_for(best, X, chosen), None if y is None else select(y, chosen)
        _fit(best, X, y, given)
        return chosen


class Continuing(Resource):
    """Training that continues from the rung below, with an estimator that saves models."""

    def __init__(self, plain: Any, estimator: Continued) -> None:
        self.plain = plain
        super().__init__(estimator)

    def parameters(self, config: Config, job: Job) -> dict[str, Any]:
        inner = {f"estimator__{name}": value for name, value in config.items()}
        return {**inner, "place": _place(job), "size": int(job.budget)}

    def continued_from(self, job: Job) -> int:
        return continued_from(Path(self.estimator.folder), _place(job), int(job.budget))

    def best(self, params: dict[str, Any], budget: int) -> Any:
        return clone(self.plain).set_params(**params)


class PartialFit(Continuing):
    """A number of calls of partial_fit on all data, continuing from the rung below."""

    fits = False

    def __init__(self, estimator: Any, y: Any, folder: Path) -> None:
        if not hasattr(estimator, "partial_fit"):
            raise InputError(
                f"resource is 'partial_fit', but {type(estimator).__name__} has no such method: "
                "choose another estimator or resource."
            )
        labelled = y is not None and is_classifier(estimator)
        self.classes = unique_labels(y) if labelled else None
        continued = PartiallyFitted(estimator, folder=str(folder), classes=self.classes)
        super().__init__(estimator, continued)

    def refit(self, best: Any, budget: int, X: Any, y: Any, given: dict[str, Any]) -> Any:
        named = known_classes(self.classes, self.estimator.routed(given))
        for _ in range(budget):
            best.partial_fit(X, y, **named)


class WarmStart(Continuing):
    """A parameter of an estimator that continues its training when the parameter grows."""

    def __init__(self, estimator: Any, name: str, folder: Path) -> None:
        super().__init__(estimator, WarmStarted(estimator, folder=str(folder), parameter=name))
        self.name = name

    def shown(self, config: Config, budget: int) -> dict[str, Any]:
        return {**config, self.name: budget}

    def best(self, params: dict[str, Any], budget: int) -> Any:
        return super().best({**params, self.name: budget}, budget)


def _place(job: Job) -> str:
    """The name of a config among saved models."""
    return f"{job.bracket}-{job.index}"


def _fit(estimator: Any, X: Any, y: Any, given: Any) -> None:
    """Train in place, because a user's `fit` may not return the estimator."""
    if y is None:
        estimator.fit(X, **given)
    else:
        estimator.fit(X, y, **given)
