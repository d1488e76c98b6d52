"""Plots: they show the rows, and take whatever a study holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

import deepband
import hostile
import preloaded
from deepband import Study, UnknownNameError
from deepband.analysis import chart_data
from deepband.analysis.cells import occupied_cells
from deepband.analysis.learning_curves import prediction
from deepband.interfaces.cli import main
from deepband.plots import KINDS, OF_METRICS
from deepband.system.installation import install_command
from driving import extended, finish, noisy, open_study

SPACE = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 8), "kind": ["a", "b"]}


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def deepened(failures: float = 0.1, **settings: Any) -> Study:
    study = open_study(space=SPACE, max_budget=27, **settings)
    finish(study, noisy(1, failures))
    study.deepen("preserving")
    finish(study, noisy(1, failures))
    return study


def data(line: Any) -> tuple[list[float], list[float]]:
    x, y = line.get_data()
    return list(x), list(y)


def test_every_plot_has_a_title_and_says_what_its_axes_are() -> None:
    study = deepened()
    for kind in KINDS:
        ax = getattr(study.plot, kind)()
        assert isinstance(ax, Axes)
        assert ax.get_title()
        ax.figure.canvas.draw()
        if kind not in ("brackets", "parallel"):  # whose ticks are words
            assert ax.get_xlabel()
        if kind in ("curves", "incumbent", "stability", "predictions"):
            assert ax.get_ylabel()
        if kind in ("brackets", "curves", "incumbent", "predictions"):
            assert ax.get_legend()


def test_brackets_show_every_evaluation_once() -> None:
    study = deepened()
    ax = study.plot.brackets()
    dots = [part for part in ax.collections if isinstance(part, PathCollection)]
    places = [place for part in dots for place in np.asarray(part.get_offsets())]
    assert len(places) == len(study.evaluations)
    lines = [part for part in ax.collections if isinstance(part, LineCollection)]
    promoted = sum(cell.promoted for cell in occupied_cells(study.session.state))
    assert sum(len(part.get_segments()) for part in lines) == promoted


def test_brackets_of_many_are_bars() -> None:
    study = open_study(max_budget=243)
    finish(study, noisy(1))
    ax = study.plot.brackets()
    texts = {text.get_text() for text in ax.texts}
    assert {"243", "81"} <= texts  # in bracket 0, and how many were promoted


def test_the_incumbent_shows_the_rows_of_all_studies() -> None:
    study, other = deepened(), deepened(seed=3)
    ax = study.plot.incumbent(other)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(solid) == 2
    for line, each in zip(solid, (study, other), strict=True):
        found = chart_data.incumbent(each.session.state)
        x, y = data(line)
        assert x == [*(step.spent for step in found.steps), found.spent]
        assert y[:-1] == [step.result.loss for step in found.steps]
    marks = [line for line in ax.lines if line.get_marker() == "v"]
    assert len(marks) == 4  # a deepening each, in both ways of counting
    legend = ax.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(set(texts)) == 4


def test_curves_and_incumbent_are_in_the_users_sign() -> None:
    study = deepened(failures=0, maximize=True)
    for ax in (study.plot.curves(), study.plot.incumbent()):
        assert "value" in ax.get_ylabel()
    assert study.plot.curves().get_title() == "Values from rung to rung"
    assert "variance of the value" in study.plot.importance().get_xlabel()
    (line, *_) = study.plot.incumbent().lines
    assert data(line)[1][-1] == study.best.value


def with_metrics(place: Path | None = None) -> Study:
    study = deepband.open_study(place, space=SPACE, max_budget=27)
    finish(
        study,
        lambda job: {"loss": job.config["lr"] / job.budget, "$acc": -job.config["layers"], "b": 1},
    )
    return study


def test_metrics_are_drawn_instead_of_losses() -> None:
    study = with_metrics()
    for kind in OF_METRICS:
        ax = getattr(study.plot, kind)(metric="$acc")
        ax.figure.canvas.draw()
    assert study.plot.curves(metric="$acc").get_ylabel() == r"\$acc"
    assert study.plot.curves(metric="$acc").get_title() == r"\$acc from rung to rung"
    incumbent = study.plot.incumbent(metric="$acc")
    assert incumbent.get_ylabel() == r"\$acc, of the best loss so far"
    assert data(incumbent.lines[0])[1][-1] == study.best.metrics["$acc"]
    assert r"variance of the \$acc" in study.plot.importance(metric="$acc").get_xlabel()
    (colours, *_) = study.plot.parallel(metric="$acc").collections
    known = {each.metrics["$acc"] for each in study.evaluations}
    drawn = colours.get_array()
    assert drawn is not None
    assert set(drawn) <= known


@pytest.mark.parametrize("kind", OF_METRICS)
def test_an_unknown_metric_is_named_with_those_that_exist(kind: str) -> None:
    with pytest.raises(UnknownNameError, match=r"choose from '\$acc', 'b'"):
        getattr(with_metrics().plot, kind)(metric="accuracy")


def test_the_command_draws_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with_metrics(tmp_path / "a.study").close()
    done = CliRunner().invoke(main, ["plot", "a.study", "incumbent", "--metric", "$acc"])
    assert done.exit_code == 0
    assert (tmp_path / "incumbent.png").exists()


def test_bands_are_those_of_predictions() -> None:
    study = deepened(failures=0, maximize=True)
    ax = study.plot.predictions(most=3)
    rows = prediction.bands(study.session.state, 3)
    medians = [data(line) for line in ax.lines if line.get_linestyle() == "--"]
    assert [row.predicted[-1].budget for row in rows] == [243, 243, 243]
    assert [y[-1] for _, y in medians] == [row.predicted[-1].value for row in rows]
    for row in rows:
        for each in row.predicted:
            assert each == study.predict(each.bracket, each.index, each.budget)
            assert each.interval() == study.predict(row.bracket, row.index, 243).interval()
    assert "value" in ax.get_ylabel()
    assert len(ax.collections) == 2 * len(rows)


def test_curves_say_when_they_are_not_all() -> None:
    study = deepened()
    assert study.plot.curves().get_title() == "Losses from rung to rung"
    assert "the 5 of" in study.plot.curves(most=5).get_title()


def test_the_star_is_the_best_of_the_study() -> None:
    study = open_study(max_budget=9)
    finish(study, lambda job: 1.0)  # of equal losses, that with the largest budget
    (star,) = (line for line in study.plot.curves().lines if line.get_marker() == "*")
    assert data(star) == ([study.best.budget], [1.0])


def test_a_plot_on_given_axes_makes_no_figure() -> None:
    study = deepened()
    figure, axes = pyplot.subplots(len(KINDS), 1)
    for kind, ax in zip(KINDS, axes.flat, strict=True):
        assert getattr(study.plot, kind)(ax=ax) is ax
    assert pyplot.get_fignums() == [figure.number]


def fails(job: object) -> object:
    return RuntimeError("no")


def infinite(job: object) -> object:
    return math.inf


LITTLE = [None, fails, infinite, lambda job: 1.0, lambda job: (-1) ** job.index * 1e308]


@pytest.mark.parametrize(
    ("kind", "objective", "max_budget"),
    [
        # The budgets take turns; the other one is heavy.
        pytest.param(kind, each, budget, marks=() if (row + column) % 2 == n else pytest.mark.heavy)
        for row, kind in enumerate(KINDS)
        for column, each in enumerate(LITTLE)
        for n, budget in enumerate([1, 9])
    ],
)
def test_a_study_with_little_to_show(kind: str, objective: Any, max_budget: int) -> None:
    study = open_study(space=SPACE, max_budget=max_budget)
    if objective:
        finish(study, objective)
    ax = getattr(study.plot, kind)()
    ax.figure.canvas.draw()
    assert ax.get_title() or ax.texts


def test_conditional_parameters_are_drawn_as_inactive() -> None:
    from ConfigSpace import ConfigurationSpace, EqualsCondition

    space = ConfigurationSpace({"kind": ["a", "b"], "momentum": (0.0, 1.0)})
    space.add(EqualsCondition(space["momentum"], space["kind"], "b"))
    study = open_study(space=space, max_budget=27)
    finish(study, noisy(1))
    ax = study.plot.parallel()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["inactive"]
    assert "momentum" in study.plot.importance().get_xlabel()


@pytest.fixture(scope="module")
def hostile_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile") / "<b>$x^{$.study"
    hostile.make(place).close()
    return place


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        # The formats take turns; the others are heavy.
        pytest.param(kind, form, marks=() if number % 3 == turn else pytest.mark.heavy)
        for number, kind in enumerate(KINDS)
        for turn, form in enumerate(["png", "pdf", "svg"])
    ],
)
def test_hostile_names_are_drawn_into_every_format(
    kind: str, form: str, hostile_place: Path, tmp_path: Path
) -> None:
    place = tmp_path / f"plot.{form}"
    command = ["plot", str(hostile_place), kind, "-o", str(place)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    content = place.read_bytes()
    assert content.startswith(starts[form])
    assert b"<script" not in content


def test_the_same_study_gives_the_same_svg(tmp_path: Path) -> None:
    hostile.make(tmp_path / "a.study").close()
    for name in ("one.svg", "two.svg"):
        command = ["plot", str(tmp_path / "a.study"), "brackets", "-o", str(tmp_path / name)]
        assert CliRunner().invoke(main, command).exit_code == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["incumbent", "-o", "x.gif"], "must end in .png or .pdf or .svg"),
        (["incumbent", "-o", "nowhere/x.png"], "does not exist"),
        (["incumbent", "-o", "a.study.png"], "belongs to the study"),
        (["incumbent", "--with", "none.study", "-o", "x.png"], "there is no study"),
        (["brackets", "--with", "a.study", "-o", "x.png"], "is for the kind"),
        (["brackets", "--metric", "a", "-o", "x.png"], "is for the kinds curves, incumbent"),
        (["curves", "--metric", "a", "-o", "x.png"], "there is no metric 'a'"),
        (["pie", "-o", "x.png"], "'pie' is not one of"),
    ],
)
def test_wrong_use_of_the_command(
    more: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    deepband.open_study("a.study", space=SPACE, max_budget=3).close()
    result = CliRunner().invoke(main, ["plot", "a.study", *more])
    assert result.exit_code == 2
    assert message in result.output
    assert list(tmp_path.glob("x.*")) == []


def test_without_matplotlib_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['optuna'] = None\n"
        "import deepband\n"
        "study = deepband.open_study(space={'x': (0.0, 1.0), 'y': (0.0, 1.0)}, max_budget=9)\n"
        "study.optimize(lambda config, budget: config['x'])\n"
        "from deepband.analysis.importance import importance\n"
        "for show in (study.plot.brackets, lambda: importance(study.session.state)):\n"
        "    try: show()\n"
        "    except deepband.DeepbandError as error: print(error)\n"
    )
    done = preloaded.run(["-c", code], Path.cwd())
    assert done.stdout.count(install_command("plots")) == 2


@pytest.mark.heavy
def test_plots_of_a_study_that_was_extended_in_every_direction() -> None:
    study = extended(space=SPACE)
    for kind in KINDS:
        ax = getattr(study.plot, kind)()
        ax.figure.canvas.draw()
    ax = study.plot.brackets()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["bracket 0", "bracket 1"]
    assert (
        ax.get_title() == "Brackets and rungs: run 3, max_budget 27, width 2, brackets 2, efficient"
    )
    legend = ax.get_legend()
    assert legend is not None
    assert "evaluated in run 1, max_budget 3, width 2, brackets 1, efficient" in [
        text.get_text() for text in legend.get_texts()
    ]
    texts = [text.get_text() for text in study.plot.incumbent().texts]
    assert texts == ["to width 2", "to 9, 2 brackets", "to 27"]


def test_notebooks_show_a_width() -> None:
    study = extended()
    assert "run 3, max_budget 27, width 2, brackets 2, done" in study._repr_html_()
    assert repr(study) == (
        "<deepband study: run 3, max_budget 27, width 2, brackets 2, 0 jobs open>"
    )
    assert "widening &#x27;efficient&#x27;" in study.quote("efficient", width=3)._repr_html_()


def test_notebooks_show_studies_and_quotes_safely(hostile_place: Path) -> None:
    import deepband

    study = deepband.open_study(hostile_place)
    shown = study._repr_html_()
    assert shown.startswith("<div>")
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "9/9" in shown
    quoted = study.quote("efficient")._repr_html_()
    assert "deepening &#x27;efficient&#x27;" in quoted
    assert "of a fresh run" in quoted
