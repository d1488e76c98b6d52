"""Hypervolumes, and the reference that charts and advice use by default."""

from __future__ import annotations

import math

import pytest

from deepband import InputError, open_study
from deepband.analysis.hypervolume import default_reference, hypervolume
from driving import finish
from trade_off import FAILING, SLOW, THREE, TWO, evaluate, finished


@pytest.mark.parametrize("objectives", [TWO, THREE])
def test_the_default_reference_is_the_worst_of_the_first_run(objectives: dict[str, str]) -> None:
    study = finished(objectives)
    good = [each for each in study.evaluations if each.index not in (FAILING, SLOW)]
    worst = {
        name: (max if direction == "minimize" else min)(each.objectives[name] for each in good)
        for name, direction in objectives.items()
    }
    assert default_reference(study.session.state) == worst
    study.deepen("preserving")
    finish(study, evaluate)
    assert default_reference(study.session.state) == worst
    assert study.hypervolume(worst) > 0


def test_the_default_reference_is_feasible() -> None:
    study = finished(TWO, {"memory_mb": (None, 500)})
    found = default_reference(study.session.state)
    assert found is not None
    assert found["error"] == max(
        each.objectives["error"]
        for each in study.evaluations
        if each.feasible and math.isfinite(each.objectives["error"])
    )


@pytest.mark.parametrize("maximize", [False, True])
def test_one_objective_has_a_default_reference(maximize: bool) -> None:
    study = open_study(space={"x": (0.0, 1.0)}, max_budget=9, maximize=maximize)
    assert default_reference(study.session.state) is None
    finish(study, lambda job: job.config["x"])
    values = [each.value for each in study.evaluations if each.value is not None]
    worst = min(values) if maximize else max(values)
    assert default_reference(study.session.state) == {"value" if maximize else "loss": worst}
    assert hypervolume(study.session.state, {"value" if maximize else "loss": worst}) > 0


def test_one_objective_with_a_name_has_a_default_reference() -> None:
    study = finished({"speed": "maximize"})
    speeds = [each.objectives["speed"] for each in study.evaluations if each.error is None]
    assert default_reference(study.session.state) == {"speed": min(speeds)}


def test_there_is_no_default_reference_if_nothing_is_feasible() -> None:
    study = finished(TWO, {"memory_mb": (None, -1)})
    assert default_reference(study.session.state) is None


@pytest.mark.parametrize("given", [{"error": 1.0}, {"error": 1.0, "speed": math.inf}, 3])
def test_a_wrong_reference_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="reference"):
        finished().hypervolume(given)  # type: ignore[arg-type] # wrong on purpose
