"""The page, the report, notebooks and the progress of studies with several objectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deepband
import hostile
from deepband import Progress
from deepband.errors import InputError
from deepband.execution.progress_text import one_line
from deepband.interfaces.dashboard.config_page import config_page
from deepband.interfaces.dashboard.evaluation_list import Query, listing
from deepband.interfaces.dashboard.front_charts import objectives
from deepband.interfaces.dashboard.overview import overview
from deepband.interfaces.dashboard.study_row import study_row
from deepband.interfaces.report.html_report import make_report
from driving import finish, open_study
from serving import serving
from trade_off import FAILING, THREE, TWO, finished

LIMIT = {"memory_mb": (None, 500.0)}


def rejecting(**settings: Any) -> deepband.Study:
    """A study in which configs are rejected."""
    study = open_study(**settings)
    study.optimize(
        lambda config, budget: {"loss": config["x"], "error": config["x"], "speed": budget},
        precheck=lambda config, budget: config["x"] < 0.5,
        progress=False,
    )
    return study


def test_the_page_shows_the_front_and_the_hypervolume() -> None:
    study = finished(TWO, LIMIT)
    found = overview(study.session.state, frozenset())
    assert found["best"] is None
    shown = found["objectives"]
    assert shown["names"] == ["error", "speed"]
    assert [row["values"] for row in shown["rows"]] == [
        [f"{value:.6g}" for value in each.objectives.values()] for each in study.front()
    ]
    assert shown["chart"]["larger"] == [False, True]
    assert shown["hypervolume"]["steps"][-1][2] == pytest.approx(study.hypervolume())
    errors = {each.objectives.get("error") for each in study.evaluations}
    drawn = {value for curve in found["curves"] for _, value in curve["points"]}
    assert drawn
    assert drawn <= errors


def test_the_page_of_one_objective_is_as_before() -> None:
    study = open_study()
    finish(study, lambda job: job.config["x"])
    found = overview(study.session.state, frozenset())
    assert (found["objectives"], found["judged"]) == (None, False)
    assert found["best"]["value"] == study.best.value


def test_nothing_is_on_the_front() -> None:
    found = objectives(finished(TWO, {"memory_mb": (None, -1.0)}).session.state)
    assert found is not None
    assert (found["rows"], found["hypervolume"]["steps"]) == ([], [])
    assert found["note"] == "No evaluation is feasible and has a finite result yet."


def test_the_list_has_a_column_for_each_objective_and_never_calls_them_failed() -> None:
    study = finished(TWO, LIMIT)
    state = study.session.state
    found = listing(state, Query())
    assert found["metrics"][:2] == ["error", "speed"]
    for row, each in zip(found["rows"], study.evaluations, strict=False):
        assert row["failed"] == (each.index == FAILING)
        assert row["verdict"] == (None if each.feasible or row["failed"] else "infeasible")
        assert (
            row["metrics"][:2] == [f"{value:.6g}" for value in each.objectives.values()]
            or row["failed"]
        )
    speeds = [float(row["metrics"][1]) for row in listing(state, Query(sort="m1"))["rows"][:5]]
    assert speeds == sorted(speeds)
    counts = {name: listing(state, Query(outcome=name))["total"] for name in ("", "good", "failed")}
    infeasible = listing(state, Query.read({"outcome": "infeasible"}))["total"]
    assert counts[""] == counts["good"] + counts["failed"] + infeasible
    assert infeasible == sum(each.error is None and not each.feasible for each in study.evaluations)
    with pytest.raises(InputError, match="infeasible"):
        Query.read({"outcome": "bad"})


@pytest.mark.parametrize("several", [False, True])
def test_rejected_configs_are_named_so(several: bool) -> None:
    study = rejecting(**({"objectives": TWO} if several else {}))
    state = study.session.state
    rejected = next(each for each in study.evaluations if each.origin == "precheck")
    page = config_page(state, rejected.bracket, rejected.index)
    assert page is not None
    assert page["columns"] == (("error", "speed") if several else ("loss",))
    assert page["rows"][0]["values"][0] == "rejected before training"
    assert "a rejected config" in page["verdicts"][0]
    row = next(each for each in listing(state, Query())["rows"] if each["verdict"] == "rejected")
    assert (row["value"], row["failed"]) == (None, False)


def test_the_page_of_a_config_has_a_column_for_each_objective() -> None:
    study = finished(TWO, LIMIT)
    each = next(each for each in study.evaluations if not each.feasible and each.error is None)
    page = config_page(study.session.state, each.bracket, each.index)
    assert page is not None
    first, second = page["rows"][0]["values"]
    assert first == f"{each.objectives['error']:.6g} (infeasible)"
    assert second == f"{each.objectives['speed']:.6g}"
    failed = config_page(study.session.state, 0, FAILING)
    assert failed is not None
    assert failed["rows"][0]["values"] == ["failed", ""]


def test_the_list_of_studies_shows_the_front() -> None:
    study = finished()
    row = study_row(study.session.state, 0, 0.0)
    assert row["best"] == f"{len(study.front())} evaluations"
    assert (row["metric_name"], row["best_budget"]) == ("hypervolume", "")


@pytest.mark.parametrize("names", [TWO, THREE])
def test_the_server_answers(names: dict[str, str], tmp_path: Path) -> None:
    finished(names, LIMIT, tmp_path / "a.study").close()
    with serving(tmp_path / "a.study") as server:
        study = server.study()
        for path in ("evaluations?sort=m0", "configs/0/0", "importance"):
            assert server.ask(f"{study}/{path}")[0].status == 200
        assert server.ask("/static/front.js")[0].status == 200
        kind, shown = next(server.events(study))
        assert kind == "overview"
        assert shown["objectives"]["names"] == list(names)
        assert shown["objectives"]["chart"]["projected"] == (len(names) > 2)


def test_the_report_shows_the_front_and_its_plots() -> None:
    study = finished(TWO, LIMIT)
    outline = hostile.check_self_contained(make_report(study))
    assert "Front on any budget" in outline.text
    assert f"{len(study.front())} evaluations that no other one dominates" in outline.text
    for each in study.front():
        assert f"{each.objectives['error']:.6g}" in outline.text
    images = [attributes["alt"] or "" for tag, attributes in outline.tags if tag == "img"]
    assert [alt.split(":")[0] for alt in images] == [
        *("brackets", "curves", "front", "hypervolume", "parallel", "importance", "stability")
    ]
    assert "Smallest loss" not in outline.text
    assert "infeasible" in outline.text


def test_the_report_lists_only_feasible_configs_as_the_best() -> None:
    study = open_study(constraints=LIMIT)
    finish(study, lambda job: {"loss": -job.config["x"], "memory_mb": 1000 * job.config["x"]})
    text = hostile.check_self_contained(make_report(study)).text
    assert f"Smallest loss on any budget: {study.best.value:.6g}" in text
    top = [each for each in study.evaluations if each.rung == study.best_at().rung]
    for each in top:
        assert (f"{each.value:.6g}" in text) == each.feasible


def test_a_notebook_shows_the_size_of_the_front() -> None:
    study = finished()
    assert f"front of {len(study.front())} evaluations" in study._repr_html_()
    assert "front of 0 evaluations" in open_study(objectives=TWO)._repr_html_()


def test_the_progress_shows_the_front_and_rejections() -> None:
    seen: list[Progress] = []
    study = open_study(objectives=TWO)
    study.optimize(
        lambda config, budget: {"error": config["x"], "speed": -((config["x"] - 0.2) ** 2)},
        precheck=lambda config, budget: config["x"] < 0.6,
        progress=seen.append,
    )
    last = seen[-1]
    rejected = sum(each.origin == "precheck" for each in study.evaluations)
    assert (last.front, last.best, last.rejected) == (len(study.front()), None, rejected)
    assert last.evaluations + rejected == len(study.evaluations)
    assert f", {rejected} rejected, front of {last.front} evaluation" in one_line(last)
    study.deepen("preserving")
    study.optimize(
        lambda config, budget: {"error": config["x"] / 9, "speed": 1.0}, progress=seen.append
    )
    assert (seen[-1].front, seen[-1].rejected) == (len(study.front()), 0)


def test_the_progress_of_one_objective_is_as_before() -> None:
    seen: list[Progress] = []
    study = open_study()
    study.optimize(lambda config, budget: config["x"], progress=seen.append)
    assert (seen[-1].front, seen[-1].rejected) == (None, 0)
    assert "front" not in one_line(seen[-1])
