"""The key figures of a study: what each shows, and when it is left out."""

from __future__ import annotations

import pytest

import deepband
from deepband.analysis.key_figures import KeyFigure, key_figures, seconds_left
from deepband.analysis.status import status_of
from driving import finish, noisy, open_study


def figures(study: deepband.Study, running: int = 0) -> dict[str, KeyFigure]:
    state = study.session.state
    return {each.key: each for each in key_figures(state, status_of(state, running))}


def test_a_new_study() -> None:
    found = figures(open_study())
    assert list(found) == ["best", "progress", "time", "evaluations", "cost"]
    assert found["best"].value == "none"
    assert found["progress"].value == "0 %"
    assert found["progress"].detail == "0 of 22 evaluations, 0 of 78 units"
    assert found["time"].value == "unknown"
    assert found["cost"].value == "0 units"


def test_a_finished_study_has_no_time_left() -> None:
    study = open_study(maximize=True)
    finish(study, lambda job: {"loss": 0.5, "accuracy": 0.25, "epochs": 3})
    found = figures(study)
    assert found.keys().isdisjoint({"time", "highest"})
    assert (found["best"].label, found["best"].value) == ("best value", "0.5")
    assert (found["metric"].label, found["metric"].value) == ("accuracy", "0.25")
    assert (found["progress"].value, found["progress"].share) == ("100 %", 1.0)
    assert found["cost"].detail == "no evaluation recorded its time"


def test_the_best_of_the_highest_budget_is_shown_if_it_is_another_one() -> None:
    study = open_study()
    finish(study, lambda job: float(job.budget))
    found, top = figures(study), study.best_at()
    assert found["best"].value == "1"
    assert (found["highest"].label, found["highest"].value) == ("best on budget 9", "9")
    place = f"the highest budget, bracket {top.bracket}, index {top.index}; study.best_at()"
    assert found["highest"].detail == place


def test_failures_are_counted() -> None:
    study = open_study()
    finish(study, noisy(1, failures=0.3))
    failed = sum(each.error is not None for each in study.evaluations)
    assert figures(study)["evaluations"].detail == f"{failed} failed"


@pytest.mark.parametrize(("workers", "detail"), [(0, "with 1 worker; nothing is"), (4, "with 4 w")])
def test_the_time_left_is_the_rest_at_the_measured_pace(workers: int, detail: str) -> None:
    study = open_study()
    study.optimize(lambda config, budget: config["x"], max_cost=12)
    state = study.session.state
    status = status_of(state, workers)
    rate = sum(each.seconds or 0.0 for each in study.evaluations) / 12
    expected = rate * float(status.left) / max(workers, 1)
    assert seconds_left(state, max(workers, 1)) == pytest.approx(expected)
    found = figures(study, workers)
    assert found["time"].value.startswith("about ")
    assert found["time"].detail.startswith(detail)
    assert found["progress"].detail.endswith("12 of 78 units")
    assert "per unit" in found["cost"].detail


def test_progress_of_an_extension_counts_what_is_reused() -> None:
    study = open_study()
    finish(study, noisy(1))
    study.deepen("efficient")
    found = figures(study)["progress"]
    assert found.label == "progress of run 1"
    assert found.detail == "22 of 69 evaluations, 78 of 423 units"
    finish(study, noisy(1))
    assert figures(study)["progress"].value == "100 %"
