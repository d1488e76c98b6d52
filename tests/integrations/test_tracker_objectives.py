"""Several objectives, constraints and rejected configs in MLflow and TensorBoard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Evaluation, Study
from deepband.core.criteria import read_criteria
from deepband.core.facts import Fact
from deepband.integrations.mlflow import MlflowObserver
from deepband.integrations.tensorboard import TensorBoardObserver
from deepband.integrations.tracker import Tracker, criteria_settings, is_rejected, measures

OBJECTIVES = {"error": "minimize", "accuracy": "maximize"}
CONSTRAINTS = {"memory": (None, 0.5)}
with_real_stores = [
    pytest.mark.heavy,
    pytest.mark.timeout(280),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def train(config: dict[str, Any], budget: float) -> dict[str, float]:
    if config["x"] > 0.8:
        raise ValueError("x is large")
    return {"error": config["x"] / budget, "accuracy": budget, "memory": config["x"]}


def precheck(config: dict[str, Any], budget: float) -> bool:
    return bool(config["x"] > 0.1 and (budget < 9 or config["x"] > 0.2))


def run(study: Study) -> None:
    """Two runs, with failed, infeasible and rejected configs."""
    study.optimize(train, precheck=precheck, first_failures=0)
    study.deepen("preserving")
    study.optimize(train, precheck=precheck, first_failures=0)


def open_study(**settings: Any) -> Study:
    given = {"objectives": OBJECTIVES, "constraints": CONSTRAINTS, **settings}
    return deepband.open_study(**{"space": {"x": (0.0, 1.0)}, "max_budget": 3, **given})


class Measuring:
    """An observer that keeps the numbers of every evaluation."""

    def __init__(self) -> None:
        self.tracker, self.found = Tracker(), dict[Any, dict[str, float]]()

    def observe(self, facts: Sequence[Fact]) -> None:
        self.tracker.follow(facts)
        self.tracker.log_pending(self.log)

    def log(self, evaluations: list[Evaluation]) -> None:
        for each in evaluations:
            self.found[each[:3]] = measures(each, self.tracker.constrained)


@pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning")
def test_the_numbers_of_an_evaluation() -> None:
    study, observer = open_study(), Measuring()
    study.observe(observer)
    run(study)
    kinds = set()
    assert observer.found.keys() == {each[:3] for each in study.evaluations}
    for each in study.evaluations:
        found = observer.found[each[:3]]
        if each.error:
            assert found == {}
            kinds.add("failed")
        elif each.origin == "precheck":
            assert found == {"feasible": 0.0}
            kinds.add("rejected")
        else:
            assert found == {
                "metrics.memory": each.metrics["memory"],
                "budget": each.budget,
                "feasible": float(each.feasible),
                "objectives.error": each.objectives["error"],
                "objectives.accuracy": each.objectives["accuracy"],
            }
            assert list(found)[-1] == "objectives.accuracy"
            kinds.add(str(each.feasible))
    assert kinds == {"failed", "rejected", "True", "False"}


def test_a_single_objective_keeps_its_names() -> None:
    plain = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3, maximize=True)
    plain.optimize(lambda config, budget: config["x"])
    for each in plain.evaluations:
        assert list(measures(each)) == ["budget", "value", "loss"]
        assert measures(each)["loss"] == -measures(each)["value"]
    named = open_study(objectives={"accuracy": "maximize"}, constraints=None)
    named.optimize(lambda config, budget: {"accuracy": config["x"]})
    for each in named.evaluations:
        assert list(measures(each)) == ["budget", "objectives.accuracy", "value", "loss"]
        assert measures(each)["objectives.accuracy"] == each.value


def test_what_is_optimised_as_parameters() -> None:
    assert criteria_settings(read_criteria(True, None, None)) == {"maximize": True}
    bounds = {"memory": (None, 500), "gap": (0.25, None), "share": (0, 1)}
    assert criteria_settings(read_criteria(None, OBJECTIVES, bounds)) == {
        "objective error": "minimize",
        "objective accuracy": "maximize",
        "constraint memory": "at most 500",
        "constraint gap": "at least 0.25",
        "constraint share": "from 0 to 1",
    }
    one = criteria_settings(read_criteria(None, {"accuracy": "maximize"}, None))
    assert one == {"maximize": True, "objective accuracy": "maximize"}


class TestRealStores:
    pytestmark = with_real_stores

    @pytest.fixture(autouse=True)
    def _no_telemetry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        monkeypatch.setenv("DO_NOT_TRACK", "true")

    @pytest.mark.parametrize("constraints", [CONSTRAINTS, None])
    def test_mlflow(self, constraints: Any, tmp_path: Path) -> None:
        place = f"sqlite:///{tmp_path}/mlflow.db"
        with open_study(storage=tmp_path / "a.study", constraints=constraints) as study:
            study.observe(MlflowObserver("mlp", tracking_uri=place))
            run(study)
            self.check_mlflow(study, place)
        with deepband.open_study(tmp_path / "a.study") as study:
            study.observe(MlflowObserver("mlp", tracking_uri=place))
            study.deepen("preserving")
            study.optimize(train, precheck=precheck, first_failures=0)
            self.check_mlflow(study, place)

    def check_mlflow(self, study: Study, place: str) -> None:
        from mlflow import MlflowClient

        client = MlflowClient(place)
        experiment = client.get_experiment_by_name("deepband")
        runs = {each.info.run_name: each for each in client.search_runs([experiment.experiment_id])}
        parent, constrained = runs.pop("mlp"), bool(study.session.state.criteria.constraints)
        assert parent.data.params["objective error"] == "minimize"
        assert parent.data.params["objective accuracy"] == "maximize"
        assert parent.data.params.get("constraint memory") == ("at most 0.5" * constrained or None)
        assert "maximize" not in parent.data.params
        last = {each[:2]: each for each in study.evaluations}
        assert runs.keys() == {f"{bracket}-{index}" for bracket, index in last}
        for (bracket, index), each in last.items():
            tags = runs[f"{bracket}-{index}"].data.tags
            ever = [e for e in study.evaluations if e[:2] == each[:2] and is_rejected(e)]
            tagged = constrained or ever
            assert tags.get("deepband.feasible") == (str(each.feasible).lower() if tagged else None)
            assert tags.get("deepband.rejected") == (
                str(is_rejected(each)).lower() if ever else None
            )
            assert runs[f"{bracket}-{index}"].info.status == (
                "FAILED" if each.error else "FINISHED"
            )
            assert "loss" not in runs[f"{bracket}-{index}"].data.metrics
        for name in ("objectives.error", "objectives.accuracy", "budget", "feasible"):
            found = {
                (key, metric.step): metric.value
                for key, each in runs.items()
                for metric in client.get_metric_history(each.info.run_id, name)
            }
            count = sum(
                len(client.get_metric_history(each.info.run_id, name)) for each in runs.values()
            )
            assert count == len(found)  # no step twice
            assert found == {
                (f"{each.bracket}-{each.index}", each.rung): min(numbers[name], sys.float_info.max)
                for each in study.evaluations
                if name in (numbers := measures(each, constrained))
            }

    def test_tensorboard(self, tmp_path: Path) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        study = open_study()
        study.observe(TensorBoardObserver(tmp_path / "logs"))
        run(study)
        study.observe(TensorBoardObserver(tmp_path / "logs"))
        places = {each[:2] for each in study.evaluations}
        for bracket, index in places:
            folder = tmp_path / "logs" / f"{bracket}-{index}"
            events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
            found = {
                (event.step, name): event.value
                for name in events.Tags()["scalars"]
                for event in events.Scalars(name)
            }
            wanted = {
                (each.rung, name): pytest.approx(number)
                for each in study.evaluations
                if each[:2] == (bracket, index)
                for name, number in measures(each, True).items()
            }
            assert found == wanted
