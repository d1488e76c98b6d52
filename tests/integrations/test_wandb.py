"""The observer for Weights & Biases, in its offline mode: the files of runs are read back."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import deepband
import hostile
from deepband import Study
from deepband.analysis.text import shortened
from deepband.integrations.tracker import measures
from deepband.integrations.wandb import MOST_ERROR, WandbObserver
from driving import wait_until

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(280),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SPACE = {"x": (0.0, 1.0), "kind": ["a", 3, None]}
BLOCK, HEAD = 32768, 7


def train(config: dict[str, Any], budget: float) -> dict[str, float | str]:
    if config["x"] > 0.8:
        raise ValueError("x is\nlarge")
    loss = math.inf if config["x"] > 0.75 else config["x"] / budget
    return {"loss": loss, "accuracy": 1 - config["x"], "word": "no number"}


def open_study(place: Path | None = None) -> Study:
    return deepband.open_study(place, space=SPACE, max_budget=3)


def observer(folder: Path) -> WandbObserver:
    return WandbObserver("mlp", mode="offline", folder=folder)


def records(file: Path) -> Iterator[Any]:
    """The records of a run. They are framed as in a log of LevelDB, after a head of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, parts = file.read_bytes(), HEAD, b""
    while place + HEAD <= len(content):
        room = BLOCK - place % BLOCK
        if room < HEAD:
            place += room
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        parts += content[place + HEAD : place + HEAD + size]
        place += HEAD + size
        if kind in (1, 4):  # complete, or its last part
            yield Record.FromString(parts)
            parts = b""


class Logged:
    """What the files of a folder say about one config."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {}
        self.group = ""
        self.steps: list[dict[str, Any]] = []
        self.error: object = None
        self.ended = False

    def read(self, record: Any) -> None:
        kind = record.WhichOneof("record_type")
        self.ended = kind == "exit"
        if kind == "run":
            self.group = record.run.run_group
            updates = record.run.config.update
            self.config = {each.key: json.loads(each.value_json) for each in updates}
        elif kind == "history":
            items = record.history.item
            named = {each.key or each.nested_key[0]: json.loads(each.value_json) for each in items}
            self.steps.append({**named, "step": record.history.step.num})
        elif kind == "summary":
            for each in record.summary.update:
                if (each.key or each.nested_key[0]) == "error":
                    self.error = json.loads(each.value_json)


def logged(folder: Path) -> dict[str, Logged]:
    """What the runs of each config contain, in the order in which they were written."""
    found: dict[str, Logged] = {}
    for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        name = file.stem.split("-", 2)[2]
        for record in records(file):
            found.setdefault(name, Logged()).read(record)
    return found


def is_written(study: Study, folder: Path) -> bool:
    """Whether the files of runs are complete. A process of Weights & Biases writes them, and may do
    so after a run was finished."""
    found = logged(folder)
    named = {f"{each.bracket}-{each.index}" for each in study.evaluations}
    return named == set(found) and all(run.ended for run in found.values())


def check(study: Study, folder: Path) -> None:
    """The folder contains this study, each step once, and nothing else."""
    wait_until(lambda: is_written(study, folder))
    found = logged(folder)
    expected: dict[str, list[deepband.Evaluation]] = {}
    for each in study.evaluations:
        expected.setdefault(f"{each.bracket}-{each.index}", []).append(each)
    assert set(found) == set(expected)
    for name, evaluations in expected.items():
        run, good = found[name], [each for each in evaluations if each.loss is not None]
        assert run.group == study.session.state.created.study
        assert {name: run.config[name] for name in evaluations[0].config} == evaluations[0].config
        assert [step["step"] for step in run.steps] == [each.rung for each in good]
        for step, each in zip(run.steps, good, strict=True):
            assert {name: step[name] for name in measures(each)} == measures(each)
        error = evaluations[-1].error
        assert run.error == (None if error is None else shortened(error, MOST_ERROR))


def test_a_study_and_its_deepening(tmp_path: Path) -> None:
    study = open_study()
    study.observe(observer(tmp_path))
    study.optimize(train)
    study.deepen("preserving", to=9)
    study.optimize(train)
    check(study, tmp_path)


def test_a_late_or_repeated_observer_logs_nothing_twice(tmp_path: Path) -> None:
    study = open_study()
    study.optimize(train)
    for _ in range(2):
        study.observe(observer(tmp_path))
        check(study, tmp_path)


def test_an_evaluation_that_is_repeated_replaces_its_failure(tmp_path: Path) -> None:
    study = open_study()
    study.observe(observer(tmp_path))
    jobs = study.ask_all()
    study.tell(jobs[0], RuntimeError("on purpose"))
    check(study, tmp_path)
    assert study.retry_failed() == 1
    study.tell_all([(job, 0.5) for job in jobs])
    check(study, tmp_path)


def test_hostile_names(tmp_path: Path) -> None:
    study = deepband.open_study(space=hostile.SPACE, max_budget=1)
    study.observe(observer(tmp_path))
    study.optimize(hostile.objective)
    wait_until(lambda: is_written(study, tmp_path))


def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    """Another one logs what is missing. What was being logged may be there twice, and equal."""
    code = dedent(
        f"""
        import deepband
        from deepband.integrations.wandb import WandbObserver

        study = deepband.open_study("a.study", space={SPACE!r}, max_budget=3)
        study.observe(WandbObserver("mlp", mode="offline", folder="."))
        study.optimize(lambda config, budget: config["x"] / budget)
        """
    )
    # A process tells its children where its own service of Weights & Biases is.
    environment = {name: each for name, each in os.environ.items() if not name.startswith("WANDB")}
    driver = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, start_new_session=True, env=environment
    )
    wait_until(lambda: len(list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))) >= 3)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    with open_study(tmp_path / "a.study") as study:
        study.observe(observer(tmp_path))
        study.optimize(lambda config, budget: config["x"] / budget)
        wait_until(lambda: is_written(study, tmp_path))
        found = logged(tmp_path)
        for each in study.evaluations:
            steps = found[f"{each.bracket}-{each.index}"].steps
            losses = {step["loss"] for step in steps if step["step"] == each.rung}
            assert losses == {each.loss}
