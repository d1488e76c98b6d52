"""Advice and automatic extension with several objectives and constraints."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
from advised import finished as finished_by
from advised import rank
from deepband import Job, Study
from deepband.analysis.advice import advise
from deepband.analysis.front_volumes import front_volumes, loss_alone
from deepband.analysis.hypervolume import default_reference, dominated
from deepband.core.state import State
from driving import finish
from trade_off import SPACE, THREE, TWO, evaluate, finished

BOTH = {"error": "minimize", "size": "minimize"}


def trade_off(gain: float = 0.0) -> Any:
    """Configs on a line, whose results improve by `gain` from rung to rung."""

    def result(job: Job) -> dict[str, float]:
        place = rank(job)
        away = gain * (3 - job.rung)
        return {"error": place + away, "size": 100.0 - place + away}

    return result


def test_a_front_that_does_not_move_does_not_pay() -> None:
    advice = finished_by(trade_off(), objectives=BOTH).advice()
    assert (advice.gain, advice.deepening.pays) == (0.0, False)
    assert advice.deepening.reason == "the front gained nothing on the top rung"
    assert (advice.best_budget, advice.best_gain, advice.last_change) == (None, None, None)
    assert "reference" in dict(advice.lines())


def test_a_front_that_still_moves_pays_deeper() -> None:
    study = finished_by(trade_off(20.0), objectives=BOTH)
    advice = study.advice()
    assert advice.deepening.pays
    assert advice.deepening.reason.startswith("the front still gained")
    assert (advice.gain or 0.0) > 0
    assert [(each.incumbent or 0.0) > 0 for each in advice.gains] == [True] * 3
    assert dict(advice.lines())["9 to 27"].startswith("front +")


@pytest.mark.parametrize("objectives", [TWO, THREE])
def test_gains_are_differences_of_hypervolumes(objectives: dict[str, str]) -> None:
    study = finished(objectives, max_budget=27)
    advice, reference = study.advice(), default_reference(study.session.state)
    assert reference is not None
    assert advice.reference == reference
    volumes = [study.hypervolume(reference, rung) for rung in range(4)]
    for rung, each in enumerate(advice.gains):
        assert each.incumbent == pytest.approx(volumes[rung + 1] - volumes[rung])
        assert each.configs > 1
    assert advice.agreement is not None
    assert advice.agreement.configs == advice.gains[-1].configs
    assert advice.spread is not None
    assert advice.spread <= volumes[3]


vectors = st.lists(st.tuples(*[st.integers(0, 9).map(float)] * 3), min_size=1, max_size=6)


@given(vectors)
def test_the_loss_of_a_config_is_its_volume_and_keeps_the_order(points: list[Any]) -> None:
    reference = (8.0, 8.0, 8.0)
    for point in points:
        assert loss_alone(point, reference) == pytest.approx(-dominated([point], reference))
        for other in points:
            if all(mine <= its for mine, its in zip(point, other, strict=True)):
                assert loss_alone(point, reference) <= loss_alone(other, reference)


def test_only_feasible_results_count() -> None:
    """The infeasible half is the better one, with one objective and with two."""

    def result(job: Job) -> dict[str, float]:
        place = rank(job)
        return {"error": place, "size": place, "memory": -place}

    bounds = {"memory": (None, -1.0)}
    for objectives in ({"error": "minimize"}, BOTH):
        study = finished_by(result, objectives=objectives, constraints=bounds)
        advice = study.advice()
        assert advice.judged != (0, 0)
        assert all(each.feasible for each in study.front())
    nothing = finished_by(result, objectives={"error": "minimize"}, constraints={"memory": (1, 2)})
    assert nothing.advice().step == "stop"
    assert "feasible, finite result on the top rung" in nothing.advice().reason
    nothing = finished_by(result, objectives=BOTH, constraints={"memory": (1, 2)})
    assert nothing.advice().step == "stop"
    assert "there is no reference" in nothing.advice().reason
    assert front_volumes(nothing.session.state) is None


@pytest.mark.parametrize("bad", [ValueError("no"), math.inf, math.nan, 1e200])
def test_results_that_do_not_count(bad: Any) -> None:
    def result(job: Job) -> object:
        good = trade_off()(job)
        if job.rung < 3:
            return good
        return bad if isinstance(bad, Exception) else {**good, "size": bad}

    advice = finished_by(result, objectives=BOTH).advice()
    assert (advice.step, advice.gains[-1].incumbent) == ("stop", None)
    assert "finite result on the top rung" in advice.reason
    assert str(advice)


@pytest.mark.parametrize("objectives", [TWO, THREE])
@pytest.mark.parametrize("bounds", [None, {"memory_mb": (None, 500)}])
def test_advice_is_a_function_of_the_facts(
    objectives: dict[str, str], bounds: Any, tmp_path: Path
) -> None:
    study = finished(objectives, bounds)
    other = deepband.open_study(
        tmp_path / "a.study",
        space=SPACE,
        max_budget=9,
        seed=1,
        objectives=objectives,
        constraints=bounds,
    )
    finish(other, evaluate, random.Random(3))
    other.close()
    again = deepband.open_study(tmp_path / "a.study")
    assert study.advice() == other.advice() == again.advice()
    assert advise(State(again.session.storage.load())) == again.advice()


def test_another_unit_of_an_objective_changes_no_decision() -> None:
    def scaled(job: Job) -> object:
        result = evaluate(job)
        return result if isinstance(result, Exception) else {**result, "speed": result["speed"] * 8}

    study = finished(TWO, max_budget=27)
    other = deepband.open_study(space=SPACE, max_budget=27, seed=1, objectives=TWO)
    finish(other, scaled)
    one, two = study.advice(), other.advice()
    assert (one.step, one.reason, one.exchanges) == (two.step, two.reason, two.exchanges)
    assert two.gain == pytest.approx(8 * (one.gain or 0.0))


def train(config: dict[str, Any], budget: float) -> dict[str, float]:
    x, y = config["x"], config["y"]
    return {"error": (1.0 - y) / min(budget, 9) + x, "speed": 10 * x, "memory": x}


def automatic(**options: Any) -> Study:
    settings: dict[str, Any] = {"space": SPACE, "max_budget": 3, "seed": 2, "objectives": TWO}
    study = deepband.open_study(constraints={"memory": (None, 0.8)}, **settings)
    study.auto_extend(train, max_cost=3000, max_budget_limit=81, **options)
    return study


def test_automatic_extension_with_several_objectives() -> None:
    study = automatic()
    assert study.done
    assert len(study.runs) > 1
    assert sum(run.cost for run in study.runs) <= 3000
    reason = study.auto_extend(train, max_cost=3000, max_budget_limit=81)
    assert reason
    again = automatic(workers=2)
    assert [each.objectives for each in again.evaluations] == [
        each.objectives for each in study.evaluations
    ]
    assert [(run.max_budget, run.width) for run in again.runs] == [
        (run.max_budget, run.width) for run in study.runs
    ]
