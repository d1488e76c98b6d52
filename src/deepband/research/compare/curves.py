"""Regret against budget spent, from the rows of the results.

Before its first evaluation a method is given regret 1, that of the median config by chance. One
that has ended stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepband.research.compare.ledger import FULL_RUNS
from deepband.research.compare.references import Reference
from deepband.research.paper.comparing import Columns

Floats: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[str, str]
"""A scenario and a data set."""


class Curve(NamedTuple):
    """One run: where its incumbent changed, and where it ended."""

    spent: Floats
    regret: Floats

    def at(self, spent: Floats) -> Floats:
        """The regret when so much is spent."""
        found = np.searchsorted(self.spent, spent * (1 + 1e-9), side="right")
        return np.concatenate([[1.0], self.regret])[found]


class Band(NamedTuple):
    """Means and the ends of their 95 % intervals, which are NaN for a single data set."""

    mean: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> Band:
        """Of the rows of a matrix, column by column."""
        from scipy import stats

        count, mean = len(values), values.mean(axis=0)
        if count < 2:
            return cls(mean, mean * np.nan, mean * np.nan)
        half = stats.t.ppf(0.975, count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)
        return cls(mean, mean - half, mean + half)


class Curves:
    """All runs: by method, data set and seed."""

    def __init__(
        self,
        results: Columns,
        references: Mapping[Pair, Reference],
        full_runs: int = FULL_RUNS,
    ) -> None:
        self.full_runs = full_runs
        """What a method might spend."""
        self.methods: list[str] = list(dict.fromkeys(results["method"].tolist()))
        pairs = zip(results["scenario"].tolist(), results["instance"].tolist(), strict=True)
        every = list(pairs)
        self.pairs: list[Pair] = list(dict.fromkeys(every))
        scales = _scales(results["accuracy"], every, references)
        keys = zip(every, results["method"].tolist(), results["seed"].tolist(), strict=True)
        rows: dict[tuple[Pair, str, int], list[tuple[float, float]]] = {}
        for key, spent, accuracy in zip(keys, results["spent"], results["accuracy"], strict=True):
            median, best = scales[key[0]]
            rows.setdefault(key, []).append((spent, (best - accuracy) / (best - median)))
        self._curves = {key: Curve(*np.array(points).T) for key, points in rows.items()}
        self.seeds = sorted({seed for _, _, seed in rows})

    def at(self, method: str, spent: float) -> Floats:
        """The regret when so much is spent: a row a data set, a column a seed."""
        return self.along(method, np.array([spent]))[:, :, 0]

    def along(self, method: str, spent: Floats) -> Floats:
        """The same for many amounts, along the third axis."""
        return np.array(
            [
                [self._curves[pair, method, seed].at(spent) for seed in self.seeds]
                for pair in self.pairs
            ]
        )

    def ends(self, method: str) -> Floats:
        """What a run has spent at its end: a row a data set, a column a seed."""
        return np.array(
            [
                [self._curves[pair, method, seed].spent[-1] for seed in self.seeds]
                for pair in self.pairs
            ]
        )

    def of_scenario(self, scenario: str | None) -> NDArray[np.bool_]:
        """Which data sets are of a scenario; all of them for none."""
        return np.array([scenario in (None, pair[0]) for pair in self.pairs])

    def band(self, method: str, scenario: str | None, spent: Floats) -> Band:
        """The mean over data sets and seeds, and its interval over data sets."""
        return Band.of(self.along(method, spent).mean(axis=1)[self.of_scenario(scenario)])


def _scales(
    accuracies: NDArray[Any], pairs: list[Pair], references: Mapping[Pair, Reference]
) -> dict[Pair, Reference]:
    """References whose best is the best that is known, whoever found it."""
    scales = dict(references)
    for pair, accuracy in zip(pairs, accuracies.tolist(), strict=True):
        known = scales[pair]
        scales[pair] = known._replace(best=max(known.best, accuracy))
    return scales
