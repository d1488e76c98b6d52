"""What more configs gain, and the choice between deeper, wider and done."""

from __future__ import annotations

import math
import random
from itertools import combinations
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advised import finished, rank
from deepband import BudgetError, Job
from deepband.analysis.advice import choose
from deepband.analysis.expected_best import LOWEST, Estimate, gain_of_more, tail_scale
from deepband.analysis.prospects import Prospect
from driving import finish

LOSSES = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=9)


@given(LOSSES)
def test_the_scale_is_the_mean_over_all_halves(losses: list[float]) -> None:
    size, half = len(losses), (len(losses) + 1) // 2
    best_of_half = mean(min(some) for some in combinations(losses, half))
    steps = sum(1 / n for n in range(half + 1, size + 1))
    found = tail_scale(losses)
    assert found is not None
    assert found.value == pytest.approx((best_of_half - min(losses)) / steps, abs=1e-9)


@given(LOSSES)
def test_its_error_is_the_jackknife(losses: list[float]) -> None:
    found = tail_scale(losses)
    assert found is not None
    if len(losses) < 3:
        assert found.error is None
        return
    without = [tail_scale([*losses[:i], *losses[i + 1 :]]) for i in range(len(losses))]
    values = [each.value for each in without if each is not None]
    spread = sum((value - mean(values)) ** 2 for value in values)
    error = math.sqrt((len(losses) - 1) / len(losses) * spread)
    assert found.error == pytest.approx(error, abs=1e-9)


def test_too_few_losses_have_no_scale() -> None:
    assert tail_scale([]) is None
    assert tail_scale([1.0]) is None


@pytest.mark.parametrize(("size", "times"), [(3, 1000), (8, 1000), (4 * LOWEST, 200)])
def test_an_exponential_tail_is_estimated_without_bias(size: int, times: int) -> None:
    draw = random.Random(size)
    found = [tail_scale([-draw.expovariate(0.5) for _ in range(size)]) for _ in range(times)]
    scales = [each.value for each in found if each]
    errors = [each.error for each in found if each and each.error is not None]
    assert abs(mean(scales) - 2.0) < 4 * stdev(scales) / math.sqrt(times)
    assert mean(errors) == pytest.approx(stdev(scales), rel=0.35)


def test_the_gain_grows_with_the_logarithm() -> None:
    scale = Estimate(2.0, 0.5)
    assert gain_of_more(scale, 1.0) == Estimate(0.0, 0.0)
    assert gain_of_more(scale, math.e**2) == pytest.approx(Estimate(4.0, 1.0))
    assert gain_of_more(Estimate(2.0, None), 2.0).error is None


def prospect(pays: bool, gain: float | None = None, reason: str = "") -> Prospect:
    return Prospect(pays, reason, gain)


@pytest.mark.parametrize(
    ("deeper", "wider", "same_cost", "step"),
    [
        (prospect(False), prospect(False), None, "stop"),
        (prospect(True), prospect(False), None, "deepen"),
        (prospect(False, 9), prospect(True, 1), 1.0, "widen"),
        (prospect(True, 2), prospect(True, 1), 1.5, "deepen"),
        (prospect(True, 2), prospect(True, 1), 2.5, "widen"),
        (prospect(True), prospect(True, 1), 2.5, "deepen"),  # nothing is known about deepening
    ],
)
def test_the_choice(deeper: Prospect, wider: Prospect, same_cost: float | None, step: str) -> None:
    assert choose(deeper, wider, same_cost)[0] == step


def test_one_reason_is_given_once() -> None:
    assert choose(prospect(False, reason="a"), prospect(False, reason="a"), None)[1] == "a"
    assert choose(prospect(False, reason="a"), prospect(False, reason="b"), None)[1] == "a, and b"


def far_apart(job: Job) -> float:
    """No config improves, and the best is far better than the second."""
    return rank(job) - 1000.0 * ((job.bracket, job.index) == (0, 0))


def test_flat_curves_with_a_long_tail_say_widen() -> None:
    advice = finished(far_apart).advice()
    assert advice.step == "widen"
    assert advice.widening.configs == 49
    assert advice.widening.cost == 423
    assert advice.title.startswith("widen at 27: 49 more configs are expected to gain ")
    assert advice.quotes[-1].cost.high == advice.widening.cost


def test_many_equal_losses_say_stop() -> None:
    advice = finished(lambda job: 1.0).advice()
    assert advice.step == "stop"
    assert advice.widening.gain == 0.0


def test_a_wider_study_expects_less_of_one_more_width() -> None:
    study = finished(far_apart)
    gains = []
    for _ in range(3):
        gains.append(study.advice().widening.gain or 0.0)
        study.widen()
        finish(study, far_apart)
    assert gains == sorted(gains, reverse=True)
    assert study.advice().title.startswith("widen at 27, width 4: ")


def test_after_a_frugal_run_widening_is_not_advised() -> None:
    study = finished(far_apart)
    study.deepen("frugal")
    finish(study, far_apart)
    advice = study.advice()
    assert advice.step != "widen"
    assert advice.widening.gain is None


def test_work_ahead_changes_no_decision() -> None:
    one, other = finished(far_apart), finished(far_apart)
    other.enqueue({"x": 0.5})
    for job in other.session.reserve([(0, 27, 0)]):
        other.tell(job, -5000.0)
    assert other.session.state.ahead.results
    assert one.advice().deepening == other.advice().deepening
    assert one.advice().widening == other.advice().widening


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_workers_are_counted(workers: object) -> None:
    with pytest.raises(BudgetError, match="workers is"):
        finished(rank).advice(workers)  # type: ignore[arg-type] # what is refused
