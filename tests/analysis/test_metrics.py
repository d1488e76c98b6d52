"""Metrics: which values that objectives return beside the loss are shown, and in which order."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Job
from deepband.analysis.export import jsonl
from deepband.analysis.metrics import main_metric, metric_names, numeric
from driving import SPACE, finish, open_study


def test_only_finite_numbers_are_shown_in_the_order_of_the_objective() -> None:
    metrics = {"name": "a", "z": 1, "on": True, "a": 0.5, "big": 10**400, "inf": "inf", "c": [1]}
    assert list(numeric(metrics).items()) == [("z", 1), ("a", 0.5)]
    assert numeric({"low": -math.inf, "not": math.nan}) == {}
    assert numeric(None) == {}


def test_a_study_without_evaluations_or_metrics_has_no_main_metric() -> None:
    study = open_study()
    assert (main_metric(study.session.state), metric_names(study.session.state)) == (None, [])
    finish(study, lambda job: job.config["x"])
    assert (main_metric(study.session.state), metric_names(study.session.state)) == (None, [])


@pytest.mark.parametrize("maximize", [False, True])
def test_the_main_metric_is_the_first_number_of_the_best_evaluation(maximize: bool) -> None:
    study = open_study(maximize=maximize)

    def objective(job: Job) -> dict[str, Any]:
        score = -job.config["x"] if maximize else job.config["x"]
        return {"note": "text", "loss": score, "zeal": 1 - score, "accuracy": 2.0}

    finish(study, objective)
    assert main_metric(study.session.state) == "zeal"
    assert metric_names(study.session.state) == ["zeal", "accuracy"]


@pytest.mark.parametrize("workers", [1, 2])
def test_infinities_and_nan_stay_numbers(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "a.study"
    metrics = {"nan": math.nan, "text": "nan", "list": [math.inf, {"low": -math.inf}]}
    with deepband.open_study(path, space=SPACE, max_budget=3) as study:
        study.optimize(lambda config, budget: {"loss": 1.0, **metrics}, workers=workers)
        before = study.evaluations
    after = deepband.open_study(path).evaluations
    assert [repr(each) for each in after] == [repr(each) for each in before]
    assert all(each.metrics == metrics for each in after)
    lines = map(json.loads, jsonl(study.session.state))
    expected = {"nan": "nan", "text": "nan", "list": ["inf", {"low": "-inf"}]}
    assert all(line["metrics"] == expected for line in lines)


def test_the_order_of_metrics_survives_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with deepband.open_study(path, space=SPACE, max_budget=3) as study:
        finish(study, lambda job: {"zeal": 1, "loss": job.config["x"], "accuracy": 2})
    with deepband.open_study(path) as study:
        assert main_metric(study.session.state) == "zeal"
        assert metric_names(study.session.state) == ["zeal", "accuracy"]


def test_names_include_metrics_that_the_best_evaluation_does_not_have() -> None:
    study = open_study()
    finish(study, lambda job: {"loss": job.config["x"], f"on_{job.rung}": job.rung})
    assert metric_names(study.session.state) == ["on_0", "on_1", "on_2"]
