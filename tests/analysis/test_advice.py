"""Whether deepening pays: the rule by constructed cases, and the laws of advice."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
from advised import finished, rank
from cases import Case, cases, play
from deepband import Job, UnfinishedError
from deepband.analysis import gains
from deepband.analysis.advice import advise
from deepband.analysis.evidence import LEAST_GAIN
from deepband.core.evaluations import best_evaluation
from deepband.core.state import State
from driving import finish, noisy, open_study


def test_flat_curves_do_not_pay() -> None:
    advice = finished(rank).advice()
    assert not advice.deepening.pays
    assert advice.deepening.reason == "the best config gained nothing on the top rung"
    assert (advice.judged, advice.gain, advice.exchanges) == ((0, 0), 0.0, 0)
    assert [each.incumbent for each in advice.gains] == [0.0, 0.0, 0.0]
    assert (advice.best_budget, advice.best_gain) == (27, 0.0)
    assert advice.agreement is not None
    assert advice.agreement.tau == 1.0


def test_curves_that_still_fall_pay_deeper() -> None:
    advice = finished(lambda job: rank(job) - 5.0 * job.rung).advice()
    assert advice.deepening.pays
    assert advice.gain == 5.0
    assert [each.promoted for each in advice.gains] == [5.0, 5.0, 5.0]
    assert (advice.best_budget, advice.best_gain) == (27, 5.0)
    assert advice.deepening.reason.startswith("the best config still gained")


@pytest.mark.parametrize(("share", "deepen"), [(0.9 * LEAST_GAIN, False), (2 * LEAST_GAIN, True)])
def test_a_gain_counts_by_its_share_of_the_spread(share: float, deepen: bool) -> None:
    flat = finished(rank).advice()
    assert flat.spread is not None
    step = share * flat.spread
    advice = finished(lambda job: rank(job) - step * (job.rung == 3)).advice()
    assert advice.deepening.pays is deepen
    assert (
        f"only {100 * share / (1 + share):.2g} % of the spread" in advice.deepening.reason
    ) is not deepen


def test_curves_that_rise_do_not_pay() -> None:
    advice = finished(lambda job: rank(job) + 5.0 * job.rung).advice()
    assert not advice.deepening.pays
    assert advice.gain == -5.0
    assert (advice.best_budget, advice.best_gain) == (27, -5.0)


def test_ranks_that_differ_pay_deeper() -> None:
    """The second best on the top rung was the best below; no config improves."""

    def overtaken(job: Job) -> float:
        first = (job.bracket, job.index) == (0, 0)
        return 15.0 if first and job.rung == 3 else rank(job)

    advice = finished(overtaken).advice()
    assert advice.deepening.pays
    assert advice.judged == (1, 0)
    assert advice.exchanges == 1
    assert advice.deepening.reason == "the two top rungs rank configs differently"


def test_a_best_that_began_on_the_top_rung_pays_deeper_if_others_gained() -> None:
    def started_on_top(job: Job) -> float:
        return -100.0 - job.index if job.bracket == 3 else rank(job) - job.rung

    advice = finished(started_on_top).advice()
    assert advice.deepening.pays
    assert (advice.judged, advice.gain) == (None, None)
    assert "started on the top rung" in advice.deepening.reason
    flat = finished(lambda job: -rank(job) if job.bracket == 3 else rank(job)).advice()
    assert (flat.judged, flat.deepening.pays) == (None, False)
    assert flat.deepening.reason == "no config gained anything on the top rung"


def test_too_few_to_tell() -> None:
    one_rung = finished(rank, max_budget=1).advice()
    assert one_rung.deepening.pays
    assert (one_rung.agreement, one_rung.spread, one_rung.gains) == (None, None, ())
    one_config = finished(rank, max_budget=3).advice()
    assert one_config.deepening.pays
    assert one_config.gains[-1].configs == 1
    assert one_config.deepening.reason == "too few configs are on both top rungs to tell"


@pytest.mark.parametrize("bad", [RuntimeError("failed"), math.inf, math.nan, 1e200])
def test_a_top_rung_without_losses_does_not_pay(bad: object) -> None:
    study = finished(lambda job: bad if job.rung == 3 else rank(job))
    advice = study.advice()
    assert not advice.deepening.pays
    assert advice.deepening.reason == "no config has a finite result on the top rung"
    assert advice.gains[-1].incumbent is None
    assert advice.best_budget == 9
    nothing = finished(lambda job: bad).advice()
    assert not nothing.deepening.pays
    assert nothing.best_budget is None
    assert "stop at 27" in str(nothing)


def test_failures_say_nothing_about_gains() -> None:
    advice = finished(lambda job: math.inf if job.index == 1 else rank(job)).advice()
    assert not advice.deepening.pays
    assert advice.noise == 0.0


def test_failures_are_not_ranked() -> None:
    """Of the four promoted to the top rung, the best two fail there."""

    def train(job: Job) -> object:
        fails = job.rung == 3 and job.bracket < 2
        return RuntimeError("too large") if fails else rank(job)

    advice = finished(train).advice()
    assert advice.agreement is not None
    assert (advice.agreement.configs, advice.agreement.tau) == (2, 1.0)
    assert advice.gains[-1].configs == 2


@pytest.mark.parametrize(("fine", "reason"), [(3, "most evaluations"), (4, "too few configs")])
def test_most_evaluations_on_top_failed(fine: int, reason: str) -> None:
    """There are eight with budget 27; the last four are those of bracket 3."""

    def train(job: Job) -> object:
        fails = job.rung == 3 and rank(job) < 34 - fine
        return RuntimeError("too large") if fails else rank(job)

    advice = finished(train).advice()
    assert advice.deepening.reason.startswith(reason)
    assert advice.deepening.pays is (fine == 4)


def test_one_config_is_enough_after_a_frugal_deepening() -> None:
    study = finished(rank, max_budget=9)
    study.deepen("frugal")
    finish(study, rank)
    study.deepen("frugal")
    finish(study, rank)
    advice = study.advice()
    assert advice.gains[-1].configs == 1
    assert advice.deepening.reason == "the best config gained nothing on the top rung"
    study.deepen("frugal")
    finish(study, lambda job: -50.0)
    assert study.advice().deepening.reason.startswith("the best config still gained")


@given(cases())
def test_the_best_of_all_is_that_of_the_study(case: Case) -> None:
    study = case.open()
    play(case, study)
    advice, best = study.advice(), best_evaluation(study.session.state)
    assert (best is None) == (advice.best_budget is None)
    if best is not None:
        own = [e for e in study.evaluations if (e.bracket, e.index) == (best.bracket, best.index)]
        stops = [e.budget for e in own if e.loss is not None and math.isfinite(e.loss)]
        assert advice.best_budget == max(stops)


def test_ties_are_no_exchange() -> None:
    advice = finished(lambda job: 1.0).advice()
    assert not advice.deepening.pays
    assert advice.agreement is not None
    assert advice.agreement.tau is None
    assert (advice.spread, advice.exchanges) == (0.0, 0)


def test_noise_is_what_crosses_back_and_forth() -> None:
    a, b, c = (0, 0), (0, 1), (0, 2)
    overtaking = [{a: 1.0, b: 2.0}, {a: 1.0, b: 2.0}, {a: 2.0, b: 1.0}]
    assert gains.noise(overtaking) == (0.0, 0)
    to_and_fro = [{a: 1.0, b: 2.0, c: 9.0}, {a: 2.0, b: 1.0, c: 9.0}, {a: 1.0, b: 4.0, c: 9.0}]
    assert gains.noise(to_and_fro) == (3.0, 1)
    assert gains.noise([{a: 1.0}, {a: 2.0}]) == (0.0, 0)
    tie_between = [{a: 1.0, b: 2.0}, {a: 1.0, b: 1.0}, {a: 1.0, b: 2.0}]
    assert gains.noise(tie_between) == (0.0, 0)


def test_the_noise_covers_nine_of_ten_crossings() -> None:
    a = [(0, index) for index in range(4)]
    rungs = [
        dict(zip(a, order, strict=True))
        for order in ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0])
    ]
    width, pairs = gains.noise(rungs)
    assert pairs == 6  # distances 1, 1, 1, 2, 2, 3
    assert width == pytest.approx(2.5)


def test_exchanges_within_the_noise_do_not_count() -> None:
    low, high = {(0, 0): 1.0, (0, 1): 2.0, (0, 2): 9.0}, {(0, 0): 2.0, (0, 1): 1.0, (1, 0): 0.0}
    assert gains.exchanges(low, high, 0.0) == 1
    assert gains.exchanges(low, high, 0.5) == 1
    assert gains.exchanges(low, high, 1.0) == 0


def test_nothing_but_noise_does_not_pay() -> None:
    """Two configs change places on every rung, and the better one gains no more than that."""

    def trembling(job: Job) -> float:
        first = job.index == 0 and job.bracket < 2
        return float((job.bracket + job.rung) % 2) if first else 100.0 + rank(job)

    advice = finished(trembling, eta=2, max_budget=16).advice()
    assert not advice.deepening.pays
    assert (advice.gain, advice.noise, advice.crossings, advice.exchanges) == (1.0, 1.0, 1, 0)
    assert (
        advice.deepening.reason == "the best config gained no more than the noise on the top rung"
    )


def test_advice_needs_a_finished_run() -> None:
    study = open_study()
    with pytest.raises(UnfinishedError, match="cannot give advice"):
        study.advice()


@given(cases(), st.integers(0, 2**32))
def test_the_order_of_tells_changes_no_advice(case: Case, seed: int) -> None:
    one, other = case.open(), case.open()
    play(case, one)
    play(case, other, random.Random(seed))
    assert one.advice() == other.advice()


@given(cases())
def test_advice_is_a_function_of_the_facts(case: Case) -> None:
    study = case.open()
    play(case, study)
    again = State(study.session.storage.load())
    assert advise(again) == advise(study.session.state)


@given(
    seed=st.integers(0, 2**32),
    failures=st.sampled_from([0.0, 0.2]),
    scale=st.sampled_from([1, 4, 1024]),
    shift=st.integers(-1000, 1000),
)
def test_another_unit_or_zero_of_the_loss_changes_no_decision(
    seed: int, failures: float, scale: int, shift: int
) -> None:
    """Losses are whole, so that all sums are exact."""
    objective = noisy(seed, failures, ties=True)

    def moved(job: Job) -> object:
        loss = objective(job)
        return scale * loss + shift if isinstance(loss, float) else loss

    one, other = finished(objective).advice(), finished(moved).advice()
    assert (one.step, one.exchanges, one.judged) == (other.step, other.exchanges, other.judged)
    assert other.noise == scale * one.noise
    assert (other.gain is None) == (one.gain is None)
    assert other.gain is None or one.gain is None or other.gain == scale * one.gain


@given(seed=st.integers(0, 2**32), failures=st.sampled_from([0.0, 0.2]))
def test_maximising_the_negative_is_the_same(seed: int, failures: float) -> None:
    objective = noisy(seed, failures)

    def turned(job: Job) -> object:
        loss = objective(job)
        return -loss if isinstance(loss, float) else loss

    assert finished(objective).advice() == finished(turned, maximize=True).advice()


def test_a_study_in_a_file_gives_the_same_advice(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    objective = noisy(3)
    with deepband.open_study(path, space={"x": (0.0, 1.0)}, max_budget=27) as study:
        finish(study, objective)
        advice = study.advice()
    assert deepband.open_study(path).advice() == advice == finished(objective).advice()
