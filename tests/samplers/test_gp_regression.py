"""The regression: its gradient, its predictions, and data that strain it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from deepband.samplers import gp_regression
from deepband.samplers.gp_regression import NOISE, OFFSET, SIGNAL, Data, Regression, fitted
from deepband.space.unit_cube import Floats


def made(count: int = 30, dimensions: int = 3, seed: int = 0, noise: float = 0.0) -> Data:
    """A smooth function of the first dimension, shifted on every rung."""
    random = np.random.default_rng(seed)
    inputs = random.uniform(size=(count, dimensions))
    rungs = random.integers(0, 3, count).astype(np.float64)
    targets = np.sin(5 * inputs[:, 0]) + 0.5 * rungs + noise * random.normal(size=count)
    return Data(inputs, rungs, (targets - targets.mean()) / (targets.std() or 1.0))


def prior(dimensions: int) -> Floats:
    return gp_regression._priors(dimensions)[0]


@given(st.integers(1, 6), st.integers(2, 20), st.integers(0, 2**32))
def test_the_gradient_is_that_of_the_objective(dimensions: int, count: int, seed: int) -> None:
    data = made(count, dimensions, seed)
    mean, deviation = gp_regression._priors(dimensions)
    parameters = mean + 0.5 * np.random.default_rng(seed).normal(size=len(mean))

    def value(changed: Floats) -> float:
        return gp_regression._objective(changed, data, mean, deviation)[0]

    _, gradient = gp_regression._objective(parameters, data, mean, deviation)
    steps = approx_fprime(parameters, value, 1e-6)
    assert gradient == pytest.approx(steps, rel=1e-3, abs=1e-3 * np.abs(gradient).max())


def test_a_fit_explains_the_data_better_than_the_prior() -> None:
    data = made()
    mean, deviation = gp_regression._priors(3)
    found = fitted(data)
    before, after = (
        gp_regression._objective(each, data, mean, deviation)[0] for each in (mean, found)
    )
    assert after < before - 10
    assert found[0] < min(found[1:3])  # only the first dimension matters


def test_what_was_observed_is_predicted() -> None:
    data = made()
    model = Regression(data, fitted(data))
    for rung in range(3):
        on_rung = data.rungs == rung
        mean, spread = model.predict(data.inputs[on_rung], rung)
        assert mean == pytest.approx(data.targets[on_rung], abs=0.1)
        assert spread.max() < 0.1


def test_what_was_not_observed_is_predicted_from_other_points_and_other_rungs() -> None:
    data, other = made(60), made(200, seed=1)
    model = Regression(data, fitted(data))
    mean, spread = model.predict(other.inputs, 2)
    truth = np.sin(5 * other.inputs[:, 0])
    assert np.corrcoef(mean, truth)[0, 1] > 0.98
    _, wide = model.predict(np.full((1, 3), 1e6), 2)
    assert wide > 5 * spread.mean()


def test_one_more_point_changes_the_spread_and_not_the_mean() -> None:
    data = made()
    model = Regression(data, prior(3))
    point = np.array([[0.9, 0.1, 0.9]])
    (before,), (wide,) = model.predict(point, 2)
    (after,), (narrow,) = model.with_one(point[0], 2).predict(point, 2)
    assert after == pytest.approx(before, abs=1e-6)
    assert narrow < 0.5 * wide


@pytest.mark.parametrize("noise", [-40.0, -6.0])
def test_equal_points_with_different_targets(noise: float) -> None:
    inputs = np.full((20, 4), 0.5)
    data = Data(inputs, np.zeros(20), np.linspace(-1, 1, 20))
    parameters = prior(4)
    parameters[NOISE] = noise
    mean, spread = Regression(data, parameters).predict(inputs, 0)
    assert np.isfinite(mean).all()
    assert mean == pytest.approx(0, abs=0.05)
    assert np.isfinite(spread).all()
    assert np.isfinite(fitted(data)).all()


@pytest.mark.parametrize("count", [1, 2, 150])
def test_targets_that_are_all_equal(count: int) -> None:
    data = Data(made(count).inputs, np.zeros(count), np.zeros(count))
    mean, spread = Regression(data, fitted(data)).predict(made(10).inputs, 3)
    assert mean == pytest.approx(0)
    assert np.isfinite(spread).all()


def test_noise_is_recognised() -> None:
    quiet, loud = (fitted(made(100, 2, noise=noise)) for noise in (0.0, 0.7))
    assert loud[NOISE] > quiet[NOISE] + 2


def test_the_spread_is_at_most_that_of_the_prior() -> None:
    data = made()
    parameters = fitted(data)
    _, spread = Regression(data, parameters).predict(made(50, seed=3).inputs, 1)
    assert (spread**2 <= np.exp(parameters[SIGNAL]) + np.exp(parameters[OFFSET]) + 1e-9).all()


def test_a_fit_is_a_function_of_the_data() -> None:
    data = made(80)
    once = fitted(data).copy()
    gp_regression._fitted.cache_clear()
    assert (fitted(made(80)) == once).all()
    with pytest.raises(ValueError, match="read-only"):  # the next draw shares it
        fitted(data)[0] = 0.0
