"""Distributions of SciPy and Optuna as they stand in a space."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ConfigSpace as CS
import numpy as np
import pytest
from optuna import distributions as od
from scipy import stats

from deepband import SpaceError
from deepband.space.search_space import Space
from spaces import draw


def parameter(wanted: Any) -> Any:
    """A list stands for an ordinal parameter, which takes a second to create if it is long."""
    return CS.OrdinalHyperparameter("x", wanted) if isinstance(wanted, list) else wanted


def identified(given: Any) -> str:
    """A name that is the same in every process, which the repr of SciPy's objects is not."""
    if hasattr(given, "dist"):
        return f"{given.dist.name}{given.args}{given.kwds}"
    return f"scipy.stats.{given.name}" if given is stats.uniform else str(given)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (stats.uniform(), CS.UniformFloatHyperparameter("x", 0, 1)),
        (stats.uniform(2, 3), CS.UniformFloatHyperparameter("x", 2, 5)),
        (stats.uniform(loc=-1, scale=2.5), CS.UniformFloatHyperparameter("x", -1, 1.5)),
        (stats.uniform(2, np.float32(3)), CS.UniformFloatHyperparameter("x", 2, 5)),
        (stats.loguniform(1e-4, 1), CS.UniformFloatHyperparameter("x", 1e-4, 1, log=True)),
        (stats.reciprocal(1e-4, b=1), CS.UniformFloatHyperparameter("x", 1e-4, 1, log=True)),
        (stats.loguniform(1, 8, scale=2), CS.UniformFloatHyperparameter("x", 2, 16, log=True)),
        (stats.randint(1, 9), CS.UniformIntegerHyperparameter("x", 1, 8)),
        (stats.randint(1, 9, loc=-3), CS.UniformIntegerHyperparameter("x", -2, 5)),
        (stats.randint(3, 4), CS.Constant("x", 3)),
        (stats.truncnorm(-2, 1, 5, 2), CS.NormalFloatHyperparameter("x", 5, 2, 1, 7)),
        (stats.beta(2, 5), CS.BetaFloatHyperparameter("x", 2, 5, 0, 1)),
        (stats.beta(a=2, b=5, loc=1, scale=4), CS.BetaFloatHyperparameter("x", 2, 5, 1, 5)),
        (od.FloatDistribution(0, 1), CS.UniformFloatHyperparameter("x", 0, 1)),
        (
            od.FloatDistribution(1e-4, 1, log=True),
            CS.UniformFloatHyperparameter("x", 1e-4, 1, log=True),
        ),
        (od.FloatDistribution(0.1, 0.4, step=0.1), [0.1, 0.2, 0.3, 0.4]),
        (od.FloatDistribution(0.5, 0.5), CS.Constant("x", 0.5)),
        (od.IntDistribution(1, 8), CS.UniformIntegerHyperparameter("x", 1, 8)),
        (
            od.IntDistribution(1, 512, log=True),
            CS.UniformIntegerHyperparameter("x", 1, 512, log=True),
        ),
        (od.IntDistribution(16, 64, step=16), [16, 32, 48, 64]),
        pytest.param(
            od.IntDistribution(1, 29_998, step=3),
            list(range(1, 30_000, 3)),
            id="as many steps as are accepted",
            marks=pytest.mark.heavy,
        ),
        (od.IntDistribution(4, 4, step=3), CS.Constant("x", 4)),
        (
            od.CategoricalDistribution(["a", 1, None]),
            CS.CategoricalHyperparameter("x", ["a", 1, None]),
        ),
    ],
    ids=identified,
)
def test_a_distribution_is_the_parameter_that_it_stands_for(given: Any, wanted: Any) -> None:
    space = Space({"x": given})
    assert space.configspace["x"] == parameter(wanted)
    assert all(config["x"] in values_of(given) for config in draw(space))


class Between:
    """All values from low to high, of one type."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def values_of(given: Any) -> Any:
    if hasattr(given, "choices"):
        return given.choices
    if hasattr(given, "dist"):
        return Between(*given.support())
    return Between(given.low, given.high)


@pytest.mark.parametrize(
    "given",
    [
        stats.uniform(2, 3),
        stats.loguniform(1e-4, 1),
        stats.truncnorm(-2, 1, 5, 2),
        stats.truncnorm(1, 3),
        stats.beta(2, 5, loc=1, scale=4),
    ],
    ids=lambda given: given.dist.name,
)
def test_draws_have_scipy_s_distribution(given: Any) -> None:
    values = [config["x"] for config in draw(Space({"x": given}), 2000)]
    assert stats.kstest(values, given.cdf).pvalue > 0.01


def test_steps_of_whole_numbers_stay_whole() -> None:
    space = Space(
        {"x": od.IntDistribution(16, 64, step=16), "y": od.FloatDistribution(0, 1, step=0.5)}
    )
    configs = draw(space)
    assert {(type(each["x"]), type(each["y"])) for each in configs} == {(int, float)}
    assert {each["x"] for each in configs} == {16, 32, 48, 64}


def test_the_older_distributions_of_optuna() -> None:
    with pytest.warns(FutureWarning):
        given = od.LogUniformDistribution(1e-4, 1)
    wanted = CS.UniformFloatHyperparameter("x", 1e-4, 1, log=True)
    assert Space({"x": given}).configspace["x"] == wanted


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (stats.norm(0, 1), r"scipy.stats.norm\(0, 1\): .*Supported are scipy.stats.uniform"),
        (stats.truncnorm(-2, np.inf), "values are unbounded"),
        (stats.uniform(0, -1), "values are unbounded"),
        (stats.uniform([0, 1], 1), "parameter 'x'"),
        (stats.loguniform(1, 2, loc=3), "with a loc"),
        (stats.beta(0.5, 0.5), "below 1"),
        (stats.lognorm(1), "Supported are"),
        (stats.poisson(3), "Supported are"),
        (stats.uniform, "call it with its parameters"),
        (od.FloatDistribution(0, 1, step=0.00001), "100,001 values, more than 10,000"),
        (od.IntDistribution(0, 10**9, step=2), "more than 10,000"),
        (od.FloatDistribution(0, float("inf")), "parameter 'x'"),
    ],
    ids=identified,
)
def test_what_cannot_be_drawn_exactly_is_refused(given: Any, why: str) -> None:
    with pytest.raises(SpaceError, match=why):
        Space({"x": given})


def test_neither_scipy_nor_optuna_is_imported_to_look() -> None:
    code = (
        "import sys; from deepband.space.distributions import spelled; "
        "print(spelled('x', (1, 2)), {'scipy', 'optuna', 'ConfigSpace'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1, 2) set()"
