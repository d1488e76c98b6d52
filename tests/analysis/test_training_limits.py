"""The losses above which training is hopeless."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import Context, MissingCurvesWarning, Study
from deepband.analysis.learning_curves.curve_data import curves_are_comparable
from deepband.analysis.learning_curves.training_limits import (
    _arrived,
    _limits,
    _winners,
    training_limits,
)
from deepband.execution.training_watch import TrainingLimits

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingCurvesWarning)
        study.optimize(objective, stop_training=1e-9, max_cost=3 * 108 - 9, progress=False)
    assert [progress.open > 0 for progress in study.session.state.progress] == [0, 0, 0, 1]
    assert not study.session.state.results[3, 3]
    return study


def limits_of(study: Study, risk: float = 0.05, bracket: int = 3) -> TrainingLimits:
    session = study.session
    return training_limits(session.state, bracket, risk, session.source.random)


@pytest.fixture(scope="module")
def study() -> Study:
    return first_brackets()


def test_there_is_a_limit_at_the_budget_of_each_lower_rung(study: Study) -> None:
    assert [budget for budget, _ in limits_of(study)] == [1.0, 3.0, 9.0]
    assert limits_of(study, bracket=0) == ()


def test_a_larger_risk_has_lower_limits(study: Study) -> None:
    found = [limits_of(study, risk) for risk in (0.01, 0.1, 0.5)]
    for higher, lower in pairwise(found):
        assert all(one >= other for (_, one), (_, other) in zip(higher, lower, strict=True))
    assert found[0] != found[-1]


def test_the_best_config_is_trained_and_a_bad_one_is_not(study: Study) -> None:
    limits = limits_of(study, 0.02)
    assert all(loss_of({"x": 0.3}, budget) <= limit for budget, limit in limits)
    assert any(loss_of({"x": 0.9}, budget) > limit for budget, limit in limits)


def test_limits_are_the_same_whatever_is_sampled(study: Study) -> None:
    state = study.session.state.copy()
    state.configs[3].clear()
    found = training_limits(state, 3, 0.05, study.session.source.random)
    assert found == limits_of(study)


def test_at_most_the_risk_is_given_up() -> None:
    """Of the configs that become the best, no more exceed any limit than the risk allows."""
    curves = np.random.default_rng(0).normal(size=(1000, 3)).cumsum(axis=1)
    found = _limits(curves, (1, 3, 9), 20)
    assert [budget for budget, _ in found] == [1.0, 3.0, 9.0]
    exceeded = curves > [limit for _, limit in found]
    assert exceeded.any(axis=1).sum() == 60
    assert exceeded[:, 0].sum() == 20
    assert [limit for _, limit in _limits(curves, (1, 3, 9), 1000)] == [-math.inf] * 3


def test_the_winner_is_the_best_of_those_that_are_promoted() -> None:
    losses = np.array([[[0.5, 0.1], [0.4, 0.3], [0.1, 0.2]], [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]])
    arrived = np.array([[False, True, True], [True, True, False]])
    assert _winners(losses, arrived, 0.25).tolist() == [[0.1, 0.2]]
    assert _winners(losses, arrived, math.inf).tolist() == [[0.1, 0.2], [0.2, 0.8]]
    assert _winners(losses, arrived, 0.1).size == 0


def test_how_many_arrive_on_the_top_rung_is_what_the_schedule_says(study: Study) -> None:
    state = study.session.state
    losses = np.random.default_rng(0).normal(size=(50, state.schedule.start_size(1), 4))
    arrived = _arrived(state, 1, losses, 1.0)
    assert (arrived.sum(axis=1) == 1).all()  # the others were there before this run
    assert (_arrived(state, 3, losses, 1.0)).all()


def test_nothing_is_predicted_from_nothing() -> None:
    def fail(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(1, 1.0)
        return math.inf

    assert limits_of(first_brackets(fail), 0.5) == ()


def test_a_single_report_at_the_end_gives_no_limits() -> None:
    def report_once(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget, loss_of(config, budget))
        return loss_of(config, budget)

    assert limits_of(first_brackets(report_once), 0.5) == ()


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
    study = first_brackets(objective)
    state = study.session.state
    assert not curves_are_comparable(state, list(state.all_results()))
    assert limits_of(study, 0.5) == ()


def train_from_zero(config: dict[str, float], budget: float, context: Context) -> float:
    for epoch in range(int(budget)):
        context.report(epoch, loss_of(config, epoch + 1))
    return loss_of(config, budget)


def test_steps_may_be_counted_from_zero() -> None:
    study = first_brackets(train_from_zero)
    state = study.session.state
    assert curves_are_comparable(state, list(state.all_results()))
    assert limits_of(study, 0.5)
