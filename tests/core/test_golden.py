"""The golden cases, cell by cell, through the public ask and tell, in several orders."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deepband import Job
from driving import finish, open_study

GOLDEN = Path(__file__).parents[1] / "golden"
CASES: dict[str, Any] = json.loads((GOLDEN / "deepening.json").read_text())
WIDENING: dict[str, Any] = json.loads((GOLDEN / "widening.json").read_text())
FRUGAL: dict[str, Any] = json.loads((GOLDEN / "frugal.json").read_text())
"""Our own, made by the oracle: `golden/make_frugal.py`."""


def objective(losses: dict[str, Any], job: Job) -> object:
    loss = losses[str(job.bracket)][job.index][job.rung]
    return RuntimeError("a failure of the case") if loss is None else float(loss)


def by_cell(jobs: list[Job]) -> dict[str, dict[str, list[int]]]:
    cells: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for job in sorted(jobs, key=lambda job: job[:3]):
        cells[str(job.bracket)].setdefault(str(job.rung), []).append(job.index)
    return cells


@pytest.mark.parametrize("seed", [None, 0, pytest.param(1, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("name", [*CASES, *WIDENING, *FRUGAL])
def test_golden_case(name: str, seed: int | None) -> None:
    case = {**CASES, **WIDENING, **FRUGAL}[name]
    order = None if seed is None else random.Random(seed)
    first = case["runs"][0]
    study = open_study(
        eta=case["eta"],
        min_budget=case["min_budget"],
        max_budget=first["max_budget"],
        width=first.get("width"),
        integer_budgets=False,
    )
    for number, run in enumerate(case["runs"]):
        if number:
            target = {name: run[name] for name in ("max_budget", "width") if name in run}
            study.extend(run["strategy"], **target)
        plan = study.plan()
        assert plan.schedule.top == run["top_rung"]
        if "budgets" in run:
            assert list(plan.budgets) == pytest.approx(run["budgets"], rel=1e-15)
        sizes = [plan.schedule.start_size(bracket) for bracket in plan.schedule.brackets]
        assert sizes == run["start_sizes"]

        jobs = finish(study, lambda job: objective(case["losses"], job), order)

        assert by_cell(jobs) == run["evaluated"]
        summary = study.runs[number]
        assert summary.evaluations == run["evaluations"]
        assert float(summary.cost) == pytest.approx(run["cost"], rel=1e-12)
        assert float(summary.cost_resumed) == pytest.approx(run["cost_resumed"], rel=1e-12)
        assert study.best.loss == run["best"]["loss"]


def test_the_golden_file_is_whole() -> None:
    assert len(CASES) == 68
    strategies = {run["strategy"] for case in CASES.values() for run in case["runs"]}
    assert strategies == {None, "discarding", "preserving", "efficient"}


def test_so_is_that_of_wider_runs() -> None:
    assert len(WIDENING) == 42
    assert {run["width"] for case in WIDENING.values() for run in case["runs"]} == {1, 2, 3, 4}


def test_so_is_our_own() -> None:
    assert len(FRUGAL) == 91
    first, frugal = FRUGAL["by-hand"]["runs"]
    assert (first["evaluated"], first["cost"]) == (
        {"0": {"0": [0, 1], "1": [1]}, "1": {"1": [0, 1]}},
        8,
    )
    assert frugal["evaluated"] == {"0": {"2": [1]}, "1": {"2": [0]}}
    assert (frugal["cost"], frugal["cost_resumed"]) == (8, 4)
    fills = 0
    for case in FRUGAL.values():
        for before, run in pairwise(case["runs"]):
            fills += before["max_budget"] == run["max_budget"]
            if run["strategy"] == "frugal":
                assert all(
                    list(rungs) == [str(run["top_rung"])] for rungs in run["evaluated"].values()
                )
    assert fills == 36
