"""Several objectives, constraints and rejected configs on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deepband
from deepband.interfaces.cli import main
from driving import finish, noisy
from trade_off import TWO, finished

TRAIN = """
space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}

def train(config, budget):
    x, y = config["x"], config["y"]
    return {"error": (1 - y) / budget + x, "speed": 10 * x, "memory_mb": 1000 * x}

def plain(config, budget):
    return {"loss": config["x"], "memory_mb": 1000 * config["x"]}

def small(config, budget):
    return config["x"] < 0.8

def wrong(config, budget):
    return "yes"

def broken(config, budget):
    return config["z"] > 0

def short(config):
    return True
"""
OBJECTIVES = ["--objectives", "error=minimize", "--objectives", "speed=maximize"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)


def call(*arguments: str, code: int = 0) -> str:
    ended = CliRunner().invoke(main, list(arguments))
    assert ended.exit_code == code, ended.output
    return ended.output


def run(*options: str, function: str = "train") -> str:
    given = ["--max-budget", "9", "--no-progress", *options]
    return call("run", "a.study", f"train.py:{function}", *given)


def test_a_study_is_run_with_all_options() -> None:
    ended = run(
        *OBJECTIVES, "--constraints", "memory_mb=..500,speed=0.5..", "--precheck", "train.py:small"
    )
    study = deepband.open_study("a.study")
    criteria = study.session.state.criteria
    assert criteria.objectives == (("error", "minimize"), ("speed", "maximize"))
    assert criteria.constraints == (("memory_mb", (None, 500.0)), ("speed", (0.5, None)))
    front = (
        f"front on any budget: {len(study.front())} evaluations; details: deepband front a.study"
    )
    assert front in ended
    rejected = [each for each in study.evaluations if each.origin == "precheck"]
    infeasible = [each for each in study.evaluations if each.error is None and not each.feasible]
    assert rejected
    assert all(each.config["x"] >= 0.8 for each in rejected)
    shown = call("status", "a.study")
    counts = f"{len(infeasible) - len(rejected)} infeasible, {len(rejected)} rejected\n"
    assert f"22 evaluations, {counts}" in shown
    assert front in shown
    again = call("run", "a.study", "--no-progress", *OBJECTIVES)
    assert front in again


def test_the_front_is_listed() -> None:
    run(*OBJECTIVES)
    study = deepband.open_study("a.study")
    title, header, *rows = call("front", "a.study").splitlines()
    assert title == f"front on any budget: {len(study.front())} evaluations"
    assert header.split() == ["error", "speed", "budget", "bracket", "index", "rung", "x", "y"]
    assert [row.split()[:2] for row in rows] == [
        [f"{value:.6g}" for value in each.objectives.values()] for each in study.front()
    ]
    found = json.loads(call("front", "a.study", "--rung", "1", "--json"))
    assert [each["objectives"] for each in found] == [dict(e.objectives) for e in study.front(1)]
    assert {each["rung"] for each in found} == {1}
    listed = json.loads(call("status", "a.study", "--json"))
    assert len(listed["front"]) == len(study.front())
    assert listed["best"] is None
    assert "there is no rung 9" in call("front", "a.study", "--rung", "9", code=2)


def test_the_front_of_one_objective_and_of_none() -> None:
    run(function="plain")
    _, header, row = call("front", "a.study").splitlines()
    assert header.split()[:2] == ["loss", "budget"]
    assert row.split()[0] == f"{deepband.open_study('a.study').best.loss:.6g}"
    deepband.open_study("new.study", space={"x": (0.0, 1.0)}, max_budget=3, objectives=TWO).close()
    assert call("front", "new.study") == (
        "front on any budget: none yet, because no evaluation has a finite result\n"
    )


def test_many_parameters_are_left_out() -> None:
    space = {f"p{number}": (0.0, 1.0) for number in range(9)}
    with deepband.open_study("a.study", space=space, max_budget=3, objectives=TWO) as study:
        finish(study, lambda job: {"error": job.config["p0"], "speed": job.config["p1"]})
    assert call("front", "a.study").endswith("and 4 other parameters: see --json\n")


def test_the_hypervolume_is_shown() -> None:
    run(*OBJECTIVES)
    study = deepband.open_study("a.study")
    assert call("hypervolume", "a.study").startswith(
        f"hypervolume {study.hypervolume():.6g} up to "
    )
    point = {"error": 2.0, "speed": -1.0}
    given = ["--reference", "error=2,speed=-1", "--json"]
    assert json.loads(call("hypervolume", "a.study", *given)) == {
        "hypervolume": study.hypervolume(point),
        "reference": point,
        "rung": None,
    }
    shown = call("hypervolume", "a.study", "--reference", "error=2,speed=-1", "--rung", "0")
    assert (
        shown
        == f"hypervolume {study.hypervolume(point, 0):.6g} up to error 2, speed -1, on rung 0\n"
    )


@pytest.mark.parametrize("arguments", [[], ["--path"], ["--json"], ["--rung", "1"]])
def test_best_explains_itself(arguments: list[str]) -> None:
    finished(path=Path("two.study")).close()
    shown = call("best", "two.study", *arguments, code=1)
    assert "there is no single best evaluation: the study has several objectives" in shown
    assert "`deepband front" in shown
    assert "study." not in shown.replace("two.study", "")


def test_nothing_is_feasible() -> None:
    ended = run("--constraints", "memory_mb=..-1", function="plain")
    why = "none yet, because no evaluation is feasible and has a finite result"
    assert f"best on any budget: {why}" in ended
    assert why in call("best", "a.study")
    assert "none is feasible" in call("best", "a.study", "--path", code=1)
    assert "`deepband export`" in call("best", "a.study", "--path", code=1)
    assert f"front on any budget: {why}" in call("front", "a.study")
    assert "none is feasible" in call("hypervolume", "a.study", code=1)


def test_auto_extend_takes_the_options_too() -> None:
    options = ["--max-budget", "3", "--max-cost", "20", "--no-progress", "--precheck"]
    call("auto-extend", "b.study", "train.py:plain", *options, "train.py:small")
    study = deepband.open_study("b.study")
    assert any(each.origin == "precheck" for each in study.evaluations)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--objectives", "error"], "'error' is not NAME=DIRECTION, such as error=minimize."),
        (["--objectives", "error=min"], "the direction is neither minimize nor maximize."),
        (["--objectives", "error=minimize,error=maximize"], "'error' is given twice."),
        (["--objectives", "loss=minimize"], "'loss' cannot be the name of an objective"),
        (["--objectives", ""], "is not NAME=DIRECTION"),
        (["--objectives", "a=minimize", "--maximize"], "--maximize is given together with"),
        (["--constraints", "memory_mb"], "is not NAME=LOW..HIGH, such as memory_mb=..500."),
        (["--constraints", "memory_mb=500"], "write bounds as ..HIGH, LOW.. or LOW..HIGH"),
        (["--constraints", "memory_mb=.."], "write bounds as"),
        (["--constraints", "memory_mb=..x"], "'x' is not a number."),
        (["--constraints", "memory_mb=nan.."], "'nan' is not a finite number."),
        (["--constraints", "memory_mb=2..1"], "the lower bound is above the upper bound."),
        (["--precheck", "train.py"], "the precheck is 'train.py': write it as FILE.py:FUNCTION"),
        (["--precheck", "train.py:smal"], "Did you mean 'small'?"),
        (["--precheck", "none.py:small"], "there is no file none.py"),
        (["--precheck", "train.py:space"], "precheck is"),
        (["--precheck", "train.py:wrong"], "precheck returned 'yes'"),
        (["--precheck", "train.py:broken"], "the precheck train.py:broken failed: KeyError: 'z'"),
        (
            ["--precheck", "train.py:short"],
            "--precheck has the signature (config): ",
        ),
    ],
)
def test_wrong_options_are_refused(options: list[str], wanted: str) -> None:
    given = ["run", "a.study", "train.py:plain", "--max-budget", "3", "--no-progress", *options]
    assert wanted in " ".join(call(*given, code=2).split())


def test_other_objectives_than_those_of_the_study_are_refused() -> None:
    run(*OBJECTIVES)
    shown = call("run", "a.study", "--objectives", "error=minimize", code=2)
    assert "the study was created with objectives" in shown
    shown = call("run", "a.study", "--constraints", "memory_mb=1..2", code=2)
    assert "the study was created with constraints" in shown


def test_json_of_a_single_objective_has_no_further_fields() -> None:
    with deepband.open_study("one.study", space={"x": (0.0, 1.0)}, max_budget=3) as study:
        finish(study, noisy(1))
    found: list[Any] = json.loads(call("explain", "one.study", "0", "0", "--json"))
    found += [json.loads(call("best", "one.study", "--json"))]
    found += [json.loads(call("status", "one.study", "--json"))["best"]]
    for each in found:
        assert not {"objectives", "feasible", "front"} & set(each)
    assert "front" not in json.loads(call("status", "one.study", "--json"))


def test_exports_have_the_objectives() -> None:
    run(*OBJECTIVES, "--constraints", "memory_mb=..500")
    header, first, *_ = call("export", "a.study").splitlines()
    assert "feasible,objectives.error,objectives.speed,config.x" in header
    assert first.count(",") == header.count(",")
    line = json.loads(call("export", "a.study", "--format", "jsonl").splitlines()[0])
    assert set(line["objectives"]) == {"error", "speed"}
    assert line["feasible"] in (True, False)
