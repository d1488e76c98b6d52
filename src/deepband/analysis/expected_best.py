"""What more configs are expected to gain: an extrapolation of the best loss of a sample.

The best of `m` losses improves more and more slowly as `m` grows. How much it improved from
`k = m/2` (rounded up) to `m` losses is estimated without any assumption: the mean of the best over
all subsets of `k` of the `m` losses, minus the best. If losses have an exponential tail towards the
best, the expected best of `m` is a constant minus `scale * (1 + 1/2 + ... + 1/m)`. This gives the
scale, and the gain of `f` times as many losses: `scale * ln(f)`. If losses cannot fall below a
bound, the actual gain is smaller.

New losses are taken to come from the same distribution. This holds for uniform sampling; a sampler
that learns is expected to do better than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LOWEST = 64
"""How many of the lowest losses count. The weights of losses halve from one to the next, so that
the others do not change the result."""


class Estimate(NamedTuple):
    """An estimate and its standard error, which is None if there are too few losses."""

    value: float
    error: float | None


def tail_scale(losses: Iterable[float]) -> Estimate | None:
    """The scale of the tail of losses towards the best, with its jackknife standard error; None for
    fewer than two losses."""
    ascending = sorted(losses)
    size, lowest = len(ascending), ascending[: LOWEST + 1]
    if size < 2:
        return None
    return Estimate(_scale(lowest, size), _jackknife(lowest, size) if size > 2 else None)


def _jackknife(lowest: Sequence[float], size: int) -> float:
    """The standard error from the estimates without one loss each."""
    without = [_scale([*lowest[:i], *lowest[i + 1 :]], size - 1) for i in range(len(lowest))]
    others = size - len(lowest)  # without one of these, nothing changes
    counts = [*([1] * len(lowest)), others]
    values = [*without, _scale(lowest, size - 1)]
    mean = sum(n * value for n, value in zip(counts, values, strict=True)) / size
    squares = sum(n * (value - mean) ** 2 for n, value in zip(counts, values, strict=True))
    return math.sqrt((size - 1) / size * squares)


def _scale(lowest: Sequence[float], size: int) -> float:
    """The scale, from the lowest of `size` losses in ascending order."""
    half = (size + 1) // 2
    excess, weight = 0.0, half / size
    for i, loss in enumerate(lowest[:LOWEST]):
        excess += weight * (loss - lowest[0])
        weight *= max(0, size - i - half) / max(1, size - i - 1)
    return excess / sum(1 / n for n in range(half + 1, size + 1))


def gain_of_more(scale: Estimate, factor: float) -> Estimate:
    """The expected gain of the best if there are `factor` times as many losses."""
    times = math.log(factor)
    return Estimate(times * scale.value, None if scale.error is None else times * scale.error)
