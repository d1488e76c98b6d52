"""`deepband run --stop`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

import deepband
from deepband.interfaces.cli import main

OBJECTIVE = """
space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}

def train(config, budget):
    return (config["x"] - 0.3) ** 2 + 0.1 * config["y"] + 0.2 / budget
"""


def run(*given: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in given])


def test_stops_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OBJECTIVE)
    place, objective = tmp_path / "a.study", f"{tmp_path}/train.py:train"
    stopped = run("run", place, objective, "--max-budget", 9, "--seed", 2, "--stop", 0.4)
    assert stopped.exit_code == 0, stopped.output
    assert "stopped early: its rest finds a notably better config with a" in stopped.output
    count = len(deepband.open_study(place).evaluations)
    assert "stopped early" in run("status", place).output
    assert "since the run was stopped" in run("explain", place, 2, 0).output
    assert "nothing is stopped early or skipped" in run("quote", place).output
    report = tmp_path / "a.html"
    assert run("report", place, "--output", report).exit_code == 0
    assert "is stopped early" in report.read_text()
    assert "stopped early" in run("run", place, "--stop", 0.4).output
    assert len(deepband.open_study(place).evaluations) == count
    completed = run("run", place)
    assert "run 0, max_budget 9: done" in completed.output
    assert len(deepband.open_study(place).evaluations) > count
    refused = run("run", place, "--stop", "2")
    assert refused.exit_code == 2
    assert "'--stop': 2.0 is not in the range 0<=x<1" in refused.stderr


def test_a_run_that_is_refused_creates_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        OBJECTIVE + "\ndef fail(config, budget):\n    raise ValueError\n"
    )
    place, objective = tmp_path / "a.study", f"{tmp_path}/train.py:train"
    for given, why in (
        (["--skip", "nan"], "--skip is nan: give a probability below 1"),
        (["--stop", "nan"], "--stop is nan: give a probability below 1"),
        (["--stop-training", "0.1"], "the objective takes no context"),
        (["--stop-training", "0.1", "--ahead"], "leave out one of them"),
        (["--skip", "0.1", "--constraints", "memory=..5"], "the study has constraints"),
        (["--ahead-limit", "3"], "give both"),
    ):
        refused = run("run", place, objective, "--max-budget", 9, *given)
        assert refused.exit_code == 2, refused.output
        assert why in " ".join(refused.stderr.split())
        assert not place.exists()
    two = ["--objectives", "a=minimize,b=minimize"]
    assert run("run", tmp_path / "two.study", objective, "--max-budget", 3, *two).exit_code
    before = deepband.open_study(tmp_path / "two.study").session.state.objective
    refused = run("run", tmp_path / "two.study", f"{tmp_path}/train.py:fail", "--skip", 0.1)
    assert refused.exit_code == 1
    assert "no promotion can be skipped" in refused.stderr
    assert deepband.open_study(tmp_path / "two.study").session.state.objective == before
    failing = f"{tmp_path}/train.py:fail"
    run("run", place, failing, "--max-budget", 9, "--first-failures", 0, "--max-cost", 5)
    failed = deepband.open_study(place).failures().total
    assert failed == 5
    assert run("run", place, objective, "--retry-failed", "--skip", "nan").exit_code == 2
    assert deepband.open_study(place).failures().total == failed


def test_a_run_without_stop_training_says_what_it_does_not_do(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        "space = {'x': (0.0, 1.0), 'y': (0.0, 1.0)}\n"
        "def train(config, budget, context):\n"
        "    for step in range(1, budget + 1):\n"
        "        loss = (config['x'] - 0.3) ** 2 + 0.1 * config['y'] + 0.2 / step\n"
        "        context.report(step, loss)\n"
        "        if context.should_stop():\n"
        "            break\n"
        "    return loss\n"
    )
    place, objective = tmp_path / "a.study", f"{tmp_path}/steps.py:train"
    hint = "give --stop-training"
    first = run("run", place, objective, "--max-budget", 9, "--stop-training", 0.4)
    assert deepband.open_study(place).runs[0].stopped_training
    assert hint not in first.output
    assert hint not in run("run", place).output  # it is done
    run("deepen", place, "--to", 27)
    assert hint in run("run", place, "--max-cost", 9).output
    assert hint not in run("run", place, "--stop-training", 0.4).output
