"""Measures: charts draw what is optimised, or a metric of the same evaluations."""

from __future__ import annotations

import math
from typing import Any

import pytest

from deepband import InputError, Job, Study, UnknownNameError
from deepband.analysis import chart_data
from deepband.analysis.importance import importance
from deepband.analysis.measures import Measure, curves, measure, on_rung
from driving import finish, open_study


def finished(maximize: bool = False) -> Study:
    """A study whose metric prefers another parameter than its loss, and is missing sometimes."""
    study = open_study(space={"x": (0.0, 1.0), "y": (0.0, 1.0)}, max_budget=27, maximize=maximize)

    def objective(job: Job) -> Any:
        if job.index == 2:
            return ValueError("no")
        result: dict[str, Any] = {"value": job.config["x"], "accuracy": job.config["y"]}
        if job.index == 3:
            result["accuracy"] = math.nan
        return result

    finish(study, objective)
    return study


@pytest.mark.parametrize("maximize", [False, True])
def test_what_is_optimised_is_in_the_direction_of_the_user(maximize: bool) -> None:
    study = finished(maximize)
    state = study.session.state
    chosen = measure(state)
    assert chosen.short_name == ("value" if maximize else "loss")
    assert chosen.name == ("value (larger is better)" if maximize else "loss")
    for each in study.evaluations:
        found = chosen.of(state.results[each.bracket, each.rung][each.index])
        assert found == each.value


def test_a_metric_is_that_of_the_evaluations_that_have_it() -> None:
    study = finished()
    state = study.session.state
    chosen = measure(state, "accuracy")
    assert chosen.name == chosen.short_name == "accuracy"
    for each in study.evaluations:
        found = chosen.of(state.results[each.bracket, each.rung][each.index])
        assert found == (None if each.index in (2, 3) else each.config["y"])
    assert len(on_rung(chosen, 0)) == 27 - 2
    assert all(number == config["y"] for number, config in on_rung(chosen, 0))


def test_curves_of_a_metric_have_the_same_configs_in_the_same_order() -> None:
    state = finished().session.state
    plain, of_metric = curves(measure(state)), curves(measure(state, "accuracy"))
    assert plain == [row._replace(curve=()) for row in chart_data.curves(state)]
    places = [(row.bracket, row.index, row.promoted) for row in plain]
    assert [(row.bracket, row.index, row.promoted) for row in of_metric] == places
    for row in of_metric:
        known = {state.config(row.bracket, row.index)["y"]} if row.points else set()
        assert {number for _, number in row.points} == known
        assert (not row.points) == (row.index in (2, 3))


def test_reported_curves_are_losses_and_not_metrics() -> None:
    study = open_study(max_budget=3, maximize=True)

    def objective(config: dict[str, float], budget: float, context: Any) -> dict[str, float]:
        context.report(1, config["x"])
        return {"value": config["x"], "accuracy": 0.5}

    study.optimize(objective)
    (row, *_) = curves(measure(study.session.state))
    x = study.session.state.config(row.bracket, row.index)["x"]
    assert row.curve[0] == (1, x)
    assert all(row.curve == () for row in curves(measure(study.session.state, "accuracy")))


def test_importance_of_a_metric() -> None:
    state = finished().session.state
    assert next(iter(importance(state, 0).shares)) == "x"
    assert next(iter(importance(state, 0, "accuracy").shares)) == "y"


def test_an_unknown_metric_is_refused_with_those_that_exist() -> None:
    state = finished().session.state
    with pytest.raises(UnknownNameError, match=r"no metric 'acuracy'; choose from 'accuracy'. Did"):
        measure(state, "acuracy")


def test_a_metric_without_finite_numbers_is_refused() -> None:
    study = open_study()
    finish(study, lambda job: {"loss": 1.0, "accuracy": math.nan, "name": "a", "f1": 0.5})
    for name in ("accuracy", "name"):
        with pytest.raises(InputError, match=f"metric '{name}' has no finite number in any"):
            measure(study.session.state, name)


@pytest.mark.parametrize("maximize", [False, True])
def test_without_metrics_the_error_says_how_to_return_some(maximize: bool) -> None:
    state = open_study(maximize=maximize).session.state
    name = "value" if maximize else "loss"
    with pytest.raises(InputError, match=f'such as {{"{name}": 0.1, "accuracy": 0.9}}'):
        measure(state, "accuracy")


def test_numbers_that_cannot_be_drawn_are_left_out() -> None:
    study = open_study(max_budget=1)
    finish(study, lambda job: {"loss": 1.0, "large": 1e200, "small": 1})
    (result,) = study.session.state.all_results()
    assert Measure(study.session.state, "large").of(result) is None
    assert Measure(study.session.state, "small").of(result) == 1.0
