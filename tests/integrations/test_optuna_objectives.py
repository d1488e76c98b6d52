"""Several objectives and constraints in Optuna: export, import and the way there and back."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from optuna.distributions import FloatDistribution
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

import deepband
from deepband import InputError, Job, Study
from deepband.analysis.export import canonical
from deepband.core.strategies import StrategyName
from deepband.integrations.optuna import export, import_study
from driving import finish, open_study
from leftovers import collect_silently

heavy = pytest.mark.heavy
OBJECTIVES = {"error": "minimize", "accuracy": "maximize"}
CONSTRAINTS = {"memory": (None, 0.7), "error": (-1.5, 9.0)}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    collect_silently()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what Optuna's storages opened: they have no `close`."""
    opened: list[Any] = []

    def note(connection: Any, record: object) -> None:
        opened.append(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", note)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", note)
    for connection in opened:
        connection.close()


def measured(job: Job) -> object:
    """Results that depend on the job only: some fail, some are infinite."""
    draw = random.Random(f"{job.key}")
    if draw.random() < 0.15:
        return RuntimeError("failed on purpose")
    error = math.inf if draw.random() < 0.1 else draw.gauss(0, 1)
    return {"error": error, "accuracy": draw.gauss(0, 1), "memory": draw.random()}


def rejecting(study: Study) -> None:
    """Run a study with a precheck that rejects some configs, on some budgets."""
    study.optimize(
        lambda config, budget: {"error": config["x"], "accuracy": budget, "memory": config["x"]},
        precheck=lambda config, budget: config["x"] < 0.8 and (budget < 9 or config["x"] > 0.2),
    )


def run(*strategies: StrategyName, **settings: Any) -> Study:
    study = open_study(**{"objectives": OBJECTIVES, "max_budget": 3, **settings})
    finish(study, measured)
    for strategy in strategies:
        study.deepen(strategy)
        finish(study, measured)
    return study


STORAGES: list[Any] = [
    lambda _: InMemoryStorage(),
    lambda folder: f"sqlite:///{folder / 'optuna.db'}",
    lambda folder: JournalStorage(JournalFileBackend(str(folder / "optuna.log"))),
]


@pytest.mark.parametrize("storage", STORAGES)
def test_a_study_becomes_a_multi_objective_one(
    tmp_path: Path, storage: Callable[[Path], Any]
) -> None:
    study = run("preserving", constraints=CONSTRAINTS)
    place = storage(tmp_path)
    export(study, place, "mine")
    written = optuna.load_study(study_name="mine", storage=place)
    assert [each.name for each in written.directions] == ["MINIMIZE", "MAXIMIZE"]
    assert written.metric_names == list(OBJECTIVES)
    trials = {(t.user_attrs["bracket"], t.user_attrs["index"]): t for t in written.trials}
    assert trials.keys() == {(each.bracket, each.index) for each in study.evaluations}
    for each in study.evaluations:
        trial = trials[each.bracket, each.index]
        assert trial.intermediate_values == {}
        (details,) = [d for d in trial.user_attrs["evaluations"] if d["rung"] == each.rung]
        assert details["step"] == each.budget
        found = {name: float(value) for name, value in details.get("objectives", {}).items()}
        assert found == each.objectives
        if each.rung == trial.user_attrs["rung"]:
            assert (trial.values or []) == list(each.objectives.values())
            assert trial.user_attrs["feasible"] is each.feasible
            if each.error:
                assert trial.state is TrialState.FAIL
                continue
            complete = each.rung == study.session.state.schedule.top
            assert trial.state is (TrialState.COMPLETE if complete else TrialState.PRUNED)
            kept = trial.system_attrs["constraints"]
            assert len(kept) == len(CONSTRAINTS)
            assert all(number <= 0 for number in kept) is each.feasible


@pytest.mark.parametrize("constraints", [None, CONSTRAINTS])
def test_the_best_trials_are_the_front_on_the_top_rung(constraints: Any) -> None:
    study = run("preserving", constraints=constraints)
    written = export(study, InMemoryStorage())
    front = study.front(rung=study.session.state.schedule.top)
    assert front
    assert sorted(tuple(each.values) for each in written.best_trials) == sorted(
        tuple(each.objectives.values()) for each in front
    )


def test_a_single_objective_with_constraints() -> None:
    study = open_study(max_budget=3, objectives={"error": "minimize"}, constraints=CONSTRAINTS)
    finish(study, measured)
    written = export(study, InMemoryStorage())
    assert written.best_value == study.best_at(study.session.state.schedule.top).loss
    assert written.metric_names == ["error"]
    assert all(trial.intermediate_values for trial in written.trials)
    back = import_study(written)
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))


def test_samplers_of_optuna_continue_with_an_export() -> None:
    study = run("preserving", constraints=CONSTRAINTS)
    written = export(study, InMemoryStorage())
    for sampler in (optuna.samplers.NSGAIISampler(seed=0), optuna.samplers.TPESampler(seed=0)):
        written.sampler = sampler
        written.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0), 0.5), n_trials=3)
    assert len(written.trials) == len({e[:2] for e in study.evaluations}) + 6


def test_a_rejected_config_is_never_complete() -> None:
    for given in ({"constraints": CONSTRAINTS}, {}):
        study = open_study(objectives=OBJECTIVES, **given)
        rejecting(study)
        rejected = {each[:2] for each in study.evaluations if each.origin == "precheck"}
        assert rejected
        written = export(study, InMemoryStorage())
        for trial in written.trials:
            if trial.user_attrs["origin"] == "precheck":
                assert trial.state is TrialState.PRUNED
                assert trial.user_attrs["feasible"] is False
                if given:
                    assert all(number > 0 for number in trial.system_attrs["constraints"])
        back = import_study(written)
        assert back.left_out == []
        assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
        assert [run.cost for run in back.study.runs] == [run.cost for run in study.runs]
        other = import_study(written, max_budget=9)
        reasons = {each.reason for each in other.left_out}
        assert "it was rejected before it was trained" in reasons


SETTINGS: list[dict[str, Any]] = [
    {},
    {"constraints": CONSTRAINTS},
    {"objectives": {"error": "maximize", "accuracy": "minimize", "memory": "minimize"}},
    {"min_budget": 0.1, "max_budget": 0.9},
    {"constraints": {"memory": (0.1, 0.9)}, "width": 2, "brackets": 1},
]


def maximised(study: Study) -> Callable[[Job], object]:
    """Like `measured`, but an infinite error is never the best value."""
    sign = -1 if dict(study.session.state.criteria.objectives)["error"] == "maximize" else 1

    def signed(job: Job) -> object:
        found = measured(job)
        return {**found, "error": sign * found["error"]} if isinstance(found, dict) else found

    return signed


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_exported_study_is_restored(settings: dict[str, Any]) -> None:
    study = open_study(**{"objectives": OBJECTIVES, "max_budget": 3, **settings})
    finish(study, maximised(study))
    strategies: list[StrategyName] = ["discarding", "efficient", "frugal"]
    for strategy in strategies:
        study.deepen(strategy)
        finish(study, maximised(study))
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.study.session.state.criteria == study.session.state.criteria
    for one in (study, back.study):
        one.deepen("preserving")
        finish(one, maximised(one))
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.study.front() == study.front()


def test_a_study_is_restored_through_files(tmp_path: Path) -> None:
    study = run("preserving", constraints=CONSTRAINTS)
    written = export(study, f"sqlite:///{tmp_path / 'optuna.db'}")
    for wanted in (len(study.evaluations), 0):
        back = import_study(written, tmp_path / "back.study")
        assert (back.imported, back.left_out) == (wanted, [])
        assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
        back.study.close()


# Studies of Optuna's own


def theirs(*rows: tuple[float, float], names: list[str] | None = None, **given: Any) -> Any:
    """A multi-objective study with complete trials."""
    made = optuna.create_study(directions=["minimize", "maximize"], study_name="theirs")
    if names:
        with pytest.warns(optuna.exceptions.ExperimentalWarning):
            made.set_metric_names(names)
    for number, row in enumerate(rows):
        made.add_trial(
            create_trial(
                values=row,
                params={"x": number / 10},
                distributions={"x": FloatDistribution(0.0, 1.0)},
                **given,
            )
        )
    return made


ROWS = [(0.5, 1.0), (0.25, 0.5), (0.75, 0.25), (math.inf, 0.0)]


def test_a_study_of_optuna_is_continued() -> None:
    made = theirs(*ROWS)
    found = import_study(made, max_budget=9, width=2)
    assert found.imported == len(ROWS)
    study = found.study
    criteria = study.session.state.criteria
    assert criteria.objectives == (("objective_0", "minimize"), ("objective_1", "maximize"))
    assert sorted(tuple(each.objectives.values()) for each in study.evaluations) == sorted(ROWS)
    assert {each.rung for each in study.evaluations} == {2}
    assert sorted(each.origin or "" for each in study.evaluations) == [
        f"Optuna study 'theirs', trial {number}" for number in range(len(ROWS))
    ]
    assert sorted(tuple(each.objectives.values()) for each in study.front()) == sorted(
        tuple(trial.values) for trial in made.best_trials
    )
    study.optimize(lambda config, budget: {"objective_0": config["x"], "objective_1": budget})
    study.deepen("preserving")
    study.optimize(lambda config, budget: {"objective_0": config["x"], "objective_1": budget})
    assert study.front()


def test_names_of_metrics() -> None:
    assert import_study(theirs(*ROWS, names=["a", "b"]), max_budget=9).study.front()[0].objectives
    named = import_study(theirs(*ROWS, names=["a", "b"]), max_budget=9, objectives=["c", "d"])
    assert named.study.session.state.criteria.names == ("c", "d")
    single = optuna.create_study()
    single.add_trial(
        create_trial(value=1.0, params={"x": 0.5}, distributions={"x": FloatDistribution(0, 1)})
    )
    named = import_study(single, max_budget=9, objectives=["error"])
    assert named.study.session.state.criteria.objectives == (("error", "minimize"),)
    assert named.study.best.value == 1.0


def test_the_best_fronts_take_scarce_slots_first() -> None:
    rows = [(float(number), -float(number)) for number in reversed(range(6))]
    found = import_study(theirs(*rows), max_budget=3, brackets=1)  # no bracket starts on top
    assert found.imported <= 1
    wide = import_study(theirs(*rows), max_budget=9)
    kept = sorted(each.objectives["objective_0"] for each in wide.study.evaluations)
    assert kept == [float(number) for number in range(len(kept))]
    assert 0 < len(kept) < len(rows)
    waiting = wide.study.session.state.ahead.results  # for the next extension
    assert len(kept) + len(waiting) == wide.imported == len(rows)


def constrained(sampler: str) -> optuna.Study:
    """A study whose sampler or objective has stored constraints."""

    def limits(trial: Any) -> tuple[float, float]:
        return trial.params["x"] - 0.5, -1.0

    kinds: dict[str, Any] = {
        "nsga": optuna.samplers.NSGAIISampler(seed=0, constraints_func=limits),
        "tpe": optuna.samplers.TPESampler(seed=0, constraints_func=limits),
    }
    made = optuna.create_study(directions=["minimize", "minimize"], sampler=kinds[sampler])
    made.optimize(
        lambda trial: (trial.suggest_float("x", 0.0, 1.0), 1 - trial.params["x"]), n_trials=8
    )
    return made


@pytest.mark.parametrize("sampler", ["nsga", "tpe"])
@pytest.mark.filterwarnings("ignore")
def test_constraints_of_optuna_are_bounds_on_metrics(sampler: str) -> None:
    made = constrained(sampler)
    study = import_study(made, max_budget=9, width=4).study
    bounds = (("constraint_0", (None, 0.0)), ("constraint_1", (None, 0.0)))
    assert study.session.state.criteria.constraints == bounds
    assert len(study.evaluations) == 8
    for each in study.evaluations:
        assert each.metrics["constraint_0"] == pytest.approx(each.config["x"] - 0.5)
        assert each.feasible is (each.config["x"] <= 0.5)
    assert sorted(each.config["x"] for each in study.front()) == sorted(
        trial.params["x"] for trial in made.best_trials
    )


def test_named_constraints_and_trials_without_any() -> None:
    made = theirs(*ROWS[:2], system_attrs={"constraints:memory": 0.5})
    made.add_trial(
        create_trial(
            values=[0.0, 0.0], params={"x": 0.9}, distributions={"x": FloatDistribution(0.0, 1.0)}
        )
    )
    found = import_study(made, max_budget=9)
    assert found.study.session.state.criteria.constraints == (("constraint_memory", (None, 0.0)),)
    assert not any(each.feasible for each in found.study.evaluations)
    assert [each.trial for each in found.left_out] == [2]
    assert "has no 'constraint_memory', a metric with bounds" in found.left_out[0].reason


def test_what_cannot_be_imported_is_listed() -> None:
    made = theirs((-math.inf, 0.5), (0.5, 0.5))
    kept: dict[str, Any] = {"params": {"x": 0.9}, "distributions": {"x": FloatDistribution(0, 1)}}
    made.add_trial(create_trial(state=TrialState.PRUNED, **kept))
    made.add_trial(create_trial(state=TrialState.FAIL, **kept))
    found = import_study(made, max_budget=9)
    assert found.imported == 1
    assert [each.reason for each in found.left_out] == [
        "-inf cannot be the value of an evaluation",
        "it has no values",
        "its state is fail",
    ]


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (None, ["a"], "objectives is .'a'.: give a list of 2 different names"),
        (None, ["a", "a"], "give a list of 2 different names"),
        (None, "ab", "give a list of 2 different names"),
        (None, ["a", 3], "give a list of 2 different names"),
        (None, ["a", "loss"], "'loss' cannot be the name of an objective"),
        (["loss", "b"], None, "other than 'loss' and 'value'. Give objectives="),
        (["b", "b"], None, "must be different"),
    ],
)
def test_wrong_names(names: Any, given: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        import_study(theirs(*ROWS, names=names), tmp_path / "a", max_budget=9, objectives=given)
    assert not list(tmp_path.iterdir())


def test_names_of_an_export_are_its_own() -> None:
    written = export(run(), InMemoryStorage())
    with pytest.raises(InputError, match=r"deepband exported .* leave it out"):
        import_study(written, objectives=["a", "b"])
    assert import_study(written, objectives=list(OBJECTIVES)).imported


# Results and configs of one's own


def test_results_with_several_objectives_are_added() -> None:
    study = deepband.open_study(
        space={"x": (0.0, 1.0)}, max_budget=9, objectives=OBJECTIVES, constraints=CONSTRAINTS
    )
    whole = {"error": 0.5, "accuracy": 0.9, "memory": 0.6, "note": "mine"}
    assert study.enqueue({"x": 0.5}) == (0, 0)
    assert study.add_evaluation({"x": 0.125}, 9, whole, origin="a paper") == (2, 0, 2)
    both = [(3, {**whole, "memory": 0.8}), (9, ValueError("broken"))]
    assert study.add_evaluations({"x": 0.25}, both) == [(1, 0, 1), (1, 0, 2)]
    added = {each[:3]: each for each in study.evaluations}
    assert added[2, 0, 2].objectives == {"error": 0.5, "accuracy": 0.9}
    assert added[2, 0, 2].metrics == {"memory": 0.6, "note": "mine"}
    assert [added[key].feasible for key in sorted(added)] == [False, False, True]
    assert added[1, 0, 2].error == "ValueError: broken"
    for wrong, message in (
        (0.5, "return a mapping with 'error', 'accuracy' and 'memory'"),
        ({"error": 0.5, "memory": 0.1}, "has no 'accuracy', an objective"),
        ({"error": 0.5, "accuracy": 0.5}, "has no 'memory', a metric with bounds"),
        ({**whole, "accuracy": math.inf}, "no result can be better"),
        ({**whole, "accuracy": "high"}, "'high'"),
    ):
        with pytest.raises(InputError, match=message):
            study.add_evaluation({"x": 0.75}, 9, wrong)
    assert len(study.evaluations) == 3
    finish(study, measured)
    assert study.session.state.configs[0][0] == {"x": 0.5}
    assert study.front()
