"""An estimator that goes on from where the rung below left it.

Models lie in the study's folder, a file a config and fold. They are pickles of the user's own
estimators, written and read by the user's own search: no other part of the project reads them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import joblib
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._metadata_requests import _routing_enabled
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing


def train(model: Any, calls: int, X: Any, y: Any, classes: Any, given: Any) -> Any:
    """Call partial_fit so many times."""
    known = {} if classes is None else {"classes": classes}
    for _ in range(calls):
        model.partial_fit(X, y, **known, **given)
    return model


class Continued(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc] # it ships no types
    """Trains a clone of an estimator by `calls` of partial_fit, or a kept one by those that are
    missing, and then is that one."""

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

    def fit(self, X: Any, y: Any = None, **given: Any) -> Continued:
        fold = joblib.hash((X, y))
        model, made = self._kept(fold)
        missing = self.calls - made
        self.estimator_ = train(model, missing, X, y, self.classes, self.routed(given))
        self._keep(fold)
        return self

    def routed(self, given: dict[str, Any]) -> dict[str, Any]:
        """What partial_fit is given of what `fit` is given."""
        if not _routing_enabled():
            return given
        return dict(process_routing(self, "fit", **given).estimator.partial_fit)

    def get_metadata_routing(self) -> MetadataRouter:
        mapping = MethodMapping().add(caller="fit", callee="partial_fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _kept(self, fold: str) -> tuple[Any, int]:
        """The model that was trained longest, but not longer than wanted, and how long."""
        for calls, path in sorted(self._files(fold), reverse=True):
            if calls <= self.calls:
                return joblib.load(path), calls
        return clone(self.estimator), 0

    def _keep(self, fold: str) -> None:
        before = self._files(fold)
        path = self._folder / f"{self.place}.{fold}.{self.calls}"
        made = path.with_name(f".{path.name}.{os.getpid()}")
        joblib.dump(self.estimator_, made)
        made.replace(path)
        for _, older in before:
            if older != path:
                older.unlink(missing_ok=True)

    def _files(self, fold: str) -> list[tuple[int, Path]]:
        found = self._folder.glob(f"{self.place}.{fold}.*")
        return [(int(path.suffix[1:]), path) for path in found]

    @property
    def _folder(self) -> Path:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in vars(self)

    def __getattr__(self, name: str) -> Any:
        """Whatever scorers ask for: predict, score, classes_ and the like."""
        if name.startswith("__") or "estimator" not in vars(self):
            raise AttributeError(name)
        return getattr(vars(self).get("estimator_", self.estimator), name)
