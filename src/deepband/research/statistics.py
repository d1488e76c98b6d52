"""Paired differences with intervals and tests.

Data sets, not runs, are the independent observations: pairs are means over the seeds of a data set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

NEGLIGIBLE = 0.001
"""A tenth of a percentage point of accuracy."""


class Difference(NamedTuple):
    """The mean of paired differences, its 95 % interval, and the p-value of Wilcoxon's test."""

    mean: float
    low: float
    high: float
    p: float
    pairs: int

    @classmethod
    def of(cls, differences: Floats) -> Difference:
        from scipy import stats

        mean, count = float(differences.mean()), len(differences)
        if count < 2:  # neither an interval nor a test is possible
            return cls(mean, math.nan, math.nan, math.nan, count)
        if not differences.any():
            return cls(0.0, 0.0, 0.0, 1.0, count)
        low, high = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
        # Equal pairs are left out, as Wilcoxon did: the test is then exact if few pairs differ.
        p = float(stats.wilcoxon(differences[differences != 0]).pvalue)
        return cls(mean, float(low), float(high), p, count)

    @property
    def negligible(self) -> bool:
        return -NEGLIGIBLE < self.low <= self.high < NEGLIGIBLE

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean:+z.5f} (one pair)"
        return f"{self.mean:+z.5f} ({self.low:+z.5f} to {self.high:+z.5f})"


class Band(NamedTuple):
    """Means and the ends of their 95 % intervals, which are NaN for a single data set."""

    mean: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> Band:
        """Return the band of each column of a matrix."""
        from scipy import stats

        count, mean = len(values), values.mean(axis=0)
        if count < 2:
            return cls(mean, mean * np.nan, mean * np.nan)
        half = stats.t.ppf(0.975, count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count)
        return cls(mean, mean - half, mean + half)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values corrected for multiple tests (Holm, 1979)."""
    corrected, largest = [0.0] * len(values), 0.0
    order = sorted(range(len(values)), key=lambda number: values[number])
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[number]))
        corrected[number] = largest
    return corrected
