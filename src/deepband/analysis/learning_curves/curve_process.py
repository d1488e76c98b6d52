"""A prior over the learning curves of all configs of a study, conditioned on observed losses.

A target is a loss on the scale of `LossScale`, and rung k has eta^k times the budget of rung 0. The
target of a config on a rung is a sum of independent parts:

    common to all configs   a level, a power law of the budget, and a walk from rung to rung
    of one config           a level that is multiplied by a constant from rung to rung, a power
                            law, and a walk
    of one observation      noise

A power law is a multiple of h(r) = 1 + p + ... + p^(r-1): each rung changes the target by p times
what the rung before it did. The steps of walks shrink in the same way. The parts of two configs are
correlated as far as their parameters are close (a Matérn 5/2 kernel). All parts are normal with one
unknown scale, so that predictions are Student t distributions.

How much each part contributes is not fitted. A few combinations (`HYPOTHESES`) are averaged,
weighted by how well they explain the observations. There is no optimizer: little data leads to
wide predictions, not to extreme parameters.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from threadpoolctl import ThreadpoolController

from deepband.space.unit_cube import Floats

LEVEL = 4.0
"""The variance of the common level, in units of the scale, as all variances here."""
MEAN_TREND = -0.3
"""What the first rung is expected to change. This is the only part with a mean."""
WALK = 0.3
"""The variance of the first step of the common walk."""
OWN_TREND = 0.1
"""The variance of the power law of a config."""
DECAY = 0.4
"""The p of power laws: the change of a rung, divided by that of the rung below."""
LENGTH = 0.4
"""The length scale of the kernel, in units of the square root of the number of inputs."""
SCALE, CERTAINTY = 0.5, 4.0
"""The scale before anything is observed, and as many observations as it counts for."""
DEGREES = 3.0
"""The degrees of freedom of predictions are at most this: real curves have jumps that normal parts
do not explain."""
SHARES = 0.5, 0.99
"""Which share of the parts of a config its parameters determine."""
FACTORS = 0.6, 0.9
"""By what the level of a config is multiplied from rung to rung."""
CHANGES = (0.1, 0.1), (0.8, 1.0), (3.0, 10.0)
"""How much losses change from rung to rung: the variance of the first step of a config's walk, and
that of the common power law."""
NOISES = 0.005, 0.1
"""The variance of the noise."""
# All of these were chosen on tuning data sets, by the log score of `bench/learning_curves.py`.
LEAST_WEIGHT = 1e-3
"""Hypotheses with less weight are left out."""
JITTER = 1e-8, 1e-6, 1e-4, 1e-2
"""What is added to the diagonal, relative to it, until a matrix is positive definite."""


class Hypothesis(NamedTuple):
    """How much the parts contribute."""

    share: float
    factor: float
    step: float
    trend: float
    noise: float


HYPOTHESES = tuple(
    Hypothesis(share, factor, *change, noise)
    for share, factor, change, noise in product(SHARES, FACTORS, CHANGES, NOISES)
)


class Points(NamedTuple):
    """Configs on rungs: for each the inputs of the config, its number, and the rung."""

    inputs: Floats
    configs: NDArray[np.int64]
    rungs: Floats


class Conclusion(NamedTuple):
    """What one hypothesis predicts: a multivariate t distribution."""

    weight: float
    means: Floats
    factor: Floats
    """A lower triangular matrix: means + factor @ t has the predicted distribution."""

    @property
    def spreads(self) -> Floats:
        """The scale of each target by itself."""
        return np.asarray(np.sqrt((self.factor**2).sum(axis=1)))


class CurveProcess:
    """The prior, conditioned on targets at points."""

    def __init__(self, points: Points, targets: Floats) -> None:
        self.points = points
        # Sums of floats depend on how many threads share them.
        with _libraries().limit(limits=1):
            pairs = _Pairs(points, points)
            fits = [_Fit(pairs, targets - _mean(points), each) for each in HYPOTHESES]
        evidence = np.array([fit.evidence for fit in fits])
        weights = np.exp(evidence - evidence.max())
        kept = weights >= LEAST_WEIGHT * weights.sum()
        self._weights = weights[kept] / weights[kept].sum()
        self._fits = [fit for fit, is_kept in zip(fits, kept, strict=True) if is_kept]
        self.degrees = min(DEGREES, CERTAINTY + len(targets))

    def predict(self, points: Points) -> list[Conclusion]:
        """The targets at points, noise included, by each hypothesis."""
        with _libraries().limit(limits=1):
            across, within = _Pairs(self.points, points), _Pairs(points, points)
            means = _mean(points)
            found = []
            for weight, fit in zip(self._weights, self._fits, strict=True):
                change, factor = fit.predict(across, within)
                found.append(Conclusion(float(weight), means + change, factor))
            return found


def conditioned(points: Points, targets: Floats) -> CurveProcess:
    """The prior, conditioned on targets at points. The last results are kept, because predictions
    for many configs share them."""
    inputs = np.ascontiguousarray(points.inputs)
    arrays = (inputs, points.configs, points.rungs, targets)
    return _conditioned(inputs.shape, *(each.tobytes() for each in arrays))


@lru_cache(maxsize=8)
def _conditioned(
    shape: tuple[int, int], inputs: bytes, configs: bytes, rungs: bytes, targets: bytes
) -> CurveProcess:
    numbers = np.frombuffer(configs, dtype=np.int64)
    points = Points(np.frombuffer(inputs).reshape(shape), numbers, np.frombuffer(rungs))
    return CurveProcess(points, np.frombuffer(targets))


class _Fit:
    """One hypothesis, conditioned on the differences of targets from their prior means."""

    def __init__(self, pairs: _Pairs, differences: Floats, hypothesis: Hypothesis) -> None:
        self.hypothesis = hypothesis
        covariance = pairs.covariance(hypothesis)
        covariance.flat[:: len(covariance) + 1] += hypothesis.noise
        self._factor = _factor(covariance)
        self._whitened = self._solved(differences)
        count = CERTAINTY + len(differences)
        squares = CERTAINTY * SCALE**2 + self._whitened @ self._whitened
        self._variance = squares / count
        determinant = np.log(np.diag(self._factor)).sum()
        self.evidence = -determinant - 0.5 * count * np.log(squares)

    def predict(self, across: _Pairs, within: _Pairs) -> tuple[Floats, Floats]:
        """The means and the factor of other points, from their pairs with the data and among
        themselves."""
        half = self._solved(across.covariance(self.hypothesis))
        covariance = within.covariance(self.hypothesis) - half.T @ half
        covariance.flat[:: len(covariance) + 1] += self.hypothesis.noise
        return half.T @ self._whitened, np.sqrt(self._variance) * _factor(covariance)

    def _solved(self, right: Floats) -> Floats:
        return np.asarray(solve_triangular(self._factor, right, lower=True, check_finite=False))


def _mean(points: Points) -> Floats:
    return MEAN_TREND * _geometric(points.rungs, DECAY)


def _geometric(rungs: Floats, ratio: float) -> Floats:
    """1 + ratio + ... + ratio^(rung - 1)."""
    return np.asarray((1.0 - ratio**rungs) / (1.0 - ratio))


class _Pairs:
    """What covariances of points in rows with points in columns are computed from."""

    def __init__(self, left: Points, right: Points) -> None:
        self._trend = np.outer(_geometric(left.rungs, DECAY), _geometric(right.rungs, DECAY))
        steps = (_geometric(each.rungs, DECAY**2) for each in (left, right))
        self._walk = np.minimum.outer(*steps)
        self._rungs = np.add.outer(left.rungs, right.rungs)
        self._same = (left.configs[:, None] == right.configs).astype(np.float64)
        self._close = _matern(left.inputs, right.inputs) - self._same
        self._common = LEVEL + WALK * self._walk

    def covariance(self, hypothesis: Hypothesis) -> Floats:
        """The covariances without noise."""
        own = hypothesis.factor**self._rungs
        own += OWN_TREND * self._trend + hypothesis.step * self._walk
        own *= self._same + hypothesis.share * self._close
        return np.asarray(self._common + hypothesis.trend * self._trend + own)


def _matern(left: Floats, right: Floats) -> Floats:
    """The Matérn 5/2 kernel."""
    apart = ((left[:, None, :] - right) ** 2).sum(axis=2)
    root = np.sqrt(5.0 * apart / (LENGTH**2 * max(1, left.shape[1])))
    return np.asarray((1.0 + root + root**2 / 3.0) * np.exp(-root))


def _factor(covariance: Floats) -> Floats:
    """The lower Cholesky factor, with as little added to the diagonal as it takes."""
    diagonal = np.diag(covariance).copy()
    for jitter in JITTER:
        covariance.flat[:: len(covariance) + 1] = diagonal * (1.0 + jitter)
        try:
            return np.asarray(cholesky(covariance, lower=True, check_finite=False))
        except LinAlgError:
            continue
    return np.diag(np.sqrt(np.maximum(diagonal, 0.0)))


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra that this module uses."""
    return ThreadpoolController()
