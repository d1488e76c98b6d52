"""Predicted losses: what they depend on, what they do not, and how often they are right."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import deepband
from deepband import BudgetError, InputError, Job, NoResultError, Study
from deepband.analysis.export import canonical
from deepband.analysis.learning_curves import curve_data
from deepband.analysis.learning_curves.curve_data import (
    LossScale,
    Observation,
    observations,
    selected,
)
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.research.synthetic import Family
from driving import Objective, extended, finish, noisy, open_study

SPACE = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 8), "kind": ["a", "b", "c"]}
SHARES = (0.05, 0.3, 0.5, 0.8, 0.95, 0.999)


def falling(job: Job) -> float:
    return float(job.config["layers"] / 8 + (job.config["kind"] == "a") + 3 / job.budget)


def finished(objective: Objective = falling, **settings: Any) -> Study:
    study = open_study(**{"space": SPACE, **settings})
    finish(study, objective)
    return study


def predictions(study: Study, budget: float | None = None) -> list[tuple[float, ...]]:
    """The medians and intervals of all configs that did not fail with a budget."""
    state = study.session.state
    rung = state.schedule.top if budget is None else state.schedule.rung_of(budget)
    assert rung is not None
    found: list[tuple[float, ...]] = []
    for bracket, configs in enumerate(state.configs):
        for index in range(len(configs)):
            result = state.result(bracket, index, rung)
            if result is None or result.loss is not None:
                each = study.predict(bracket, index, budget)
                found.append((each.value, each.deviation, *each.interval()))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_the_order_in_which_results_arrive_does_not_matter(seed: int) -> None:
    one, other = (open_study(space=SPACE, max_budget=9) for _ in range(2))
    finish(one, noisy(seed, failures=0.2))
    finish(other, noisy(seed, failures=0.2), random.Random(seed))
    assert predictions(one, 27) == predictions(other, 27)


def test_predicting_changes_nothing() -> None:
    study = finished()
    before = list(canonical(study.session.state))
    assert predictions(study, 27) == predictions(study, 27)
    assert list(canonical(study.session.state)) == before


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=10, deadline=None)
def test_intervals_grow_with_their_probability_and_contain_the_median(
    seed: int, maximize: bool
) -> None:
    study = finished(noisy(seed), maximize=maximize, max_budget=3)
    found = study.predict(0, seed % 3, 27)
    intervals = [found.interval(share) for share in SHARES]
    for (low, high), (lower, higher) in pairwise(intervals):
        assert lower < low < found.value < high < higher
    quantiles = [found.quantile(share) for share in (1e-300, 1e-13, *SHARES, 1 - 1e-16)]
    assert quantiles == sorted(quantiles)
    assert found.quantile(0.5) == found.value
    assert 0 < found.deviation < intervals[-1][1] - intervals[-1][0]


@pytest.mark.parametrize("maximize", [False, True])
def test_a_result_is_its_own_prediction(maximize: bool) -> None:
    study = finished(maximize=maximize)
    for each in study.evaluations:
        found = study.predict(each.bracket, each.index, each.budget)
        assert found.evaluated
        assert (found.value, found.deviation) == (each.value, 0)
        assert found.interval(0.95) == (each.value, each.value)
        assert str(found).endswith("(evaluated)")


def test_maximizing_mirrors_everything() -> None:
    least = finished(falling)
    most = finished(lambda job: -falling(job), maximize=True)
    for index in range(9):
        one, other = least.predict(0, index, 27), most.predict(0, index, 27)
        assert one.value == -other.value
        assert one.deviation == other.deviation
        assert one.interval(0.8) == tuple(-end for end in reversed(other.interval(0.8)))
        assert one.quantile(0.2) == pytest.approx(-other.quantile(0.8), rel=1e-9)


def test_the_unit_of_losses_does_not_matter() -> None:
    plain, other = finished(), finished(lambda job: 1000 * falling(job) - 50)
    for (value, deviation, *_), (scaled, wide, *_) in zip(
        predictions(plain, 27), predictions(other, 27), strict=True
    ):
        assert scaled == pytest.approx(1000 * value - 50, rel=1e-6)
        assert wide == pytest.approx(1000 * deviation, rel=1e-6)


def test_more_budget_is_less_certain_and_results_make_it_more_certain() -> None:
    study = finished()
    widths = [study.predict(0, 0, budget).deviation for budget in (9, 27, 81)]
    assert widths == sorted(widths)
    study.deepen("preserving")
    finish(study, falling)
    later = [study.predict(0, index, 81).deviation for index in range(9)]
    assert sum(later) < sum(finished().predict(0, index, 81).deviation for index in range(9))


def one_infinite(job: Job) -> object:
    return math.inf if job.index % 3 == 1 else falling(job)


def fails_above(job: Job) -> object:
    return RuntimeError("no") if job.rung > job.bracket else falling(job)


def far_apart(job: Job) -> float:
    return float((-1) ** job.index * 10.0 ** (8 * job.index))


@pytest.mark.parametrize("max_budget", [1, 9])
@pytest.mark.parametrize(
    "objective",
    [noisy(1, failures=0.5), noisy(1, ties=True), one_infinite, fails_above, far_apart, len],
    ids=["failures", "ties", "infinite", "failed promotions", "far apart", "equal"],
)
def test_any_losses_are_accepted(objective: Objective, max_budget: int) -> None:
    study = finished(objective, max_budget=max_budget)
    for value, deviation, low, high in predictions(study, 3 * max_budget):
        assert math.isfinite(value)
        assert deviation > 0
        assert low < value < high


def test_one_config_on_one_rung_is_enough() -> None:
    study = open_study(max_budget=9)
    job = study.ask()
    assert job is not None
    study.tell(job, 0.25)
    near, far = study.predict(0, 0, 3), study.predict(0, 0, 9)
    assert near.interval()[0] < 0.25 < near.interval()[1]
    assert far.deviation > near.deviation
    other = study.predict(0, 1, 9)  # sampled with it, and not evaluated
    assert other.deviation > far.deviation


def test_spaces_that_change_and_spaces_without_a_choice() -> None:
    constant = finished(lambda job: 1 / job.budget, space={"x": [3]})
    assert len(predictions(constant, 27)) == 17
    study = finished()
    added = {"lr": (1e-5, 1.0, "log"), "layers": (1, 4), "kind": ["a", "d"], "new": (0.0, 1.0)}
    study.deepen(space=added, added={"new": 0.5})
    finish(study, noisy(1))
    assert all(math.isfinite(value) for value, *_ in predictions(study, 81))
    assert predictions(extended(), 81)


def test_an_infinite_result_is_returned_as_it_is() -> None:
    study = finished(lambda job: math.inf if job.index == 1 else falling(job))
    assert study.predict(0, 1, 1).value == math.inf
    assert study.predict(0, 1, 1).interval() == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ((0, 0, 10), BudgetError, "no rung of bracket 0 has this budget. Give one of 1, 3, 9, or"),
        ((1, 0, 1), BudgetError, "Give one of 3, 9, or 27 and further by factors of eta"),
        ((0, 0, -1), BudgetError, "must be greater than zero"),
        ((3, 0, 9), InputError, "there is no bracket 3: give one from 0 to 2"),
        ((0, 70, 9), InputError, "there is no sampled config in bracket 0 with index 70"),
        ((0, 0, 1), InputError, r"index 0 failed on rung 0, so that there is nothing to predict"),
    ],
)
def test_what_cannot_be_predicted(
    given_: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    study = finished(lambda job: RuntimeError("no") if job.index == 0 else falling(job))
    with pytest.raises(error, match=message):
        study.predict(*given_)


def test_a_study_without_losses_predicts_nothing() -> None:
    study = open_study()
    with pytest.raises(InputError, match="bracket 0 has no config yet: run the study first"):
        study.predict(0, 0)
    finish(study, lambda job: RuntimeError("no"))
    with pytest.raises(NoResultError, match="none of the 22 evaluations has a finite result"):
        study.predict(0, 0, 27)


@pytest.mark.parametrize("share", [0, 1, -0.5, math.nan, "a", None, True])
def test_wrong_probabilities(share: Any) -> None:
    found = finished().predict(0, 0, 27)
    for method in (found.interval, found.quantile):
        with pytest.raises(InputError, match="give a number between 0 and 1"):
            method(share)


def reporting(sign: float, shift: float = 0.0) -> Any:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
        loss = math.nan
        for epoch in range(1, budget + 1):
            loss = config["layers"] / 8 + 3 / epoch
            context.report(epoch, sign * loss + shift)
        return loss

    return train


def trained(objective: Any) -> Study:
    study = open_study(space=SPACE, max_budget=9)
    study.optimize(objective)
    return study


def total_error(study: Study) -> float:
    configs = study.session.state.configs[0][:9]
    wanted = [config["layers"] / 8 + 3 / 9 for config in configs]
    found = [study.predict(0, index, 9).value for index in range(9)]
    return float(np.abs(np.subtract(found, wanted)).sum())


def test_reported_curves_count_as_losses_on_lower_rungs() -> None:
    plain = trained(lambda config, budget: config["layers"] / 8 + 3 / budget)
    for sign in (1.0, -1.0):  # some objectives report a score
        study = trained(reporting(sign))
        found = {each[:2]: each.loss for each in observations(study.session.state)}
        layers = study.session.state.config(2, 0)["layers"]
        assert found[(2, 0), 0] == pytest.approx(layers / 8 + 3)
        assert found[(2, 0), 1] == pytest.approx(layers / 8 + 1)
        assert total_error(study) < 0.7 * total_error(plain)


def test_curves_of_something_else_are_ignored() -> None:
    plain = trained(lambda config, budget: config["layers"] / 8 + 3 / budget)
    study = trained(reporting(1.0, shift=0.5))
    assert observations(study.session.state) == observations(plain.session.state)


def test_curves_that_contradict_evaluations_are_ignored() -> None:
    """As with a learning rate that depends on the budget."""

    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
        for epoch in range(1, budget):
            context.report(epoch, config["layers"] + 5.0)
        context.report(budget, config["layers"] / budget)
        return float(config["layers"] / budget)

    plain = trained(lambda config, budget: config["layers"] / budget)
    assert observations(trained(train).session.state) == observations(plain.session.state)


def test_large_studies_are_thinned_out_but_not_of_the_predicted_config() -> None:
    many = [Observation((0, index), 0, 1.0) for index in range(1000)]
    many += [Observation((0, index), 1, 1.0) for index in range(50)]
    many.sort()
    few = selected(many, [(0, 999)])
    assert len(few) <= curve_data.MOST + 1
    places = {each.place for each in few}
    assert {(0, index) for index in range(50)} | {(0, 999)} <= places
    assert few == sorted(few)
    assert selected(many[:5], []) == many[:5]


@example(losses=[0.0, 2.0, 1e-308], loss=0.0)
@example(losses=[0.0, 2.0, 5e-324], loss=1.0)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(-1e6, 1e6))
def test_the_scale_can_be_undone(losses: list[float], loss: float) -> None:
    scale = LossScale(losses)
    given_ = np.array([loss, *losses])
    near = given_[np.abs(given_ - scale.best) < curve_data.FARTHEST * scale.unit]
    back = scale.losses(scale.targets(near))
    assert back == pytest.approx(near, rel=1e-6, abs=1e-9 * np.abs(near).max())
    assert (np.diff(scale.targets(np.sort(losses))) >= 0).all()


def test_samples_agree_with_the_distribution() -> None:
    study = finished()
    model = CurveModel(study.session.state)
    jobs = [((0, 0), 3), ((0, 1), 3)]
    drawn = model.samples(jobs, 4000)
    assert (drawn == model.samples(jobs, 4000)).all()
    for column, (place, rung) in zip(drawn.T, jobs, strict=True):
        found = model.distribution(place, rung)
        assert found.below(float(np.median(column))) == pytest.approx(0.5, abs=0.03)
        assert np.mean(column < found.quantile(0.9)) == pytest.approx(0.9, abs=0.03)


def test_samples_share_what_configs_have_in_common() -> None:
    """What the next rungs change is unknown, but similar for all configs."""
    study = open_study(space=SPACE)
    study.tell_all([(job, falling(job)) for job in study.ask_batch()])
    drawn = CurveModel(study.session.state).samples([((0, 0), 2), ((0, 1), 2)], 4000)
    above = drawn > np.median(drawn, axis=0)
    assert above.all(axis=1).mean() > 0.3  # 0.25 if they were independent


@pytest.mark.parametrize("name", ["synthetic-stable", "synthetic-crossing", "synthetic-noisy"])
def test_intervals_contain_as_many_results_as_they_say(name: str) -> None:
    """Roughly: `bench/learning_curves.py` measures it."""
    problem = Family(name).problem("1")
    study = deepband.open_study(space=problem.space, max_budget=9, maximize=True)
    finish(study, lambda job: problem(job.config, job.budget / 27))
    inside = []
    for bracket, configs in enumerate(study.session.state.configs):
        for index in range(study.session.state.schedule.start_size(bracket)):
            low, high = study.predict(bracket, index, 27).interval(0.8)
            inside.append(low < problem(configs[index], 1.0) < high)
    assert 0.5 < np.mean(inside) <= 1.0
