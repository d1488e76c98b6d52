"""Regret against budget spent, from the rows of the results.

Before its first evaluation a method has regret 1, that of the median random config. A method that
has stopped keeps its regret.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deepband.research.compare.references import Reference
from deepband.research.result_files import Columns
from deepband.research.statistics import Band, Floats

Pair: TypeAlias = tuple[str, str]
"""A benchmark and a data set."""


UNSEEN = "unseen benchmarks"
"""The group of data sets of benchmarks on which no parameter was chosen."""
MEASURES = ("accuracy", "trained")
"""The columns that a regret may be computed from: the accuracy of an incumbent with the largest
budget of the benchmark, or as it was trained."""


class Curve(NamedTuple):
    """One run: its regret at each change of the incumbent and at its end."""

    spent: Floats
    regret: Floats

    def at(self, spent: Floats) -> Floats:
        """Return the regret after each amount spent."""
        found = np.searchsorted(self.spent, spent * (1 + 1e-9), side="right")
        return np.concatenate([[1.0], self.regret])[found]


class Curves:
    """All runs, by method, data set and seed."""

    def __init__(
        self,
        results: Columns,
        references: Mapping[Pair, Reference],
        limit: float,
        measure: str = MEASURES[0],
        tuned: Collection[str] | None = None,
    ) -> None:
        self.limit = limit
        """What each method could spend, in full runs."""
        self.tuned = tuned
        """The benchmarks on which parameters were chosen; None for all."""
        self.methods: list[str] = list(dict.fromkeys(results["method"].tolist()))
        pairs = zip(results["scenario"].tolist(), results["instance"].tolist(), strict=True)
        every = list(pairs)
        self.pairs: list[Pair] = list(dict.fromkeys(every))
        scales = _scales(results[measure], every, references)
        keys = zip(every, results["method"].tolist(), results["seed"].tolist(), strict=True)
        rows: dict[tuple[Pair, str, int], list[tuple[float, float]]] = {}
        for key, spent, accuracy in zip(keys, results["spent"], results[measure], strict=True):
            median, best = scales[key[0]]
            rows.setdefault(key, []).append((spent, (best - accuracy) / (best - median)))
        self._curves = {key: Curve(*np.array(points).T) for key, points in rows.items()}
        self._seeds = {
            method: {seed for _, name, seed in rows if name == method} for method in self.methods
        }

    def seeds(self, *methods: str) -> list[int]:
        """Return the seeds that all of these methods have."""
        return sorted(set.intersection(*(self._seeds[method] for method in methods)))

    def at(self, method: str, spent: float) -> Floats:
        """Return the regret after an amount spent: one row per data set, one column per seed."""
        return self._along(method, np.array([spent]), self.seeds(method))[:, :, 0]

    def differences(self, method: str, other: str, spent: float) -> Floats:
        """Return the regret of a method minus that of another one after an amount spent: for each
        data set, the mean over the seeds that both have."""
        seeds, amount = self.seeds(method, other), np.array([spent])
        ours, theirs = (self._along(name, amount, seeds) for name in (method, other))
        means: Floats = (ours - theirs)[:, :, 0].mean(axis=1)
        return means

    def _along(self, method: str, spent: Floats, seeds: list[int]) -> Floats:
        """Return the regret after several amounts, along the third axis."""
        return np.array(
            [[self._curves[pair, method, seed].at(spent) for seed in seeds] for pair in self.pairs]
        )

    def ends(self, method: str) -> Floats:
        """Return what each run spent: one row per data set, one column per seed."""
        return np.array(
            [
                [self._curves[pair, method, seed].spent[-1] for seed in self.seeds(method)]
                for pair in self.pairs
            ]
        )

    def at_ends(self, method: str, other: str) -> Floats:
        """Return the regret of a method when it had spent what the same run of another one spent
        in all: one row per data set, one column per seed."""
        seeds = self.seeds(method, other)
        found = [
            self._curves[pair, method, seed].at(self._curves[pair, other, seed].spent[-1:])
            for pair in self.pairs
            for seed in seeds
        ]
        return np.reshape(found, (len(self.pairs), len(seeds)))

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        """Which data sets belong to each benchmark, and to all benchmarks together on which no
        parameter was chosen, if there are any."""
        scenarios = np.array([scenario for scenario, _ in self.pairs])
        found = {name: scenarios == name for name in dict.fromkeys(scenarios.tolist())}
        unseen = np.array([self.tuned is not None and name not in self.tuned for name in scenarios])
        return found | ({UNSEEN: unseen} if unseen.any() else {})

    def of(self, group: str | None) -> NDArray[np.bool_]:
        """Return which data sets belong to a group; all of them for None."""
        return np.ones(len(self.pairs), bool) if group is None else self.groups[group]

    def band(self, method: str, group: str | None, spent: Floats) -> Band:
        """Return the mean over the data sets of a group, or over all for None, and over seeds,
        with its interval over data sets."""
        found = self._along(method, spent, self.seeds(method))
        return Band.of(found.mean(axis=1)[self.of(group)])


def _scales(
    accuracies: NDArray[Any], pairs: list[Pair], references: Mapping[Pair, Reference]
) -> dict[Pair, Reference]:
    """Return references whose best is the best known, including results of all methods."""
    scales = dict(references)
    for pair, accuracy in zip(pairs, accuracies.tolist(), strict=True):
        known = scales[pair]
        scales[pair] = known._replace(best=max(known.best, accuracy))
    return scales
