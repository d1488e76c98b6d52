"""The rows that plots and pages draw, against what the study itself says."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import Context
from deepband.analysis import chart_data
from deepband.analysis.cells import cells
from deepband.analysis.chart_data import Axis, Extension
from deepband.analysis.importance import MOST, importance
from deepband.analysis.rank_agreement import agreements
from deepband.core.evaluations import best_evaluation
from deepband.core.strategies import NAMES, StrategyName
from driving import deepened, extended, finish, noisy, open_study

STRATEGIES = st.lists(st.sampled_from(NAMES), max_size=2)


@given(STRATEGIES, st.integers(0, 5), st.booleans())
def test_the_incumbent_by_hand(strategies: list[StrategyName], seed: int, maximize: bool) -> None:
    study = deepened(strategies, seed, maximize)
    found = chart_data.incumbent(study.session.state)
    spent = resumed = 0
    least, steps = math.inf, []
    for each in sorted(study.evaluations, key=lambda e: (e.run, e.rung, e.bracket, e.index)):
        spent += 3**each.rung
        resumed += 3**each.rung - (3 ** (each.rung - 1) if each.rung > each.bracket else 0)
        if each.loss is not None and each.loss < least:
            least = each.loss
            steps.append((spent, resumed, each.loss))
    assert [(step.spent, step.spent_resumed, step.result.loss) for step in found.steps] == steps
    assert found.spent == spent == sum(run.cost for run in study.runs)
    assert found.spent_resumed == resumed == sum(run.cost_resumed for run in study.runs)
    best = best_evaluation(study.session.state)
    assert best is None or best.loss == least


def test_extensions_lie_where_the_runs_before_ended() -> None:
    study = deepened(["preserving", "efficient"])
    costs = [(int(run.cost), int(run.cost_resumed)) for run in study.runs]
    (first, resumed), (second, second_resumed), _ = costs
    assert chart_data.incumbent(study.session.state).extensions == (
        Extension(1, "to 9", first, resumed),
        Extension(2, "to 27", first + second, resumed + second_resumed),
    )


def test_an_extension_says_what_it_grew_to() -> None:
    found = chart_data.incumbent(extended().session.state).extensions
    assert [each.target for each in found] == ["to width 2", "to 9, 2 brackets", "to 27"]
    study = deepened(["frugal"])
    study.deepen("preserving", to=study.max_budget)
    assert chart_data.incumbent(study.session.state).extensions[-1].target == "filled"


def test_the_rows_of_a_study_with_few_brackets() -> None:
    study = extended()
    state = study.session.state
    assert len(chart_data.curves(state, 1000)) == len(
        {(e.bracket, e.index) for e in study.evaluations}
    )
    for rung in range(4):
        finite = [e for e in study.evaluations if e.rung == rung and chart_data.is_drawable(e.loss)]
        assert len(chart_data.on_rung(state, rung)) == len(finite)
    assert [rung for rung, pairs in chart_data.both_rungs(state) if pairs] == [0, 1, 2]
    assert {(cell.bracket, cell.rung) for cell in cells(state)} == set(state.schedule.cells())


def test_rows_do_not_depend_on_the_order_of_results() -> None:
    studies = []
    for order in range(3):
        study = open_study(max_budget=9)
        finish(study, noisy(1), random.Random(order))
        studies.append(study.session.state)
    for row in (cells, chart_data.incumbent, chart_data.curves, agreements):
        first, *others = (row(state) for state in studies)
        assert all(other == first for other in others)


def test_curves_of_those_who_went_highest() -> None:
    study = deepened(["preserving"])
    found = chart_data.curves(study.session.state, most=4)
    assert len(found) == 4
    all_rows = chart_data.curves(study.session.state, most=1000)
    assert found == all_rows[:4]
    assert len(all_rows) == len({(e.bracket, e.index) for e in study.evaluations})
    losses = {(e.bracket, e.index, e.budget): e.loss for e in study.evaluations}
    for row in all_rows:
        for budget, loss in row.points:
            assert losses[row.bracket, row.index, budget] == loss
        mine = [key for key in losses if key[:2] == (row.bracket, row.index)]
        assert len(row.points) == sum(chart_data.is_drawable(losses[key]) for key in mine)
        assert row.promoted == (len(mine) > 1)


def test_curves_hold_what_was_reported() -> None:
    study = open_study(max_budget=3)

    def train(config: object, budget: int, context: Context) -> float:
        for step in range(1, budget + 1):
            context.report(step, 1 / step)
        return 1 / budget

    study.optimize(train)
    (highest,) = (
        row for row in chart_data.curves(study.session.state) if row.bracket == 0 and row.promoted
    )
    assert highest.curve == ((1, 1.0), (1, 1.0), (2, 0.5), (3, 1 / 3))


def test_the_rung_to_judge_by() -> None:
    study = open_study(max_budget=27)
    assert chart_data.rung_to_judge(study.session.state) == 0
    finish(study, noisy(1))
    assert chart_data.rung_to_judge(study.session.state, 2) == 2
    assert (
        chart_data.rung_to_judge(study.session.state) == 1
    )  # 9 and 12 finite losses; 4 + 3 + 5 above
    assert [result.loss for result, _ in chart_data.on_rung(study.session.state, 1)] == sorted(
        each.loss for each in study.evaluations if each.rung == 1 and each.loss is not None
    )


def test_agreement_of_rungs() -> None:
    study = open_study(max_budget=27)
    finish(study, lambda job: float(job.bracket * 100 + job.index))
    assert [each.tau for each in agreements(study.session.state)] == [1.0, 1.0, 1.0]
    turned = open_study(max_budget=27)
    finish(turned, lambda job: (-1) ** job.rung * float(job.bracket * 100 + job.index))
    found = agreements(turned.session.state)
    assert [each.tau for each in found] == [-1.0, -1.0, -1.0]
    assert [each.configs for each in found] == [9, 7, 4]
    assert [each.budgets for each in found] == [(1, 3), (3, 9), (9, 27)]
    equal = open_study(max_budget=3)
    finish(equal, lambda job: 1.0)
    assert [each.tau for each in agreements(equal.session.state)] == [None]
    assert [each.tau for each in agreements(open_study(max_budget=1).session.state)] == []


@pytest.mark.parametrize(
    ("axis", "value", "place"),
    [
        (Axis("x", 0.0, 4.0), 1, 0.25),
        (Axis("x", 1.0, 100.0, log=True), 10, 0.5),
        (Axis("x", 2.0, 2.0), 2, 0.5),
        (Axis("x", choices=("a", "b")), "b", 0.75),
        (Axis("x", choices=("a", "b")), "c", None),
        (Axis("x", choices=([1], [2])), [1], 0.25),
    ],
)
def test_places_on_an_axis(axis: Axis, value: object, place: float | None) -> None:
    found = axis.position(value)
    assert found == pytest.approx(place)


def test_axes_of_every_kind_of_parameter() -> None:
    from ConfigSpace import Categorical, ConfigurationSpace, Constant, Float, Integer, Normal

    space = ConfigurationSpace()
    space.add(
        Float("lr", (1e-4, 1e-1), log=True),
        Integer("layers", (1, 8)),
        Categorical("kind", ["a", "b"]),
        Categorical("size", ["s", "m", "l"], ordered=True),
        Constant("k", 3),
        Float("free", (-100, 100), distribution=Normal(0, 1)),
    )
    study = open_study(space=space)
    finish(study, noisy(1))
    found = {axis.name: axis for axis in chart_data.axes(study.session.state)}
    assert found["lr"] == Axis("lr", 1e-4, 1e-1, True)
    assert found["layers"] == Axis("layers", 1.0, 8.0)
    assert found["kind"] == Axis("kind", choices=("a", "b"))
    assert found["size"] == Axis("size", choices=("s", "m", "l"))
    assert found["k"] == Axis("k", choices=(3,))
    assert found["free"] == Axis("free", -100.0, 100.0)


def test_importance_finds_what_matters() -> None:
    study = open_study(
        space={"much": (0.0, 1.0), "little": (0.0, 1.0), "kind": ["a", [1, 2]], "one": [3]},
        max_budget=27,
    )
    finish(study, lambda job: job.config["much"] + 0.1 * job.config["little"])
    found = importance(study.session.state)
    assert found.rung == 1
    assert found.evaluations == 21
    assert next(iter(found.shares)) == "much"
    assert found.shares["much"] > 0.5
    assert found.left_out == ("one",)
    assert math.isclose(sum(found.shares.values()), 1)
    assert importance(study.session.state, rung=0).evaluations == 27
    assert importance(study.session.state) == found  # the same every time


def test_importance_of_nothing() -> None:
    study = open_study(max_budget=3)
    assert importance(study.session.state).shares == {}
    finish(study, lambda job: 1.0)
    assert importance(study.session.state).shares == {}
    with pytest.raises(ValueError, match="rung"):
        importance(study.session.state, rung=7)


@pytest.mark.parametrize(
    ("configs", "most"), [(243, 100), pytest.param(2187, MOST, marks=pytest.mark.heavy)]
)
def test_importance_looks_at_good_and_bad_alike(
    configs: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cliff that only the worse configs fell from."""
    monkeypatch.setattr("deepband.analysis.importance.MOST", most)
    study = open_study(space={"x": (0.0, 1.0), "y": (0.0, 1.0)}, max_budget=configs)
    jobs = study.ask_all()[:configs]
    study.tell_all([(job, 10.0 * (job.config["x"] > 0.6) + job.config["y"]) for job in jobs])
    found = importance(study.session.state, rung=0)
    assert most / 2 < found.evaluations <= most
    assert found.shares["x"] > 0.9


@pytest.mark.parametrize("huge", [1e160, 1e308, -1e308])
def test_losses_of_a_model_that_diverged(huge: float) -> None:
    study = open_study(max_budget=27)
    finish(study, lambda job: huge if job.index % 3 == 0 else job.config["x"])
    assert importance(study.session.state).shares == {"x": 1.0}
    assert all(
        abs(loss) < 2 for row in chart_data.curves(study.session.state) for _, loss in row.points
    )
