"""Plots of several objectives: they show the rows, and other plots show objectives or refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from matplotlib import pyplot

import deepband
import hostile
from deepband import SeveralObjectivesError
from deepband.analysis.fronts import front_chart, volume_chart
from deepband.interfaces.cli import main
from deepband.plots import KINDS, kinds_of
from deepband.plots.image_file import save
from driving import finish, open_study
from trade_off import THREE, TWO, evaluate, finished


@pytest.fixture(autouse=True)
def no_display() -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def data(line: Any) -> list[tuple[float, float]]:
    return list(zip(*map(list, line.get_data()), strict=True))


def test_the_front_plot_shows_its_rows() -> None:
    study = finished(TWO, {"memory_mb": (None, 800)})
    study.deepen("preserving")
    finish(study, evaluate)
    for by in ("run", "rung"):
        ax = study.plot.front(by=by)
        rows = [row for row in front_chart(study.session.state, by).rows if row.points]
        assert [data(line) for line in ax.lines] == [list(row.points) for row in rows]
        assert all(line.get_drawstyle() == "steps-post" for line in ax.lines)
        assert ax.get_xlabel() == "error (smaller is better)"
        assert ax.get_ylabel() == "speed (larger is better)"
        legend = ax.get_legend()
        assert legend is not None
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts[0].startswith("infeasible (")
        assert f"{rows[0].name} ({len(rows[0].points)})" in texts


def test_the_front_of_two_of_three_objectives_has_no_line() -> None:
    ax = finished(THREE).plot.front(objectives=("size", "speed"))
    assert ax.lines[0].get_linestyle() == "None"
    assert ax.get_title() == "Front after each run, two of several objectives"
    assert ax.get_xlabel() == "size (smaller is better)"


def test_steps_follow_the_direction_of_the_horizontal_axis() -> None:
    ax = finished(THREE).plot.front(objectives=("speed", "error"))
    assert ax.get_xlabel() == "speed (larger is better)"
    study = finished({"speed": "maximize", "error": "minimize"})
    assert study.plot.front().lines[0].get_drawstyle() == "steps-pre"


def test_the_hypervolume_plot_shows_its_rows() -> None:
    study, other = finished(), finished(seed=3)
    ax = study.plot.hypervolume(other)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    for line, each in zip(solid, (study, other), strict=True):
        found = volume_chart(each.session.state, study.reference())
        assert data(line)[:-1] == [(step.spent, step.volume) for step in found.steps]
    ax = study.plot.hypervolume(reference={"error": 2.0, "speed": 0.0})
    assert "up to error 2, speed 0" in ax.get_title()
    assert data(ax.lines[0])[-1][1] == pytest.approx(study.hypervolume({"error": 2, "speed": 0}))


def test_other_plots_show_the_first_objective_or_refuse() -> None:
    study = finished()
    for kind in ("curves", "parallel", "importance", "stability", "brackets"):
        ax = getattr(study.plot, kind)()
        assert ax.get_title()
    assert study.plot.curves().get_ylabel() == "error (smaller is better)"
    assert study.plot.curves(metric="speed").get_ylabel() == "speed (larger is better)"
    with pytest.raises(SeveralObjectivesError, match=r"no incumbent.*`front` and `hypervolume`"):
        study.plot.incumbent()
    with pytest.raises(SeveralObjectivesError):
        open_study().plot.incumbent(study)
    assert kinds_of(study.session.state).count("front") == 1
    assert kinds_of(open_study().session.state) == KINDS


@pytest.mark.parametrize("constraints", [None, {"memory_mb": (None, -1.0)}])
def test_a_study_with_nothing_to_show(constraints: Any) -> None:
    study = open_study(objectives=TWO, constraints=constraints)
    if constraints:
        finish(study, evaluate_x)
    for kind in kinds_of(study.session.state):
        getattr(study.plot, kind)().figure.canvas.draw()
    assert "feasible" in study.plot.front().texts[0].get_text()


def evaluate_x(job: deepband.Job) -> dict[str, float]:
    return {"error": job.config["x"], "speed": 1.0, "memory_mb": 1.0}


def test_hostile_names_of_objectives_are_drawn(tmp_path: Path) -> None:
    names = [name for name in hostile.NAMES if name.isprintable() and name.isascii()]
    names = [*names[:2], "$a_b^", "<b>", "_hidden"]
    study = open_study(objectives=dict.fromkeys(names, "minimize"))
    finish(study, lambda job: dict.fromkeys(names, job.config["x"]))
    for kind in kinds_of(study.session.state):
        save(study, kind, tmp_path / f"{kind}.svg")


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["front"], 0, "Wrote"),
        (["front", "--by", "rung", "--objectives", "speed,error"], 0, "Wrote"),
        (["hypervolume", "--reference", "error=2,speed=0"], 0, "Wrote"),
        (["curves", "--metric", "speed"], 0, "Wrote"),
        (["incumbent"], 1, "there is no incumbent"),
        (["curves", "--by", "rung"], 2, "--by is for the kind front."),
        (["front", "--reference", "error=1"], 2, "--reference is for the kind hypervolume."),
        (["front", "--metric", "speed"], 2, "--metric is for the kinds curves,"),
        (["front", "--with", "other.study"], 2, "--with is for the kinds incumbent, hypervolume."),
        (["front", "--objectives", "speed"], 2, "give the names of two"),
        (["hypervolume", "--reference", "error=1"], 2, "a number for each objective"),
        (["hypervolume", "--reference", "error"], 2, "such as error=1."),
        (["hypervolume", "--reference", "error=nan"], 2, "'nan' is not a finite number"),
    ],
)
def test_the_command_draws_several_objectives(
    arguments: list[str], code: int, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished(path=Path("two.study")).close()
    ended = CliRunner().invoke(main, ["plot", "two.study", *arguments])
    assert (ended.exit_code, wanted in " ".join(ended.output.split())) == (code, True), ended.output
