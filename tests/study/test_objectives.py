"""Studies with several objectives, constraints and prechecks: any number of workers, bad input."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import InputError, NoResultError, ResultError, Study
from deepband.analysis import export
from deepband.errors import SeveralObjectivesError
from driving import finish
from trade_off import SPACE, THREE, TWO, evaluate, finished

BOUNDS: dict[str, tuple[float | None, float | None]] = {"memory": (None, 0.7), "gap": (0.1, 0.9)}


def train(config: dict[str, Any], budget: float) -> dict[str, float]:
    x, y = config["x"], config["y"]
    if x > 0.95:
        raise ValueError("too large")
    error = math.inf if y > 0.97 else x * y / budget + (x - 0.5) ** 2
    return {"error": error, "speed": x - y, "size": y, "memory": x, "gap": y}


def affordable(config: dict[str, Any], budget: float) -> bool:
    return bool(config["y"] < 0.8 or budget < 9)


def run(
    path: Path | None, objectives: dict[str, str], stops: bool = False, **options: Any
) -> Study:
    """A study that was deepened and widened, perhaps with calls that stop early."""
    settings: dict[str, Any] = {"space": SPACE, "max_budget": 9, "seed": 5, "constraints": BOUNDS}
    study = deepband.open_study(path, objectives=objectives, **settings)
    options |= {"precheck": affordable, "first_failures": 0}
    for step in (None, "deepen", "widen"):
        if step:
            getattr(study, step)("preserving" if step == "deepen" else "efficient")
        while stops and not study.done:
            study.optimize(train, max_cost=100, **options)
            if path is not None:
                study.close()
                study = deepband.open_study(path)
        study.optimize(train, **options)
    return study


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


@pytest.mark.filterwarnings("ignore::deepband.errors.FailedEvaluationsWarning")
@pytest.mark.parametrize(
    "objectives",
    [pytest.param(TWO, id="two"), pytest.param(THREE, id="three", marks=pytest.mark.heavy)],
)
def test_any_number_of_workers_interrupted_or_not_gives_the_same_study(
    objectives: dict[str, str], tmp_path: Path
) -> None:
    expected = canonical(run(None, objectives))
    assert canonical(run(tmp_path / "stops.study", objectives, stops=True)) == expected
    assert canonical(deepband.open_study(tmp_path / "stops.study")) == expected
    for workers in (2, 3):
        place = tmp_path / f"{workers}.study"
        with run(place, objectives, workers=workers) as study:
            assert canonical(study) == expected
        assert canonical(deepband.open_study(place)) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objectives": 5}, "give a mapping from names to directions"),
        ({"objectives": {}}, "give a mapping from names to directions"),
        ({"objectives": ["error", "size"]}, "give a mapping from names to directions"),
        ({"objectives": "error"}, "give a mapping from names to directions"),
        ({"objectives": {"error": "down", "b": "minimize"}}, "give 'minimize' or 'maximize'"),
        ({"objectives": {"error": None}}, "give 'minimize' or 'maximize'"),
        ({"objectives": {"error": ["minimize"]}}, "give 'minimize' or 'maximize'"),
        ({"objectives": {"error": np.array(["minimize", "a"])}}, "give 'minimize' or 'maximize'"),
        ({"objectives": {5: "minimize"}}, "give a text"),
        ({"objectives": {"": "minimize"}}, "give a text"),
        ({"objectives": {"a\n": "minimize"}}, "give a text"),
        ({"objectives": {"\ud800": "minimize"}}, "give a text"),
        ({"objectives": {"loss": "minimize"}}, "Choose another name"),
        ({"objectives": {"value": "minimize"}}, "Choose another name"),
        ({"objectives": TWO, "maximize": True}, "maximize is given together"),
        ({"objectives": TWO, "maximize": False}, "maximize is given together"),
        ({"maximize": "yes"}, "give True or False"),
        ({"constraints": 5}, "give a mapping from metrics to bounds"),
        ({"constraints": [("memory", (0, 1))]}, "give a mapping from metrics to bounds"),
        ({"constraints": {"memory": 5}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (None, None)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (1,)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (2, 1)}}, "are .2, 1.: give .* with lower <= upper"),
        ({"constraints": {"memory": ("a", 1)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (True, 2)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (None, math.inf)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (None, math.nan)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (None, 10**400)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (Fraction(10**400), None)}}, r"give \(lower, upper\)"),
        ({"constraints": {"memory": (1j, None)}}, r"give \(lower, upper\)"),
        ({"constraints": {"loss": (0, 1)}}, "Choose another name"),
        ({"constraints": {None: (0, 1)}}, "give a text"),
    ],
)
def test_bad_criteria_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    for path in (None, tmp_path / "a.study"):
        with pytest.raises(InputError, match=message):
            deepband.open_study(path, space=SPACE, max_budget=9, **settings)
    assert not list(tmp_path.glob("*.study"))


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"objectives": {"error": "minimize"}}, "objectives"),
        ({"objectives": {"error": "minimize", "speed": "minimize"}}, "objectives"),
        ({"constraints": {"memory": (None, 0.5)}}, "constraints"),
        ({"constraints": {}}, "constraints"),
        ({"objectives": 5}, "objectives"),
    ],
)
def test_other_criteria_than_those_of_the_study_are_refused(
    given: dict[str, Any], name: str, tmp_path: Path
) -> None:
    place = tmp_path / "a.study"
    settings: dict[str, Any] = {"objectives": TWO, "constraints": BOUNDS}
    deepband.open_study(place, space=SPACE, max_budget=9, **settings).close()
    deepband.open_study(place, **settings).close()
    with pytest.raises(InputError, match=name):
        deepband.open_study(place, **given)


GOOD = {"error": 0.5, "speed": 1.0, "memory": 0.5, "gap": 0.5}
BAD_RESULTS = [
    (0.5, "return a mapping with 'error', 'speed', 'memory' and 'gap': "),
    (None, "return a mapping"),
    ((0.5, 1.0), "return a mapping"),
    ({}, "has no 'memory', a metric with bounds of the study, but nothing"),
    ({"loss": 0.5, "memory": 0.5, "gap": 0.5}, "has no 'error'"),
    ({"Error": 0.5, "memory": 0.5, "gap": 0.5}, "has no 'error', .* but 'Error', 'memory', 'gap'"),
    (
        {"gap": 0.5} | {str(number): 0.5 for number in range(5000)},
        "'3' and 4996 more: ",
    ),
    ({**GOOD, "error": None}, "has None .NoneType. under 'error'"),
    ({**GOOD, "error": "0.5"}, "under 'error'"),
    ({**GOOD, "error": True}, "under 'error'"),
    ({**GOOD, "error": [0.5]}, "under 'error'"),
    ({**GOOD, "error": 10**400}, "under 'error'"),
    ({**GOOD, "error": -math.inf}, "no result can be better"),
    ({**GOOD, "speed": math.inf}, "no result can be better"),
    ({**GOOD, "memory": None}, "under 'memory'"),
    ({**GOOD, "memory": True}, "under 'memory'"),
    ({**GOOD, "memory": np.zeros(2)}, "under 'memory'"),
]


@pytest.mark.parametrize(("result", "message"), BAD_RESULTS)
def test_bad_results_are_refused(result: Any, message: str) -> None:
    study = deepband.open_study(space=SPACE, max_budget=3, objectives=TWO, constraints=BOUNDS)
    job = study.ask()
    assert job is not None
    with pytest.raises(ResultError, match=message):
        study.tell(job, result)
    with pytest.raises(ResultError, match=message):
        study.tell_all([(job, result)])
    with pytest.raises(ResultError, match=message):
        study.add_evaluation({"x": 0.5, "y": 0.5}, 1, result)
    assert study.evaluations == []
    study.tell(job, GOOD)


@pytest.mark.parametrize(("result", "message"), BAD_RESULTS)
def test_bad_results_of_an_objective_are_failures(result: Any, message: str) -> None:
    study = deepband.open_study(space=SPACE, max_budget=1, objectives=TWO, constraints=BOUNDS)
    with pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(lambda config, budget: result, first_failures=0)
    (only,) = study.evaluations
    assert only.error is not None
    assert only.error.startswith("ResultError")
    assert (only.objectives, only.feasible, only.loss) == ({}, False, None)


@pytest.mark.parametrize("name", GOOD)
def test_nan_is_a_failure(name: str) -> None:
    study = deepband.open_study(space=SPACE, max_budget=1, objectives=TWO, constraints=BOUNDS)
    job = study.ask()
    assert job is not None
    study.tell(job, {**GOOD, name: math.nan})
    assert study.evaluations[0].error == f"nan: the objective returned nan for {name}"


@pytest.mark.parametrize(
    "number", [0.5, np.float32(0.5), np.float64(0.5), np.array(0.5), Fraction(1, 2), Decimal("0.5")]
)
def test_any_real_number_is_a_result(number: Any) -> None:
    study = deepband.open_study(space=SPACE, max_budget=1, objectives=TWO, constraints=BOUNDS)
    job = study.ask()
    assert job is not None
    study.tell(job, dict.fromkeys(GOOD, number) | {"more": "text", "loss": 3})
    (only,) = study.evaluations
    assert only.objectives == {"error": 0.5, "speed": 0.5}
    assert only.metrics == {"memory": 0.5, "gap": 0.5, "more": "text", "loss": 3}
    assert only.feasible


def test_a_precheck_that_raises_releases_its_jobs() -> None:
    study = deepband.open_study(space=SPACE, max_budget=3, objectives=TWO)

    def broken(config: dict[str, Any], budget: float) -> bool:
        raise ZeroDivisionError("in the precheck")

    with pytest.raises(ZeroDivisionError, match="in the precheck"):
        study.optimize(train, precheck=broken)
    assert study.evaluations == []
    study.optimize(train, first_failures=0, precheck=lambda config, budget: config["x"] < 0.9)
    assert study.done


@pytest.mark.parametrize(
    "function", [lambda config: True, lambda: True, lambda config, budget, more: True]
)
def test_a_precheck_takes_a_config_and_a_budget(function: Any) -> None:
    study = deepband.open_study(space=SPACE, max_budget=3, objectives=TWO)
    with pytest.raises(
        InputError, match=r"precheck has the signature .*: give a function \(config, budget\)"
    ):
        study.optimize(train, precheck=function)
    study.optimize(train, first_failures=0, precheck=lambda *given, more=None: True)
    assert study.done


@pytest.mark.parametrize("answer", [None, 0, 1, "yes", [], np.array([True, True])])
def test_a_precheck_must_answer(answer: Any) -> None:
    study = deepband.open_study(space=SPACE, max_budget=3, objectives=TWO)
    with pytest.raises(InputError, match=r"precheck returned .* return True"):
        study.optimize(train, precheck=lambda config, budget: answer)
    assert study.evaluations == []
    function: Any = 5 if answer is None else answer
    with pytest.raises(InputError, match="precheck is"):
        study.optimize(train, precheck=function)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_bools_of_numpy_are_answers(workers: int) -> None:
    study = deepband.open_study(space=SPACE, max_budget=9, seed=3)
    study.optimize(
        lambda config, budget: config["x"],
        precheck=lambda config, budget: np.float64(config["x"]) > 0.5,
        workers=workers,
    )
    trained = [each for each in study.evaluations if each.origin is None]
    assert trained
    assert all(each.config["x"] > 0.5 for each in trained)
    assert study.best.config["x"] > 0.5


@pytest.mark.parametrize("settings", [{}, {"objectives": TWO}, {"constraints": BOUNDS}])
@pytest.mark.parametrize("batch", [None, True])
def test_a_precheck_that_rejects_everything(settings: dict[str, Any], batch: Any) -> None:
    study = deepband.open_study(space=SPACE, max_budget=9, **settings)
    trained: list[object] = []
    study.optimize(
        lambda given, budget: trained.append(given),
        precheck=lambda config, budget: False,
        batch=batch,
    )
    assert study.done
    assert trained == []
    assert {each.origin for each in study.evaluations} == {"precheck"}
    assert not any(each.feasible for each in study.evaluations)
    assert [run.cost for run in study.runs] == [0]
    assert study.front() == []
    assert study.advice().step == "stop"
    assert "feasible" in study.advice().reason
    message = r"none is feasible .*, and the precheck rejected \d+\."
    if "objectives" in settings:
        with pytest.raises(SeveralObjectivesError, match=r"study\.front\(\)"):
            print(study.best)
        assert study.hypervolume({"error": 1.0, "speed": 0.0}) == 0.0
    else:
        with pytest.raises(NoResultError, match=message):
            print(study.best)
        with pytest.raises(NoResultError, match=message):
            study.best_at(0)
    study.deepen("efficient")
    study.optimize(lambda *_: 0.5, precheck=lambda *_: False)
    assert study.done


def test_best_and_front_are_refused_where_they_make_no_sense() -> None:
    study = finished(TWO)
    questions: list[Callable[[], object]] = [lambda: study.best, study.best_at]
    for ask in questions:
        with pytest.raises(SeveralObjectivesError, match="error and speed"):
            ask()
    with pytest.raises(SeveralObjectivesError, match="nothing can be confirmed"):
        study.confirm(lambda config, budget: GOOD)
    for rung in (99, -1, "top", 1.5, True):
        with pytest.raises(InputError, match="rung"):
            study.front(rung=rung)  # type: ignore[arg-type] # on purpose
    assert deepband.open_study(space=SPACE, max_budget=9, objectives=TWO).front() == []


@pytest.mark.parametrize(
    "reference",
    [
        5,
        {},
        [1.0, 2.0],
        {"error": 1.0},
        {"error": 1.0, "speed": 1.0, "size": 1.0},
        {"error": 1.0, "speed": None},
        {"error": 1.0, "speed": "1"},
        {"error": 1.0, "speed": True},
        {"error": 1.0, "speed": math.inf},
        {"error": 1.0, "speed": math.nan},
        {"error": 10**400, "speed": 1.0},
    ],
)
def test_bad_references_are_refused(reference: Any) -> None:
    with pytest.raises(InputError, match="reference"):
        finished(TWO).hypervolume(reference)


def test_what_a_hypervolume_lacks_is_named() -> None:
    with pytest.raises(InputError, match=r"has 'error': give .* which are 'error', 'speed'"):
        finished(TWO).hypervolume({"error": 1.0})
    study = deepband.open_study(space=SPACE, max_budget=1, objectives=TWO)
    with pytest.raises(NoResultError, match="there is no reference of the hypervolume yet: "):
        study.hypervolume()


def test_a_hypervolume_on_a_rung_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="rung"):
        finished(TWO).hypervolume({"error": 1.0, "speed": 0.0}, rung=99)


def test_equal_configs_of_a_rejected_one_are_rejected() -> None:
    settings: dict[str, Any] = {"space": {"x": [1, 2]}, "max_budget": 9, "reuse_identical": True}
    study = deepband.open_study(**settings)
    study.optimize(
        lambda config, budget: float(config["x"]), precheck=lambda config, budget: config["x"] == 2
    )
    assert study.done
    for each in study.evaluations:
        assert each.feasible == (each.config["x"] == 2)
        assert (each.origin == "precheck") == (each.config["x"] == 1)


def test_a_finished_study_can_be_deepened_frugally_after_failures() -> None:
    study = finished(THREE, {"memory_mb": (None, 300)})
    study.deepen("frugal")
    finish(study, evaluate)
    promoted = [each for each in study.evaluations if each.rung == study.session.state.schedule.top]
    assert promoted
    assert study.quote("preserving", to=27).fills


def test_the_repr_of_an_evaluation_names_only_objectives_that_have_names() -> None:
    (several, *_), alone = finished(TWO).evaluations, deepband.open_study(space=SPACE, max_budget=1)
    alone.optimize(lambda config, budget: 0.5)
    (one, *_) = alone.evaluations
    assert "objectives=" not in repr(one)
    assert f"objectives={dict(several.objectives)!r}" in repr(several)
    for each in (one, several):
        assert eval(repr(each), {"Evaluation": deepband.Evaluation}) == each


def test_a_study_in_which_everything_is_infeasible_cannot_be_confirmed() -> None:
    study = deepband.open_study(space=SPACE, max_budget=3, constraints={"size": (None, 0)})
    study.optimize(lambda *_: {"loss": 0.5, "size": 1.0})
    with pytest.raises(NoResultError, match=r"none is feasible .*, and 6 violate a constraint\."):
        study.confirm(lambda *_: {"loss": 0.5, "size": 1.0}, top=1, seeds=2)
