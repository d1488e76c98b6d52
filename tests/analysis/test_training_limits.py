"""The losses above which training is hopeless."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import Context, Study
from deepband.analysis.learning_curves.curve_data import curves_are_comparable
from deepband.analysis.learning_curves.training_limits import exceeded_by, training_limits

SPACE = {"x": (0.0, 1.0)}


def loss_of(config: dict[str, float], step: float) -> float:
    return abs(config["x"] - 0.3) + 0.1 / step


def train(config: dict[str, float], budget: float, context: Context) -> float:
    for step in range(1, int(budget) + 1):
        context.report(step, loss_of(config, step))
    return loss_of(config, budget)


def first_brackets(objective: Any = train, **given: Any) -> Study:
    """A study whose first brackets are complete, and whose last one has not started."""
    study = deepband.open_study(space=SPACE, max_budget=27, seed=1, **given)
    study.optimize(objective, stop_training=1e-9, max_cost=3 * 108 - 9, progress=False)
    assert [progress.open > 0 for progress in study.session.state.progress] == [0, 0, 0, 1]
    assert not study.session.state.results[3, 3]
    study.session.state.configs[3][:] = [{"x": 0.3}, {"x": 0.9}]
    return study


@pytest.fixture(scope="module")
def study() -> Study:
    return first_brackets()


def test_there_is_a_limit_at_the_budget_of_each_lower_rung(study: Study) -> None:
    limits = training_limits(study.session.state, 3, 0, 0.05)
    assert [budget for budget, _ in limits] == [1.0, 3.0, 9.0]
    assert training_limits(study.session.state, 0, 0, 0.05) == ()


def test_a_larger_risk_has_lower_limits(study: Study) -> None:
    found = [training_limits(study.session.state, 3, 0, risk) for risk in (0.01, 0.1, 0.5)]
    for higher, lower in pairwise(found):
        assert all(one >= other for (_, one), (_, other) in zip(higher, lower, strict=True))
    assert found[0] != found[-1]


def test_the_best_config_is_trained_and_a_bad_one_is_not(study: Study) -> None:
    best, bad = (training_limits(study.session.state, 3, index, 0.02) for index in (0, 1))
    assert all(loss_of({"x": 0.3}, budget) <= limit for budget, limit in best)
    assert any(loss_of({"x": 0.9}, budget) > limit for budget, limit in bad)


def test_limits_are_the_same_whenever_they_are_computed(study: Study) -> None:
    once = training_limits(study.session.state, 3, 0, 0.05)
    assert training_limits(study.session.state.copy(), 3, 0, 0.05) == once


def test_at_most_the_risk_is_given_up() -> None:
    """Of the curves that become the best, as many exceed a limit as the risk allows."""
    losses = np.arange(100.0)
    assert exceeded_by(losses, 0) == 99.0
    assert (losses > exceeded_by(losses, 3)).sum() == 3
    assert exceeded_by(losses, 100) == -math.inf


def test_nothing_is_predicted_from_nothing() -> None:
    def fail(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(1, 1.0)
        return math.inf

    assert training_limits(first_brackets(fail).session.state, 3, 0, 0.5) == ()


def train_in_batches(config: dict[str, float], budget: float, context: Context) -> float:
    for step in range(1, int(budget) + 1):
        context.report(100 * step, loss_of(config, step))
    return loss_of(config, budget)


def train_another_measure(config: dict[str, float], budget: float, context: Context) -> float:
    for step in range(1, int(budget) + 1):
        context.report(step, 2 * loss_of(config, step))
    return loss_of(config, budget)


def train_with_a_schedule(config: dict[str, float], budget: float, context: Context) -> float:
    for step in range(1, int(budget) + 1):
        context.report(step, loss_of(config, step) + 0.5 * (1 - step / budget))
    return loss_of(config, budget)


def train_silently(config: dict[str, float], budget: float, context: Context) -> float:
    return loss_of(config, budget)


@pytest.mark.parametrize(
    "objective", [train_in_batches, train_another_measure, train_with_a_schedule, train_silently]
)
def test_curves_that_show_something_else_give_no_limits(objective: Any) -> None:
    state = first_brackets(objective).session.state
    assert not curves_are_comparable(state, list(state.all_results()))
    assert training_limits(state, 3, 0, 0.5) == ()


def train_from_zero(config: dict[str, float], budget: float, context: Context) -> float:
    for epoch in range(int(budget)):
        context.report(epoch, loss_of(config, epoch + 1))
    return loss_of(config, budget)


def test_steps_may_be_counted_from_zero() -> None:
    state = first_brackets(train_from_zero).session.state
    assert curves_are_comparable(state, list(state.all_results()))
    assert training_limits(state, 3, 0, 0.5)
