"""An estimator that continues training from the rung below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from deepband.integrations.sklearn.callbacks import CallbackSupportMixin, with_callbacks
from deepband.integrations.sklearn.models import Models
from deepband.space.content import digest


class Continued(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc] # it ships no types
    """Trains an estimator with a budget of `size` in total, from a saved model if there is one, and
    then behaves like the trained estimator. Classes that derive from it say how."""

    method = "fit"
    """The method of the estimator that trains it, and receives the metadata of `fit`."""

    def __init__(self, estimator: Any, folder: str = "", place: str = "", size: int = 1) -> None:
        self.estimator = estimator
        self.folder = folder
        self.place = place
        self.size = size

    @with_callbacks  # type: ignore[untyped-decorator] # it ships no types
    def fit(self, X: Any, y: Any = None, **given: Any) -> Continued:
        models = Models(Path(self.folder), self.place, digest((X, y, given))[:32])
        saved = models.newest(self.size) if self.continues() else None
        model, done = saved or (clone(self.estimator), 0)
        if done < self.size:
            self.train(model, done, X, y, given)
            models.keep(model, self.size, done)
        self.estimator_ = model
        return self

    def continues(self) -> bool:
        """Whether training may continue from a saved model."""
        return True

    def train(self, model: Any, done: int, X: Any, y: Any, given: dict[str, Any]) -> None:
        """Train a model of size `done` up to `size`."""
        raise NotImplementedError

    def routed(self, given: dict[str, Any]) -> dict[str, Any]:
        """The parameters of `fit` that the estimator's method receives."""
        if not get_config()["enable_metadata_routing"]:
            return given
        return dict(process_routing(self, "fit", **given).estimator[self.method])

    def get_metadata_routing(self) -> MetadataRouter:
        mapping = MethodMapping().add(caller="fit", callee=self.method)
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
