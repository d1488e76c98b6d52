"""Training by calls of partial_fit."""

from __future__ import annotations

from typing import Any

from deepband.integrations.sklearn.callbacks import root_task, task
from deepband.integrations.sklearn.continued import Continued


def known_classes(classes: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of partial_fit: `classes` are those of the data unless the user gives them."""
    return given if classes is None else {"classes": classes, **given}


class PartiallyFitted(Continued):
    """Trains an estimator by `size` calls of partial_fit in total."""

    method = "partial_fit"

    def __init__(
        self,
        estimator: Any,
        folder: str = "",
        place: str = "",
        size: int = 1,
        classes: Any = None,
    ) -> None:
        super().__init__(estimator, folder, place, size)
        self.classes = classes

    def train(self, model: Any, done: int, X: Any, y: Any, given: dict[str, Any]) -> None:
        missing = self.size - done
        named = known_classes(self.classes, self.routed(given))
        with root_task(self, missing, X=X, y=y) as context:
            for _ in range(missing):
                with task(context, "partial_fit", self):
                    model.partial_fit(X, y, **named)
