"""Golden cases with several objectives, constraints and rejected configs, through `optimize`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Study

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "objectives.json").read_text()
)
"""Our own, made by the oracle: `golden/make_objectives.py`."""
SPACE = {"bracket": (0, 9), "index": (0, 999)}


class Numbered:
    """A sampler whose configs say which they are, so that objectives and prechecks know."""

    learns = False

    def draw(
        self,
        space: object,
        observations: object,
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: object = (),
    ) -> list[dict[str, Any]]:
        return [{"bracket": bracket, "index": index} for index in indices]


class Given:
    """The objective and the precheck of a case."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.names = [*case["objectives"], *case["constraints"]]
        self.trained: list[tuple[int, int, int]] = []

    def values(self, config: dict[str, Any], budget: float) -> Any:
        rung = [self.case["eta"] ** k for k in range(9)].index(budget)
        key = config["bracket"], config["index"], rung
        self.trained.append(key)
        return self.case["results"][str(key[0])][key[1]][rung]

    def train(self, config: dict[str, Any], budget: float) -> dict[str, float]:
        values = self.values(config, budget)
        if values is None:
            raise RuntimeError("a failure of the case")
        return dict(zip(self.names, map(float, values), strict=True))

    def accepts(self, config: dict[str, Any], budget: float) -> bool:
        accepted = bool(self.values(config, budget) != "rejected")
        if accepted:
            self.trained.pop()  # the objective comes next
        return accepted


def evaluated(study: Study, run: int) -> dict[str, dict[str, list[int]]]:
    cells: dict[str, dict[str, list[int]]] = {}
    for each in sorted(study.evaluations, key=lambda each: (each.bracket, each.rung, each.index)):
        if each.run == run:
            rungs = cells.setdefault(str(each.bracket), {})
            rungs.setdefault(str(each.rung), []).append(each.index)
    return cells


@pytest.mark.filterwarnings("ignore::deepband.errors.FailedEvaluationsWarning")
@pytest.mark.parametrize("name", CASES)
def test_golden_case(name: str) -> None:
    case = CASES[name]
    given, first = Given(case), case["runs"][0]
    study = deepband.open_study(
        space=SPACE,
        eta=case["eta"],
        max_budget=first["max_budget"],
        objectives=case["objectives"],
        constraints=case["constraints"],
        sampler=Numbered(),
    )
    for number, run in enumerate(case["runs"]):
        if number:
            width = None if run["strategy"] == "frugal" else run["width"]
            study.extend(run["strategy"], max_budget=run["max_budget"], width=width)
        study.optimize(given.train, precheck=given.accepts, first_failures=0)
        assert evaluated(study, number) == run["evaluated"]
        assert float(study.runs[number].cost) == run["cost"]
        found = [[each.bracket, each.index, each.rung] for each in study.front()]
        assert found == run["front"]
    assert len(given.trained) == len(set(given.trained)) == len(study.evaluations)
    rejected = [each for each in study.evaluations if each.origin == "precheck"]
    assert bool(rejected) == ("rejected" in name)
    assert not any(each.feasible or each.error for each in rejected)


def test_the_golden_file_is_whole() -> None:
    assert len(CASES) == 80
    strategies = {run["strategy"] for case in CASES.values() for run in case["runs"]}
    assert strategies == {None, "discarding", "preserving", "efficient", "frugal"}
    assert {run["width"] for case in CASES.values() for run in case["runs"]} == {1, 2, 3}
    assert {len(case["objectives"]) for case in CASES.values()} == {1, 2, 3}
