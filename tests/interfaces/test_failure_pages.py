"""Failures, worker output and metrics on the page and in the report."""

from __future__ import annotations

import json
from typing import Any

import pytest

import deepband
import hostile
from deepband import FailedEvaluationsWarning, Job, Study
from deepband.interfaces.dashboard.evaluation_list import Query, listing
from deepband.interfaces.dashboard.failure_list import MOST_GROUPS, MOST_JOBS, failure_list
from deepband.interfaces.report.html_report import make_report
from driving import finish, open_study
from serving import serving

SPACE = {"x": (0.0, 1.0), "layers": (1, 8)}


def train(config: dict[str, Any], budget: int) -> dict[str, float]:
    print(f"trained with {config['layers']} <b>layers</b>")
    if config["layers"] > 4:
        raise MemoryError(f"{config['layers']} <i>layers</i>")
    return {"loss": config["x"], "zeal": budget, "accuracy": 1 - config["x"]}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    place = tmp_path_factory.mktemp("failures") / "a.study"
    warned = pytest.warns(FailedEvaluationsWarning)
    with deepband.open_study(place, space=SPACE, max_budget=9) as study, warned:
        study.optimize(train, workers=2, first_failures=0)
    return deepband.open_study(place)


def test_the_page_lists_groups_of_failures(study: Study) -> None:
    (group,) = study.failures()
    found = failure_list(study.session.state)
    assert (found["failed"], found["others"]) == (group.count, 0)
    (shown,) = found["groups"]
    assert shown["error"] == group.error
    assert shown["count"] == len(shown["jobs"]) + shown["more"]
    assert shown["messages"] == group.messages
    assert shown["traceback"] == group.traceback


def test_the_page_bounds_what_it_lists() -> None:
    study = open_study(max_budget=81)
    words = iter(range(10**6))
    finish(study, lambda job: KeyError(chr(97 + next(words) % 25) + "\x1b"))
    found = failure_list(study.session.state)
    assert len(found["groups"]) == MOST_GROUPS
    assert found["others"] == 25 - MOST_GROUPS
    assert all(len(group["jobs"]) <= MOST_JOBS for group in found["groups"])
    assert "\x1b" not in json.dumps(found, ensure_ascii=False)


def test_the_event_and_the_page_of_a_config_hold_failures_and_output(study: Study) -> None:
    place = study.session.files.with_suffix("")
    bracket, index, rung = study.failures()[0].jobs[0]
    with serving(place) as server:
        _, overview = next(server.events(server.study()))
        assert overview["failures"]["failed"] == study.failures().total
        page = server.ask(f"{server.study()}/configs/{bracket}/{index}")[1].decode()
    text = hostile.check_harmless(page).text
    assert "MemoryError" in text
    assert f"On rung {rung}" in text
    assert f"trained with {study.failures()[0].configs[0]['layers']} <b>layers</b>" in text


@pytest.mark.usefixtures("without_images")
def test_the_report_groups_failures_with_traceback_and_output(study: Study) -> None:
    (group,) = study.failures()
    outline = hostile.check_self_contained(make_report(study))
    assert f"{group.count} of 22 evaluations failed." in outline.text
    assert f"{group.count} \N{MULTIPLICATION SIGN} {group.error} (numbers vary)" in outline.text
    assert [tag for tag, _ in outline.tags].count("details") == 2
    assert "raise MemoryError" in outline.text
    assert f"trained with {group.configs[0]['layers']} <b>layers</b>" in outline.text


@pytest.mark.usefixtures("without_images")
def test_the_report_has_a_column_for_each_metric(study: Study) -> None:
    text = hostile.check_self_contained(make_report(study)).text
    assert "losszealaccuracybudget" in text.replace("\n", "")
    best = study.best_at()
    assert f"{best.metrics['accuracy']:.6g}" in text


def test_the_table_has_metrics_that_can_be_sorted(study: Study) -> None:
    state = study.session.state
    found = listing(state, Query())
    assert found["metrics"] == ["zeal", "accuracy"]
    first = study.evaluations[0]
    wanted = [f"{first.metrics[name]:.6g}" for name in found["metrics"]] if first.metrics else None
    assert found["rows"][0]["metrics"] == (wanted or ["", ""])
    for descending in (False, True):
        rows = listing(state, Query(sort="m1", descending=descending))["rows"]
        numbers = [float(row["metrics"][1]) for row in rows if row["metrics"][1]]
        assert numbers == sorted(numbers, reverse=descending)
        assert rows[-1]["metrics"] == ["", ""]  # missing values come last
    with pytest.raises(deepband.InputError, match="there is no column 'm2'"):
        listing(state, Query(sort="m2"))


@pytest.mark.heavy
def test_hostile_metrics_and_errors_are_harmless_in_a_report() -> None:
    study = open_study(max_budget=9)

    def objective(job: Job) -> Any:
        name = hostile.NAMES[job.index % len(hostile.NAMES)]
        return RuntimeError(name) if job.index % 2 else {"loss": job.index, name: 0.5}

    finish(study, objective)
    hostile.check_self_contained(make_report(study))
