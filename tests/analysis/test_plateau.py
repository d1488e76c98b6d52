"""Flat learning curves: what counts as flat, and that they are never advised to be continued."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import Context, Study
from deepband.analysis.plateau import FLAT_SHARE, change_of, is_flat
from driving import open_study

Curve = Callable[[dict[str, Any], int], float]


def reported(curve: Curve, *, maximize: bool = False, **settings: Any) -> Study:
    """A finished study whose objective reports its whole learning curve."""

    def train(config: dict[str, Any], budget: float, context: Context) -> float:
        steps = range(1, int(budget) * 4 + 1)
        for step in steps:
            context.report(step, curve(config, step))
        return curve(config, steps[-1])

    study = open_study(**{"max_budget": 27, "maximize": maximize, **settings})
    study.optimize(train)
    return study


def points(losses: list[float]) -> list[tuple[float, float]]:
    return [(float(step), loss) for step, loss in enumerate(losses, 1)]


@pytest.mark.parametrize(
    ("losses", "change"),
    [
        ([9, 8, 5, 5, 5, 5, 5, 5], 0.0),
        ([9, 8, 7, 6, 5, 4, 3, 2], 1.5),  # 4 is the lowest of the third quarter, 2.5 the median
        ([1, 2, 3, 4, 5, 6, 7, 8], 1.5),
        ([9, 1, 5, 4, 6, 4, 5, 6], 0.0),  # trembles
        ([9, 8, math.inf, 5, math.nan, 5, 5, 5], 0.0),
        ([9, 3, 2], 1.0),
        ([3, 2], None),
        ([3], None),
        ([], None),
    ],
)
def test_the_change_at_the_end_of_a_curve(losses: list[float], change: float | None) -> None:
    assert change_of(points(losses)) == change


def test_the_last_half_is_counted_in_steps() -> None:
    """The steps of a resumed training begin where the checkpoint ends, and need not be sorted."""
    resumed = [(step, 5.0 if step > 23 else 9.0) for step in range(18, 31)]
    assert change_of(resumed) == 4.0
    assert change_of(resumed[::-1]) == 4.0
    assert change_of([(step, 5.0 if step > 15 else 9.0) for step in range(31)]) == 0.0
    assert change_of([(1.0, 4.0), (2.0, 4.0), (100.0, 1.0)]) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=3))
def test_a_curve_never_changes_by_more_than_the_range_of_its_last_half(losses: list[float]) -> None:
    found, last = change_of(points(losses)), losses[len(losses) // 2 :]
    assert found is not None
    assert found <= max(last) - min(last)


def test_what_is_flat() -> None:
    assert is_flat(0.0, None, 0.0)
    assert is_flat(0.0, -1.0, 0.0)
    assert is_flat(FLAT_SHARE, 1.0, 0.0)
    assert is_flat(0.5, 1.0, 0.5)
    assert not is_flat(2 * FLAT_SHARE, 1.0, 0.0)
    assert not is_flat(None, 1.0, 1.0)


@pytest.mark.parametrize("max_budget", [1, 3, 9, 27])
@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_flat_curves_are_never_advised_to_be_deepened(
    max_budget: int, maximize: bool, seed: int
) -> None:
    """Whether or not more budget improved the loss, and even without other evidence."""

    def flat_at_the_end(config: dict[str, Any], step: int) -> float:
        return float(config["x"] + 10 / min(step, 2 * max_budget))

    advice = reported(flat_at_the_end, max_budget=max_budget, maximize=maximize, seed=seed).advice()
    assert advice.last_change == 0.0
    assert not advice.deepening.pays
    assert advice.step != "deepen"
    assert advice.deepening.reason == (
        "the best reported curves were flat in the last half of training"
    )


@pytest.mark.parametrize("seed", range(4))
def test_noise_within_a_curve_is_flat(seed: int) -> None:
    """The noise is as large as a quarter of the differences between configs."""

    def trembling(config: dict[str, Any], step: int) -> float:
        return float(config["x"] + random.Random(f"{config['x']} {step}").uniform(0, 0.25))

    advice = reported(trembling, seed=seed).advice()
    assert advice.last_change == pytest.approx(0, abs=0.01)
    assert advice.step != "deepen"


@pytest.mark.parametrize("sign", [1, -1])
def test_curves_that_still_change_may_be_deepened(sign: int) -> None:
    """A score that rises is reported as it is, by a study that maximizes."""
    study = reported(lambda config, step: sign * (config["x"] / 10 + 30 / step), maximize=sign < 0)
    advice = study.advice()
    assert advice.step == "deepen"
    assert advice.last_change is not None
    assert advice.last_change > 0
    assert "curves" in dict(advice.lines())


def test_only_the_best_curves_count() -> None:
    """A bad config may still improve, and the failed ones report what they like."""

    def curve(config: dict[str, Any], step: int) -> float:
        return 0.0 if config["x"] < 0.5 else 10.0 - step / 1000

    advice = reported(curve).advice()
    assert advice.last_change == 0.0
    assert advice.step != "deepen"


def test_automatic_extension_does_not_deepen_flat_curves() -> None:
    study = reported(lambda config, step: 1.0, max_budget=9)
    before = len(study.evaluations)
    study.auto_extend(lambda config, budget: 1 / 0, max_cost=10_000)
    assert len(study.evaluations) == before
