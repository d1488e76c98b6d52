"""Which reported losses say that training should stop."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import deepband
from deepband.execution.context import restore_curve
from deepband.execution.training_watch import TrainingWatch

LIMITS = ((1.0, 0.9), (3.0, 0.5), (9.0, 0.3))


def watched(*points: tuple[float, float], maximize: bool = False) -> TrainingWatch:
    watch = TrainingWatch(LIMITS, 27.0, maximize)
    for step, loss in points:
        watch.report(step, loss)
    return watch


@pytest.mark.parametrize(
    ("points", "stops"),
    [
        ([], False),
        ([(0.5, 2.0)], False),  # before the first budget
        ([(1, 0.9)], False),
        ([(1, 0.91)], True),
        ([(2, 0.91)], True),  # the first one after the first budget
        ([(1, 0.9), (2, 1.5)], False),  # only the first one is compared
        ([(1, 0.9), (2, 0.8), (3, 0.51)], True),
        ([(4, 0.51)], True),  # with the limit of the largest budget that is reached
        ([(5, 0.5), (9, 0.3), (26, 9.9)], False),
        ([(12, 0.31)], True),
        ([(1, 0.91), (3, 0.1)], True),  # once hopeless, always hopeless
        ([(100, 9.9)], False),  # not in the unit of the budget
        ([(0.1, math.nan)], True),
        ([(0.1, math.inf)], True),
        ([(0.1, -math.inf)], True),
    ],
)
def test_losses_are_compared_with_the_limits(
    points: list[tuple[float, float]], stops: bool
) -> None:
    assert watched(*points).should_stop() is stops
    values = [(step, -loss) for step, loss in points]
    assert watched(*values, maximize=True).should_stop() is stops


def test_an_evaluation_is_stopped_only_if_the_objective_asks() -> None:
    watch = watched((1, 5.0))
    assert not watch.stopped
    assert watch.should_stop()
    assert watch.stopped
    assert watch.stopped_after(27) == 1.0
    watch.report(2, 5.0)
    assert watch.stopped_after(27) == 2.0
    watch.report(100, 5.0)
    assert watch.stopped_after(27) == 27.0


def test_without_a_positive_step_the_whole_budget_is_used() -> None:
    assert watched((0, math.nan)).stopped_after(27) == 27.0


def test_a_restored_curve_counts() -> None:
    context = deepband.Context(seed=0, path=Path(), watch=TrainingWatch(LIMITS, 27.0))
    restore_curve(context, [(1.0, 0.95), (2.0, 0.7)])
    assert context.should_stop()
    assert context.reported == [(1.0, 0.95), (2.0, 0.7)]


def test_a_context_without_a_watch_never_stops() -> None:
    context = deepband.Context(seed=0, path=Path(), watch=None)
    context.report(1, math.nan)
    assert not context.should_stop()


def test_a_context_of_ones_own_notices_divergence() -> None:
    context = deepband.Context(seed=0, path=Path())
    context.report(1, 1e300)
    assert not context.should_stop()
    context.report(2, math.nan)
    assert context.should_stop()
