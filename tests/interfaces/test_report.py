"""The report to send around: whole, safe, and without anything from elsewhere."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deepband
import hostile
from deepband import Study
from deepband.analysis.quote import quote_table
from deepband.analysis.text import shortened
from deepband.interfaces.cli import main
from deepband.interfaces.report.html_report import make_report, write_report
from deepband.plots import KINDS
from driving import extended, finish, noisy, open_study


def deepened(**settings: Any) -> Study:
    study = open_study(space={"lr": (1e-4, 1e-1, "log"), "kind": ["a", "b"]}, **settings)
    finish(study, noisy(1, failures=0.2))
    study.deepen("preserving")
    finish(study, noisy(1, failures=0.2))
    return study


def rows(text: str) -> list[str]:
    """The lines of a page without the space between their cells."""
    return ["".join(line.split()) for line in text.splitlines()]


def quoted(quote: deepband.Quote) -> str:
    """The row of a quote, without space."""
    return "".join("".join(quote_table([quote])[1]).split())


def test_a_report_contains_everything() -> None:
    study = deepened()
    outline = hostile.check_self_contained(make_report(study))
    headings = [tag for tag, _ in outline.tags if tag == "h2"]
    assert len(headings) == 7
    assert f"Smallest loss on any budget: {study.best.value:.6g} with" in outline.text
    assert "Best on rung 3, the highest rung with a finite result" in outline.text
    for strategy in ("discarding", "preserving", "efficient", "frugal"):
        assert quoted(study.quote(strategy)) in rows(outline.text)
    for run in study.runs:
        assert f"{float(run.cost):,.10g}" in outline.text
    images = [attributes for tag, attributes in outline.tags if tag == "img"]
    assert len(images) == len(KINDS)
    assert all(attributes["alt"] for attributes in images)
    assert "9/9" in outline.text
    assert "failed on purpose" in outline.text


@pytest.mark.usefixtures("without_images")
def test_a_report_of_a_study_that_was_extended_in_every_direction() -> None:
    study = extended()
    text = hostile.check_self_contained(make_report(study)).text
    assert (
        "Run 3 is done,\nmax_budget 27, width 2, brackets 2, deepened by efficient to 27." in text
    )
    assert "widening" in text
    assert quoted(study.quote("efficient", width=3)) in rows(text)
    assert "bracket 1" in text
    assert "bracket 2" not in text
    assert text.count("(unfinished)") == 1
    wider = open_study()
    finish(wider, noisy(1))
    wider.widen(to=3)
    text = hostile.check_self_contained(make_report(wider)).text
    assert "max_budget 9, width 3, widened by efficient to width 3." in text


@pytest.mark.parametrize("objective", [None, lambda job: RuntimeError("no"), lambda job: math.inf])
def test_a_report_without_results(objective: Any) -> None:
    study = open_study(max_budget=3)
    if objective:
        finish(study, objective)
    text = hostile.check_self_contained(make_report(study)).text
    assert "No evaluation has a finite result yet" in text
    assert ("Available when the run is done" in text) == (objective is None)


@pytest.mark.usefixtures("without_images")
def test_names_that_differ_only_at_their_ends_have_a_column_each() -> None:
    name = "the_learning_rate_of_the_second_encoder_layer_of_the_image_tower_"
    study = open_study(space={f"{name}{end}": (0.0, 1.0) for end in "ab"}, max_budget=3)
    finish(study, noisy(1))
    report = make_report(study)
    for end in "ab":
        assert f"<bdi>{shortened(name + end, 26)}</bdi></th>" in report


def test_hostile_names_are_text(tmp_path: Path) -> None:
    place = tmp_path / "<script>alert(8)</script>.study"
    study = hostile.make(Path(str(place).replace("/script", "")))
    page = make_report(study)
    outline = hostile.check_self_contained(page)
    assert "<script>alert(1)</script>" in outline.text
    assert not set(page) & {"\x1b", "\x07", "\0", "\u202e", "\u2066"}


@pytest.mark.usefixtures("without_images")
def test_long_names_with_the_same_beginning_have_columns_of_their_own() -> None:
    names = ["x" * 60 + "a", "x" * 60 + "b"]
    study = deepband.open_study(space=dict.fromkeys(names, (0.0, 1.0)), max_budget=1)
    finish(study, lambda job: {"loss": 0.5, **dict.fromkeys(names, 0.25)})
    best = make_report(study).split("<caption>Best on rung")[1].partition("</table>")[0]
    assert best.count("<th ") == 1 + 2 + 3 + 2  # loss, metrics, place, parameters
    assert best.count("<td") == 1 + 2 + 3 + 2


@pytest.mark.heavy
def test_what_is_maximised_is_not_called_a_loss() -> None:
    study = open_study(maximize=True)
    finish(study, lambda job: job.config["x"])
    text = make_report(study).partition("</style>")[2]
    assert "The best value on any budget" in text
    assert "Values from rung to rung" in text
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    assert not [each for each in captions if "loss" in each.lower()]
    assert "The best loss on any budget" in make_report(deepened())


@pytest.mark.usefixtures("without_images")
def test_a_single_evaluation_is_singular() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=1)
    finish(study, lambda job: float("nan"))
    text = hostile.check_self_contained(make_report(study)).text
    assert "1 config, 1 evaluation, cost 1 (1 when" in text
    assert "1 of 1 evaluation failed." in text


@pytest.mark.usefixtures("without_images")
def test_costs_are_upper_bounds_if_equal_configs_share_results() -> None:
    study = deepband.open_study(space={"x": ["a", "b"]}, max_budget=9, reuse_identical=True)
    finish(study, lambda job: float(job.config["x"] == "a"))
    text = hostile.check_self_contained(make_report(study)).text
    assert "17 configs, at most 22 evaluations, cost at most 78 (" in text
    cost = study.quote("efficient").cost
    assert cost.low == 0
    assert f"at most {float(cost.high):,.10g}" in text
    assert f"0-{float(cost.high):,.10g}" not in text


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=3) as study:
        finish(study, noisy(1))
    result = CliRunner().invoke(main, ["report", "a.study"])
    assert result.exit_code == 0, result.output
    hostile.check_self_contained(Path("a.html").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.study"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["none.study"], "there is no study"),
        (["a.study", "-o", "nowhere/r.html"], "does not exist"),
        (["a.study", "-o", "a.study"], "belongs to the study"),
        (["a.study", "-o", "b.study"], "must end in .html"),
        (["a.study", "-o", "b.html"], "is a study or another database"),
    ],
)
def test_wrong_use(
    given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.study", "b.html"):
        deepband.open_study(name, space={"x": (0.0, 1.0)}, max_budget=3).close()
    result = CliRunner().invoke(main, ["report", *given])
    assert result.exit_code == 2
    assert deepband.open_study("b.html").max_budget == 3
    assert message in result.output


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    study = open_study(max_budget=1)
    (tmp_path / "r.html").mkdir()
    with pytest.raises(deepband.InputError, match="cannot be written"):
        write_report(study, tmp_path / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_a_report_follows_links_and_respects_the_umask(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    before = os.umask(0o077)
    try:
        write_report(open_study(max_budget=1), tmp_path / "link.html")
    finally:
        os.umask(before)
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").stat().st_mode & 0o777 == 0o600


@pytest.mark.heavy
def test_a_plot_that_cannot_be_drawn_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr("deepband.plots.lines.draw_curves", broken)
    with pytest.warns(UserWarning, match=r"curves.*too large"):
        outline = hostile.check_self_contained(make_report(deepened()))
    assert "The plot curves could not be drawn" in outline.text
    assert sum(tag == "img" for tag, _ in outline.tags) == len(KINDS) - 1
