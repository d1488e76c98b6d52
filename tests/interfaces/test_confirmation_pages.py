"""Confirmations on the page and in the report."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import deepband
import hostile
from deepband import Context, Study
from deepband.analysis.confirmations import confirmation_notes, confirmation_table
from deepband.interfaces.dashboard import overview as page
from deepband.interfaces.report import html_report
from deepband.interfaces.report.html_report import make_report
from driving import open_study
from serving import serving

TITLE = "Confirmed with other seeds"


def train(config: dict[str, Any], budget: float, context: Context) -> float:
    noise = random.Random(context.seed).random()
    if noise < 0.05:
        raise ValueError("unlucky")
    return float(config["x"]) + noise / 10


def searched(place: Path | None = None, **settings: Any) -> Study:
    study = deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9, **settings)
    study.optimize(lambda config, budget: config["x"])
    return study


def confirmed_part(study: Study) -> dict[str, Any]:
    found: dict[str, Any] = page.overview(study.session.state, frozenset())["confirmed"]
    return found


def flat(row: list[str]) -> str:
    """The cells of a row as they follow each other in a page."""
    return "".join(row)


def test_the_page_has_the_rows_of_the_study() -> None:
    study = searched()
    assert confirmed_part(study)["rows"] == []
    study.confirm(train, top=3, seeds=30, first_failures=0)
    found = confirmed_part(study)
    assert [found["header"], *found["rows"]] == confirmation_table(study.confirmations)
    assert found["notes"] == confirmation_notes(study.confirmations)
    assert found["more"] == 0
    assert any("overlap" in note for note in found["notes"])
    assert any("failed" in row[-1] for row in found["rows"])


def test_an_open_page_receives_new_repetitions(tmp_path: Path) -> None:
    study = searched(tmp_path / "a.study")
    with serving(tmp_path / "a.study") as server:
        events = server.events(server.study())
        assert next(events)[1]["confirmed"]["rows"] == []
        study.confirm(train, top=2, seeds=3, first_failures=0)
        rows = confirmation_table(study.confirmations)[1:]
        assert any(overview["confirmed"]["rows"] == rows for _, overview in events)


@pytest.mark.usefixtures("without_images")
def test_the_report_has_the_rows_of_the_study() -> None:
    study = searched()
    assert TITLE not in make_report(study)
    study.confirm(train, top=3, seeds=30, first_failures=0)
    text = hostile.check_self_contained(make_report(study)).text
    assert TITLE in text
    for row in confirmation_table(study.confirmations):
        assert flat(row) in text
    assert " ".join(confirmation_notes(study.confirmations)) in text
    assert "more: study.confirmations" not in text


@pytest.mark.usefixtures("without_images")
def test_long_lists_are_cut() -> None:
    study = searched(width=8)
    study.confirm(lambda config, budget, context: config["x"], top=25, seeds=1)
    count = len(study.confirmations.configs)
    found, text = confirmed_part(study), make_report(study)
    assert len(found["rows"]) == page.MOST_CONFIRMED == html_report.MOST_CONFIRMED < count
    assert found["more"] == count - page.MOST_CONFIRMED
    assert f"And {found['more']} more: study.confirmations lists all." in text


@pytest.mark.usefixtures("without_images")
def test_values_of_any_size_can_be_shown() -> None:
    study = open_study()
    study.optimize(lambda config, budget: config["x"])
    values = iter([1.7e308, 1.7e308, -1.7e308, 1.6e308, 1.7e308, -1.7e308])
    study.confirm(lambda config, budget, context: next(values), top=2, seeds=3)
    found = confirmed_part(study)
    assert "-inf to inf" in {row[6] for row in found["rows"]}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert TITLE in make_report(study)
