"""The golden cases, cell by cell, through the public ask and tell, in several orders."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from deepband import Job
from driving import finish, open_study

CASES: dict[str, Any] = json.loads((Path(__file__).parent / "golden/deepening.json").read_text())


def objective(losses: dict[str, Any], job: Job) -> object:
    loss = losses[str(job.bracket)][job.index][job.rung]
    return RuntimeError("a failure of the case") if loss is None else float(loss)


def by_cell(jobs: list[Job]) -> dict[str, dict[str, list[int]]]:
    cells: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for job in sorted(jobs, key=lambda job: job[:3]):
        cells[str(job.bracket)].setdefault(str(job.rung), []).append(job.index)
    return cells


@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("name", CASES)
def test_golden_case(name: str, seed: int | None) -> None:
    case = CASES[name]
    order = None if seed is None else random.Random(seed)
    first = case["runs"][0]
    study = open_study(
        eta=case["eta"], min_budget=case["min_budget"], max_budget=first["max_budget"]
    )
    for number, run in enumerate(case["runs"]):
        if number:
            study.deepen(run["strategy"], to=run["max_budget"])
        plan = study.plan()
        assert plan.schedule.top == run["top_rung"]
        assert list(plan.budgets) == pytest.approx(run["budgets"], rel=1e-15)
        sizes = [plan.schedule.start_size(bracket) for bracket in plan.schedule.brackets]
        assert sizes == run["start_sizes"]

        jobs = finish(study, lambda job: objective(case["losses"], job), order)

        assert by_cell(jobs) == run["evaluated"]
        summary = study.runs[number]
        assert summary.evaluations == run["evaluations"]
        assert float(summary.cost) == pytest.approx(run["cost"], rel=1e-12)
        assert float(summary.cost_resumed) == pytest.approx(run["cost_resumed"], rel=1e-12)
        assert study.best is not None
        assert study.best.loss == run["best"]["loss"]


def test_the_golden_file_is_whole() -> None:
    assert len(CASES) == 68
    strategies = {run["strategy"] for case in CASES.values() for run in case["runs"]}
    assert strategies == {None, "discarding", "preserving", "efficient"}
