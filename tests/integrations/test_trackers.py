"""Trackers with their real stores, and a notebook with a real kernel."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import deepband
import hostile
from deepband import Evaluation, Observer, ObserverWarning, Study
from deepband.analysis.run_names import name_of
from deepband.core import hyperband
from deepband.core.facts import Fact, JobFinished
from deepband.integrations.mlflow import MOST_NAME, MlflowObserver, acceptable
from deepband.integrations.tensorboard import TensorBoardObserver
from deepband.integrations.tracker import measures

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(280),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    # What fails on purpose is what trackers log; whether a call warns depends on its jobs.
    pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SPACE = {"x": (0.0, 1.0), "kind": ["a", 3, None]}


@pytest.fixture(scope="module", autouse=True)
def no_telemetry() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("DO_NOT_TRACK", "true")
        yield


def train(
    config: dict[str, Any], budget: float, context: deepband.Context
) -> dict[str, float | str]:
    if config["x"] > 0.8:
        raise ValueError("x is\nlarge")
    for epoch in range(1, int(budget) + 1):
        context.report(epoch, config["x"] / epoch)
    loss = math.inf if config["x"] > 0.75 else config["x"] / budget
    return {"loss": loss, "accuracy": 1 - config["x"], "word": "no number"}


def open_study(place: Path | None = None, **settings: Any) -> Study:
    return deepband.open_study(place, **{"space": SPACE, "max_budget": 3, **settings})


def deepen(study: Study, objective: Any = train) -> None:
    study.optimize(objective)
    study.deepen("preserving")
    study.optimize(objective)


def by_config(study: Study) -> dict[tuple[int, int], list[Evaluation]]:
    found: dict[tuple[int, int], list[Evaluation]] = {}
    for each in study.evaluations:
        found.setdefault((each.bracket, each.index), []).append(each)
    return found


# MLflow


def store(folder: Path) -> str:
    return f"sqlite:///{folder}/mlflow.db"


def runs_of(folder: Path) -> tuple[Any, list[Any], list[Any]]:
    """A client, the runs of studies and those of configs."""
    from mlflow import MlflowClient

    client = MlflowClient(store(folder))
    found = client.get_experiment_by_name("deepband")
    runs = list(client.search_runs([found.experiment_id], max_results=1000))
    parents = [run for run in runs if "deepband.bracket" not in run.data.tags]
    return client, parents, [run for run in runs if run not in parents]


def check_mlflow(study: Study, folder: Path) -> None:
    """The store holds this study, each step once, and nothing else."""
    client, (parent,), children = runs_of(folder)
    assert parent.info.status == ("FINISHED" if study.done else "RUNNING")
    assert parent.data.params["eta"] == "3"
    assert parent.data.tags["deepband.run"] == name_of(study.session.state.run)
    expected = by_config(study)
    assert Counter(run.info.run_name for run in children) == Counter(
        f"{bracket}-{index}" for bracket, index in expected
    )
    for run in children:
        key = int(run.data.tags["deepband.bracket"]), int(run.data.tags["deepband.index"])
        check_child(client, run, expected[key])
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.tags["deepband.study"] == study.session.state.created.study


def check_child(client: Any, run: Any, evaluations: list[Evaluation]) -> None:
    config = evaluations[0].config
    if len(config) == len(SPACE):  # plain names
        assert run.data.params == {name: str(value) for name, value in config.items()}
    assert len(run.data.params) == len(config)
    failed = evaluations[-1].loss is None
    assert run.info.status == ("FAILED" if failed else "FINISHED")
    assert ("deepband.error" in run.data.tags) is failed
    for name in ("loss", "value", "budget", "metrics.accuracy"):
        history = client.get_metric_history(run.info.run_id, name)
        found = sorted((metric.step, metric.value) for metric in history)
        assert found == [
            (each.rung, min(each_measures[name], sys.float_info.max))
            for each in evaluations
            for each_measures in [measures(each)]
            if name in each_measures
        ]


@pytest.mark.parametrize("maximize", [False, True])
def test_mlflow_holds_a_study(maximize: bool, tmp_path: Path) -> None:
    study = open_study(maximize=maximize, max_budget=9)

    def objective(config: dict[str, Any], budget: float) -> dict[str, Any]:
        if config["x"] > 0.8:
            raise ValueError("x is\nlarge")
        return {"loss": config["x"] * budget, "accuracy": 0.5}

    study.observe(MlflowObserver("mlp", tracking_uri=store(tmp_path)))
    deepen(study, objective)
    check_mlflow(study, tmp_path)
    assert any(each.loss is None for each in study.evaluations)
    (parent,) = runs_of(tmp_path)[1]
    assert parent.info.run_name == "mlp"


def test_mlflow_knows_width_and_brackets(tmp_path: Path) -> None:
    study = open_study(width=2, brackets=1)
    study.observe(MlflowObserver("wide", tracking_uri=store(tmp_path)))
    study.optimize(train, max_cost=5)
    running = study.ask_all()
    study.extend("efficient", width=3, brackets=2, unfinished=True)
    study.tell_all([(job, job.config["x"]) for job in running])
    study.optimize(train)
    check_mlflow(study, tmp_path)
    _, (parent,), _ = runs_of(tmp_path)
    assert parent.data.params["first width"] == "2"
    assert parent.data.params["first brackets"] == "1"
    assert parent.data.tags["deepband.run"] == "run 1, max_budget 3, width 3, brackets 2, efficient"


def test_mlflow_is_completed_by_a_late_or_repeated_observer(tmp_path: Path) -> None:
    study = open_study()
    deepen(study)
    for _ in range(2):
        observer = MlflowObserver("mlp", tracking_uri=store(tmp_path))
        with study.copy() as copy:
            copy.observe(observer)
            check_mlflow(copy, tmp_path)
    study.observe(observer)
    study.observe(observer)
    study.deepen("efficient")
    study.optimize(train)
    check_mlflow(study, tmp_path)


class Killer:
    """Kills its process when a result is recorded that no tracker has received yet."""

    def __init__(self, results: int) -> None:
        self.left = results

    def observe(self, facts: Sequence[Fact]) -> None:
        self.left -= sum(isinstance(fact, JobFinished) for fact in facts)
        if self.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def test_after_a_restart_in_the_middle(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[1] + '/../support']\n"
        "from pathlib import Path\n"
        "import test_trackers as t\n"
        "t.track(t.open_study(Path(sys.argv[2])), Path(sys.argv[3]), t.Killer(4))\n"
    )
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", code, here, str(place), str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with open_study(place) as study:
        assert len(study.evaluations) == 4
        assert len(runs_of(tmp_path)[2]) == 3
        track(study, tmp_path)
        check_mlflow(study, tmp_path)
        check_tensorboard(study, tmp_path / "logs")


def track(study: Study, folder: Path, *before: Killer) -> None:
    """Both runs of a study, with both trackers."""
    mlflow = MlflowObserver("mlp", tracking_uri=store(folder))
    observers: list[Observer] = [*before, mlflow, TensorBoardObserver(folder / "logs")]
    for observer in observers:
        study.observe(observer)
    deepen(study)


def test_mlflow_when_failures_are_reset(tmp_path: Path) -> None:
    study = open_study()
    study.observe(MlflowObserver("mlp", tracking_uri=store(tmp_path)))
    jobs = study.ask_all()
    study.tell(jobs[0], RuntimeError("no"))
    (child,) = runs_of(tmp_path)[2]
    assert (child.info.status, "deepband.error" in child.data.tags) == ("FAILED", True)
    assert study.retry_failed() == 1
    study.tell_all([(job, {"loss": 0.5, "accuracy": 1}) for job in jobs])
    check_mlflow(study, tmp_path)


def test_what_mlflow_refuses_now_is_logged_later(tmp_path: Path) -> None:
    study = open_study()
    study.observe(MlflowObserver("mlp", tracking_uri=store(tmp_path)))
    study.tell(*told(study))
    client, _, (child,) = runs_of(tmp_path)
    client.delete_run(child.info.run_id)
    jobs = study.ask_all()
    study.tell_all([(job, {"loss": 0.5, "accuracy": 1}) for job in jobs])
    with pytest.warns(ObserverWarning, match="MlflowObserver failed with MlflowException"):
        study.optimize(train)
    assert study.done
    client.restore_run(child.info.run_id)
    study.deepen("discarding")
    study.optimize(train)
    check_mlflow(study, tmp_path)


def told(study: Study) -> tuple[Any, Any]:
    job = study.ask()
    return job, {"loss": 0.1, "accuracy": 1}


def test_mlflow_with_hostile_names(tmp_path: Path) -> None:
    study = deepband.open_study(space=hostile.SPACE, max_budget=3)
    name = "\n".join(hostile.NAMES)
    study.observe(MlflowObserver(name, tracking_uri=store(tmp_path)))
    deepen(study, hostile.objective)
    check_mlflow(study, tmp_path)
    names = [acceptable(name) for name in hostile.NAMES]
    assert len(set(names)) == len(hostile.NAMES)
    _, (parent,), (child, *_) = runs_of(tmp_path)
    assert set(child.data.params) == set(names)
    assert len(parent.info.run_name) <= MOST_NAME


def test_names_that_mlflow_takes_are_kept() -> None:
    for name in ("lr", "adam/beta 1", "layer.0:size", "größe"):
        assert acceptable(name) == name
    for name in ("/lr", "a//b", "..", ".", "", "a/../b", "x" * (MOST_NAME + 1), "a\n"):
        assert re.fullmatch(r"\w*-[0-9a-f]{8}", acceptable(name))


def test_many_parameters(tmp_path: Path) -> None:
    study = deepband.open_study(space={f"x{n}": (0.0, 1.0) for n in range(230)}, max_budget=1)
    study.observe(MlflowObserver("wide", tracking_uri=store(tmp_path)))
    study.optimize(lambda config, budget: {"loss": 1.0, **{f"m{n}": n for n in range(1100)}})
    _, _, (child, *_) = runs_of(tmp_path)
    assert len(child.data.params) == 230
    assert len(child.data.metrics) == 1103


# TensorBoard


def check_tensorboard(study: Study, folder: Path) -> None:
    """The folder holds this study, each step once, and nothing else."""
    expected = by_config(study)
    names = {place.name for place in folder.iterdir()} - {"study.txt"}
    assert names == {f"{bracket}-{index}" for bracket, index in expected}
    for (bracket, index), evaluations in expected.items():
        check_folder(folder / f"{bracket}-{index}", evaluations)


def check_folder(folder: Path, evaluations: list[Evaluation]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    good = [each for each in evaluations if each.loss is not None]
    scalars = set(events.Tags()["scalars"])
    for name in ("loss", "value", "budget"):
        assert (name in scalars) is bool(good)
        found = points(events, name) if name in scalars else []
        assert found == [(each.rung, pytest.approx(measures(each)[name])) for each in good]
    for each in good:
        if each.curve:
            expected = [(step, pytest.approx(loss)) for step, loss in each.curve]
            assert points(events, f"curve/{each.rung}") == expected
    content = events.PluginTagToContent("hparams")["_hparams_/session_start_info"]
    session = HParamsPluginData.FromString(content).session_start_info
    assert len(session.hparams) == len(evaluations[0].config)
    if "x" in evaluations[0].config:
        assert session.hparams["x"].number_value == evaluations[0].config["x"]


def points(events: Any, name: str) -> list[Any]:
    return [(event.step, event.value) for event in events.Scalars(name)]


@pytest.mark.parametrize("maximize", [False, True])
def test_tensorboard_holds_a_study(maximize: bool, tmp_path: Path) -> None:
    study = open_study(max_budget=9, maximize=maximize)
    study.observe(TensorBoardObserver(tmp_path / "deep" / "logs"))
    deepen(study, lambda config, budget: config["x"] * budget)
    check_tensorboard(study, tmp_path / "deep" / "logs")


def test_tensorboard_is_completed_by_a_late_or_repeated_observer(tmp_path: Path) -> None:
    study = open_study()
    deepen(study)
    for _ in range(2):
        study.observe(TensorBoardObserver(tmp_path))
        check_tensorboard(study, tmp_path)
    written = {place: place.stat().st_mtime_ns for place in tmp_path.rglob("events*")}
    study.observe(TensorBoardObserver(tmp_path))
    assert {place: place.stat().st_mtime_ns for place in tmp_path.rglob("events*")} == written
    assert list(tmp_path.rglob("*.part")) == []


def test_tensorboard_refuses_the_folder_of_another_study(tmp_path: Path) -> None:
    study, other = open_study(), open_study(seed=1)
    study.observe(TensorBoardObserver(tmp_path))
    study.optimize(train)
    with pytest.warns(ObserverWarning, match="contains another study: give each its own folder"):
        other.observe(TensorBoardObserver(tmp_path))
    other.optimize(train)
    check_tensorboard(study, tmp_path)


def test_tensorboard_with_hostile_names(tmp_path: Path) -> None:
    study = deepband.open_study(space=hostile.SPACE, max_budget=3)
    study.observe(TensorBoardObserver(tmp_path / "logs"))
    deepen(study, hostile.objective)
    check_tensorboard(study, tmp_path / "logs")
    allowed = r"logs|study\.txt|\d+-\d+|events\.out\.tfevents\.\d{10}"
    for place in tmp_path.rglob("*"):
        assert re.fullmatch(allowed, place.name)


def test_work_ahead_is_logged_when_its_run_starts(tmp_path: Path) -> None:
    study = open_study()
    study.observe(MlflowObserver("mlp", tracking_uri=store(tmp_path)))
    study.observe(TensorBoardObserver(tmp_path / "logs"))
    jobs = study.session.reserve(list(hyperband.jobs_ahead(study.session.state)))
    study.tell_all([(job, {"loss": 0.5, "accuracy": 1}) for job in jobs[::2]])
    assert max(job.rung for job in jobs[::2]) > study.session.state.schedule.top
    study.optimize(train)
    check_mlflow(study, tmp_path)
    study.deepen("efficient")
    study.optimize(train, workers=2)
    check_mlflow(study, tmp_path)
    check_tensorboard(study, tmp_path / "logs")


def test_work_ahead_that_a_wider_run_does_not_take_in_is_logged_later(tmp_path: Path) -> None:
    study = open_study()
    study.observe(TensorBoardObserver(tmp_path))
    study.optimize(train)
    jobs = study.session.reserve(list(hyperband.jobs_ahead(study.session.state)))
    study.tell_all([(job, {"loss": 0.5, "accuracy": 1}) for job in jobs])
    study.widen()
    assert study.session.state.ahead.results
    study.optimize(train)
    check_tensorboard(study, tmp_path)
    study.deepen("efficient")
    assert not study.session.state.ahead.results
    study.optimize(train)
    check_tensorboard(study, tmp_path)


# Notebooks and texts

CELLS = [
    """
    import deepband

    def train(config, budget, context):
        context.report(1, config["x"])
        return config["x"] / budget

    study = deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=3)
    study
    """,
    "study.optimize(train, progress=False)",
    "study.quote('efficient')",
    """
    study.deepen("preserving")
    study.optimize(train, workers=2, progress=True)
    """,
    "study.to_pandas()",
    "study.to_polars()",
]


TABLES = {
    "study.best": "loss ",
    "study.plan()": "Plan: ",
    "study.runs": "Runs",
    "study.explain(0, 0)": "Why it was or was not promoted",
    "study.advice()": " at 9: ",
}
"""What is displayed as a table, and part of its caption."""


def test_a_notebook(tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    texts = [dedent(cell) for cell in (*CELLS, *TABLES)]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in texts])
    paths = {"cwd": str(tmp_path), "env": os.environ | {"IPYTHONDIR": str(tmp_path / "ipython")}}
    client = NotebookClient(book, timeout=240, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(**paths)
    outputs = [cell.outputs for cell in book.cells]
    first, ran, quote, progress, *frames = outputs[: len(CELLS)]
    for output, caption in zip(outputs[len(CELLS) :], TABLES.values(), strict=True):
        assert caption in html(output).split("</caption>")[0]
    assert "run 0, max_budget 3, 5 jobs open" in html(first)
    assert ran == []
    assert "deepening &#x27;efficient&#x27;" in html(quote)
    assert re.search("run 1 <progress .* 100 %\n16 of 16 evaluations(.|\n)*done in", html(progress))
    evaluations = len(deepband.open_study(tmp_path / "a.study").evaluations)
    assert all(f"{evaluations}" in html(frame) for frame in frames)


def html(outputs: list[Any]) -> str:
    (output,) = outputs
    return str(output["data"]["text/html"])


def test_the_examples_of_the_docs(tmp_path: Path) -> None:
    """All blocks of the page in order, as one program, twice."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "trackers.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text("\n".join(blocks))
    for _ in range(2):
        subprocess.run([sys.executable, "example.py"], cwd=tmp_path, check=True)
    _, parents, _ = runs_of(tmp_path)
    assert len(parents) == 1
