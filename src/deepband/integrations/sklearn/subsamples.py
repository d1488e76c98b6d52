"""Subsets of samples: nested subsets of training folds, and selecting them from data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import get_tags


class Subsampled:
    """A splitter whose training folds are reduced to the share `samples` / `of`."""

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
    """Shuffle samples so that each prefix is a random subset, stratified if there are labels."""
    shuffled = np.random.RandomState(seed).permutation(indices)
    if labels is None:
        return shuffled
    rank = np.empty(len(shuffled))
    for label in np.unique(labels[shuffled]):
        among = np.flatnonzero(labels[shuffled] == label)
        rank[among] = (np.arange(len(among)) + 0.5) / len(among)
    return shuffled[np.argsort(rank, kind="stable")]


def count(data: Any) -> int:
    """The number of samples."""
    return int(data.shape[0]) if getattr(data, "shape", None) else len(data)


def select(data: Any, chosen: Any) -> Any:
    """Select samples from data of any type that scikit-learn accepts."""
    if hasattr(data, "iloc"):
        return data.iloc[chosen]
    if hasattr(data, "shape"):
        return data[chosen]
    return [data[index] for index in chosen]


def select_for(estimator: Any, X: Any, chosen: Any) -> Any:
    """Select samples from X, and the same columns if X is a kernel or distance matrix."""
    rows = select(X, chosen)
    if not get_tags(estimator).input_tags.pairwise:
        return rows
    if hasattr(rows, "iloc"):
        return rows.iloc[:, chosen]
    return (rows if hasattr(rows, "shape") else np.asarray(rows))[:, chosen]


def select_parameters(given: dict[str, Any], samples: int, chosen: Any) -> dict[str, Any]:
    """Parameters of `fit`, with samples selected from those that have one value per sample."""
    return {
        name: select(value, chosen) if _is_along(value, samples) else value
        for name, value in given.items()
    }


def _is_along(value: Any, samples: int) -> bool:
    is_array = hasattr(value, "shape") or isinstance(value, list | tuple)
    return is_array and getattr(value, "shape", True) != () and count(value) == samples
