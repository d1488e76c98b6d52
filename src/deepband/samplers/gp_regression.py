"""Gaussian-process regression over (point, rung), for a few hundred observations.

The covariance of two observations is

    s M(x, x') exp(-|r - r'| / t) + o [r = r'] + n [same observation]

M is the Matérn 5/2 kernel with one length scale per dimension, the second factor says how much
rungs have in common, and o allows for an offset of each rung. The parameters maximise the posterior
density under log-normal priors. L-BFGS-B finds them with analytic gradients, each of which
takes O(n³ + n² d) for n observations in d dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

from deepband.space.unit_cube import Floats

SIGNAL, OFFSET, NOISE, REACH = range(-4, 0)
"""Where the logarithms of s, o, n and t are in a vector of parameters, behind those of the length
scales."""
PRIORS = {SIGNAL: (0.0, 1.0), OFFSET: (-2.0, 1.0), NOISE: (-4.0, 1.0), REACH: (1.0, 1.0)}
"""The mean and the standard deviation of the prior of each."""
SCALE = -0.9, 0.4
"""The same for length scales, in units of the square root of the number of dimensions."""
BOUND = 6.0
"""How many standard deviations a parameter may be away from the mean of its prior."""
STEPS = 30
"""The most iterations of the optimizer."""
JITTER = 1e-8, 1e-6, 1e-4, 1e-2, 1.0
"""What is added to the diagonal, relative to it, until a matrix is positive definite."""


@dataclass(frozen=True)
class Data:
    """Observations: a row of `inputs`, a rung and a target each."""

    inputs: Floats
    rungs: Floats
    targets: Floats

    def with_one(self, point: Floats, rung: float, target: float) -> Data:
        """These observations and one more."""
        rungs, targets = np.append(self.rungs, rung), np.append(self.targets, target)
        return Data(np.vstack([self.inputs, point]), rungs, targets)


class Regression:
    """A Gaussian process with given parameters, conditioned on data."""

    def __init__(self, data: Data, parameters: Floats) -> None:
        self.data = data
        self.parameters = parameters
        covariance = self._covariance(data.inputs, data.rungs)
        covariance[np.diag_indices_from(covariance)] += np.exp(parameters[NOISE])
        self._factor = _factor(covariance)
        self._weights = cho_solve((self._factor, True), data.targets, check_finite=False)

    def predict(self, inputs: Floats, rung: float) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the target, without noise, at points on a rung."""
        cross = self._covariance(inputs, np.array([rung]))
        half = solve_triangular(self._factor, cross, lower=True, check_finite=False)
        own = np.exp(self.parameters[SIGNAL]) + np.exp(self.parameters[OFFSET])
        variance = own - np.einsum("ij,ij->j", half, half)
        return cross.T @ self._weights, np.sqrt(np.maximum(variance, 1e-12))

    def with_one(self, point: Floats, rung: float) -> Regression:
        """The same process, as if its mean had been observed at one more point."""
        (mean,), _ = self.predict(point[None, :], rung)
        return Regression(self.data.with_one(point, rung, float(mean)), self.parameters)

    def _covariance(self, inputs: Floats, rungs: Floats) -> Floats:
        """The covariances without noise of the data, in rows, with other points, in columns."""
        scales = np.exp(self.parameters[:SIGNAL])
        signal, offset, _, reach = np.exp(self.parameters[SIGNAL:])
        apart = np.abs(self.data.rungs[:, None] - rungs)
        covariance = _matern(*_distances(self.data.inputs / scales, inputs / scales))
        covariance *= signal * np.exp(-apart / reach)
        covariance += offset * (apart == 0)
        return covariance


def fitted(data: Data) -> Floats:
    """The parameters with the largest posterior density, as a vector of logarithms."""
    arrays = (np.ascontiguousarray(each) for each in (data.inputs, data.rungs, data.targets))
    return _fitted(*(each.tobytes() for each in arrays), data.inputs.shape)


@lru_cache(maxsize=8)
def _fitted(inputs: bytes, rungs: bytes, targets: bytes, shape: tuple[int, int]) -> Floats:
    """A function of its arguments; the last results are kept, because configs share them."""
    points = np.frombuffer(inputs).reshape(shape)
    data = Data(points, np.frombuffer(rungs), np.frombuffer(targets))
    mean, deviation = _priors(shape[1])
    found = minimize(
        _objective,
        mean,
        (data, mean, deviation),
        method="L-BFGS-B",
        jac=True,
        bounds=np.stack([mean - BOUND * deviation, mean + BOUND * deviation], axis=1),
        options={"maxiter": STEPS},
    )
    found.x.flags.writeable = False
    return np.asarray(found.x)


def _priors(dimensions: int) -> tuple[Floats, Floats]:
    """The means and the standard deviations of all parameters."""
    scale = SCALE[0] + 0.5 * np.log(dimensions), SCALE[1]
    mean, deviation = np.array([scale] * dimensions + [PRIORS[each] for each in sorted(PRIORS)]).T
    return mean, deviation


def _objective(
    parameters: Floats, data: Data, mean: Floats, deviation: Floats
) -> tuple[float, Floats]:
    """The negative logarithm of the posterior density, up to a constant, and its gradient."""
    scaled = data.inputs / np.exp(parameters[:SIGNAL])
    signal, offset, noise, reach = np.exp(parameters[SIGNAL:])
    apart = np.abs(data.rungs[:, None] - data.rungs)
    root, decay = _distances(scaled, scaled)
    shared = signal * np.exp(-apart / reach)
    main = shared * _matern(root, decay)
    offsets = offset * (apart == 0)
    covariance = main + offsets
    covariance[np.diag_indices_from(covariance)] += noise
    factor = _factor(covariance)
    weights = cho_solve((factor, True), data.targets, check_finite=False)
    # The derivative by the covariance, and by the squared distances between scaled points.
    slope = 0.5 * (_inverse(factor) - np.outer(weights, weights))
    pull = slope * shared * (5.0 / 3.0) * (1.0 + root) * decay
    gradient = np.empty_like(parameters)
    gradient[:SIGNAL] = 2.0 * (
        pull.sum(axis=1) @ scaled**2 - np.einsum("ij,ij->j", scaled, pull @ scaled)
    )
    gradient[SIGNAL] = np.vdot(slope, main)
    gradient[OFFSET] = np.vdot(slope, offsets)
    gradient[NOISE] = noise * np.trace(slope)
    gradient[REACH] = np.vdot(slope * main, apart) / reach
    away = (parameters - mean) / deviation
    value = 0.5 * (data.targets @ weights + away @ away) + np.log(np.diag(factor)).sum()
    return float(value), gradient + away / deviation


def _distances(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """The distances between points times the root of 5, and their negative exponentials."""
    root = left @ (-2.0 * right.T)
    root += (left**2).sum(axis=1)[:, None]
    root += (right**2).sum(axis=1)
    root *= 5.0
    np.sqrt(np.maximum(root, 0.0, out=root), out=root)
    return root, np.exp(-root)


def _matern(root: Floats, decay: Floats) -> Floats:
    """The Matérn 5/2 kernel."""
    kernel = root / 3.0
    kernel += 1.0
    kernel *= root
    kernel += 1.0
    kernel *= decay
    return np.asarray(kernel)


def _factor(covariance: Floats) -> Floats:
    """The lower Cholesky factor, with as little added to the diagonal as it takes."""
    diagonal = np.diag(covariance).copy()
    for jitter in JITTER[:-1]:
        covariance[np.diag_indices_from(covariance)] = diagonal * (1.0 + jitter)
        try:
            return np.asarray(cholesky(covariance, lower=True, check_finite=False))
        except LinAlgError:
            continue
    covariance[np.diag_indices_from(covariance)] = diagonal * (1.0 + JITTER[-1])
    return np.asarray(cholesky(covariance, lower=True, check_finite=False))


def _inverse(factor: Floats) -> Floats:
    """The inverse of a matrix from its lower Cholesky factor."""
    lower, _ = dpotri(factor, lower=1)
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)
