"""An estimator that continues training from the rung below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from deepband.integrations.sklearn.callbacks import (
    CallbackSupportMixin,
    root_task,
    task,
    with_callbacks,
)
from deepband.integrations.sklearn.models import Models
from deepband.space.content import digest


def known_classes(classes: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of partial_fit: `classes` are those of the data unless the user gives them."""
    return given if classes is None else {"classes": classes, **given}


class Continued(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc] # it ships no types
    """Trains an estimator by `calls` calls of partial_fit in total, from a saved model if there is
    one, and then behaves like the trained estimator."""

    def __init__(
        self,
        estimator: Any,
        folder: str = "",
        place: str = "",
        calls: int = 1,
        classes: Any = None,
    ) -> None:
        self.estimator = estimator
        self.folder = folder
        self.place = place
        self.calls = calls
        self.classes = classes

    @with_callbacks  # type: ignore[untyped-decorator] # it ships no types
    def fit(self, X: Any, y: Any = None, **given: Any) -> Continued:
        models = Models(Path(self.folder), self.place, digest((X, y))[:32])
        model, done = models.newest(self.calls) or (clone(self.estimator), 0)
        missing = self.calls - done
        named = known_classes(self.classes, self.routed(given))
        with root_task(self, missing, X=X, y=y) as context:
            for _ in range(missing):
                with task(context, "partial_fit", self):
                    model.partial_fit(X, y, **named)
        self.estimator_ = model
        models.keep(model, self.calls)
        return self

    def routed(self, given: dict[str, Any]) -> dict[str, Any]:
        """The parameters of `fit` that partial_fit receives."""
        if not get_config()["enable_metadata_routing"]:
            return given
        return dict(process_routing(self, "fit", **given).estimator.partial_fit)

    def get_metadata_routing(self) -> MetadataRouter:
        mapping = MethodMapping().add(caller="fit", callee="partial_fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __getattr__(self, name: str) -> Any:
        """Delegate what scorers use: predict, score, classes_ and others."""
        if name.startswith("_") or "estimator" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self).get("estimator_", self.estimator), name)
