"""Training by `fit` of estimators with `warm_start=True`, which continue where they stopped.

Many estimators have a parameter `warm_start`, with several meanings. The tables below name those
that keep what they have trained when their size grows. Others are trained from the start.
"""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline

from deepband.integrations.sklearn.callbacks import root_task, task
from deepband.integrations.sklearn.continued import Continued

ENSEMBLES = {
    "n_estimators": (
        BaggingClassifier,
        BaggingRegressor,
        ExtraTreesClassifier,
        ExtraTreesRegressor,
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        IsolationForest,
        RandomForestClassifier,
        RandomForestRegressor,
    ),
    "max_iter": (HistGradientBoostingClassifier, HistGradientBoostingRegressor),
}
"""Estimators whose size is the total: `fit` adds what is missing."""

NETWORKS = {"max_iter": (MLPClassifier, MLPRegressor)}
"""Estimators whose size is what every call of `fit` adds."""


def is_continued(estimator: Any, parameter: str) -> bool:
    """Whether an estimator continues its training when this parameter grows."""
    owner, name = _owner(estimator, parameter)
    known = ENSEMBLES.get(name, ()) + NETWORKS.get(name, ())
    return isinstance(owner, known) and bool(owner.warm_start)


def _owner(estimator: Any, parameter: str) -> tuple[Any, str]:
    """The estimator that has a parameter, and its name there. Only the last step of a pipeline is
    followed: other estimators train clones of those inside them."""
    step, separator, inner = parameter.partition("__")
    if not separator:
        return estimator, parameter
    if not isinstance(estimator, Pipeline) or step != estimator.steps[-1][0]:
        return None, parameter
    return _owner(estimator.steps[-1][1], inner)


class WarmStarted(Continued):
    """Trains an estimator until its `parameter` is `size`."""

    def __init__(
        self,
        estimator: Any,
        folder: str = "",
        place: str = "",
        size: int = 1,
        parameter: str = "",
    ) -> None:
        super().__init__(estimator, folder, place, size)
        self.parameter = parameter

    def continues(self) -> bool:
        return is_continued(self.estimator, self.parameter)  # a candidate may choose another

    def train(self, model: Any, done: int, X: Any, y: Any, given: dict[str, Any]) -> None:
        owner, name = _owner(model, self.parameter)
        adds = isinstance(owner, NETWORKS.get(name, ()))
        model.set_params(**{self.parameter: self.size - done if adds else self.size})
        named = self.routed(given)
        with (
            root_task(self, 1, X=X, y=y) as context,
            task(context, "fit-warm-start", self, within=model),
        ):
            model.fit(X, **named) if y is None else model.fit(X, y, **named)
        model.set_params(**{self.parameter: self.size})
