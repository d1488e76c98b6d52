"""Some of the samples: nested subsets of training folds, and data cut to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import get_tags


class Subsampled:
    """A splitter whose training folds hold their share of so many samples, out of all of them."""

    def __init__(self, splits: Any, samples: int, of: int, labels: Any, seed: int) -> None:
        self.splits, self.samples, self.of = splits, samples, of
        self.labels, self.seed = labels, seed

    def get_n_splits(self, *given: Any, **named: Any) -> int:
        return len(self.splits)

    def split(self, *given: Any, **named: Any) -> Iterator[tuple[Any, Any]]:
        for training, test in self.splits:
            size = max(1, len(training) * self.samples // self.of)
            yield nested(training, self.labels, self.seed)[:size], test


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


def count(data: Any) -> int:
    """How many samples data have."""
    return int(data.shape[0]) if getattr(data, "shape", None) else len(data)


def taken(data: Any, chosen: Any) -> Any:
    """These samples of data of any kind that scikit-learn takes."""
    if hasattr(data, "iloc"):
        return data.iloc[chosen]
    if hasattr(data, "shape"):
        return data[chosen]
    return [data[place] for place in chosen]


def taken_for(estimator: Any, X: Any, chosen: Any) -> Any:
    """These samples of X; of a kernel or of distances between samples, their columns too."""
    rows = taken(X, chosen)
    if not get_tags(estimator).input_tags.pairwise:
        return rows
    if hasattr(rows, "iloc"):
        return rows.iloc[:, chosen]
    return (rows if hasattr(rows, "shape") else np.asarray(rows))[:, chosen]


def taken_along(given: dict[str, Any], samples: int, chosen: Any) -> dict[str, Any]:
    """Parameters of `fit`, with those that have a value a sample, such as weights, cut."""
    return {
        name: taken(value, chosen) if _is_along(value, samples) else value
        for name, value in given.items()
    }


def _is_along(value: Any, samples: int) -> bool:
    is_array = hasattr(value, "shape") or isinstance(value, list | tuple)
    return is_array and getattr(value, "shape", True) != () and count(value) == samples
