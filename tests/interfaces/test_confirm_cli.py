"""The command that evaluates the best configs again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import deepband
from deepband.analysis.export import canonical
from deepband.interfaces.cli import main

OBJECTIVE = """
space = {"x": (0.0, 1.0)}

def train(config, budget, context):
    if context.seed % 7 == 0:
        raise ValueError("unlucky")
    return config["x"] + context.seed / 2**34

def plain(config, budget):
    return config["x"]
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A finished study and its objective, in one folder."""
    (tmp_path / "train.py").write_text(OBJECTIVE)
    place = tmp_path / "a.study"
    done = call("run", place, f"{tmp_path}/train.py:train", "--max-budget", 9)
    assert done.exit_code == 0, done.output
    return place


def test_it_evaluates_the_best_again_and_shows_means(place: Path) -> None:
    found = call("confirm", place, "--top", 2, "--seeds", 3)
    assert found.exit_code == 0, found.output
    assert "6 repetitions to run, 54 units of budget" in found.stderr
    assert "confirming: 6 of 6 evaluations, 54 of 54 units" in found.stderr
    header, first, second, *findings = found.stdout.splitlines()
    assert "95 % interval" in header
    assert [row.split()[0] for row in (first, second)] == ["1", "2"]
    assert any(line.startswith("Best mean: bracket") for line in findings)
    assert findings[-1].startswith("Cost of the repetitions: 54 units of budget, ")


def test_one_unit_is_singular(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OBJECTIVE)
    objective, place = f"{tmp_path}/train.py:plain", tmp_path / "one.study"
    assert call("run", place, objective, "--max-budget", 1).exit_code == 0
    found = call("confirm", place, "--top", 1, "--seeds", 1)
    assert "1 repetition to run, 1 unit of budget" in found.stderr
    assert "Cost of the repetitions: 1 unit of budget, " in found.stdout
    assert "1 units" not in found.output


def test_progress_can_be_switched_off(place: Path) -> None:
    deepened = call("run", place, "--deepen-to", 27, "--no-progress")
    confirmed = call("confirm", place, "--top", 1, "--seeds", 2, "--no-progress")
    assert deepened.exit_code == confirmed.exit_code == 0
    assert deepened.stderr == ""
    assert "confirming" not in confirmed.stderr


def test_each_failure_has_a_line(place: Path) -> None:
    done = call("confirm", place, "--seeds", 15)
    with deepband.open_study(place) as study:
        facts = study.session.state.confirmations.values()
    wanted = [
        f"bracket {each.bracket}, index {each.index}, repetition {each.repetition} "
        "failed: ValueError: unlucky"
        for each in facts
        if each.error
    ]
    assert wanted
    shown = [line for line in done.stderr.splitlines() if "ValueError" in line]
    assert sorted(shown) == sorted(wanted)
    assert f"45 of 45 evaluations, 405 of 405 units, {len(wanted)} failed" in done.stderr


def test_it_is_the_same_as_in_python(place: Path) -> None:
    assert call("confirm", place, "--seeds", 2).exit_code == 0
    namespace: dict[str, Any] = {}
    exec(OBJECTIVE, namespace)
    train = namespace["train"]
    with deepband.open_study(space=namespace["space"], max_budget=9) as other:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            other.optimize(train)
        other.confirm(train, seeds=2)
        with deepband.open_study(place) as study:
            assert list(canonical(study.session.state)) == list(canonical(other.session.state))


def test_repeating_it_runs_nothing_and_loads_nothing(place: Path) -> None:
    first = call("confirm", place, "--seeds", 2)
    place.with_name("train.py").unlink()
    again = call("confirm", place, "--seeds", 2)
    assert (again.exit_code, again.stdout, again.stderr) == (0, first.stdout, "")
    more = call("confirm", place, "--seeds", 3)
    assert more.exit_code == 2
    assert "train.py" in more.stderr


def test_json(place: Path) -> None:
    found = json.loads(call("confirm", place, "--top", 1, "--seeds", 2, "--json").stdout)
    (config,) = found["configs"]
    assert found["cost"] == 18
    assert {"rank", "value", "values", "mean", "low", "high", "failures"} <= set(config)
    assert len(config["values"]) + config["failures"] == 2


def test_an_objective_without_context_is_named_in_a_warning(place: Path) -> None:
    done = call("confirm", place, place.with_name("train.py:plain"), "--top", 1, "--seeds", 2)
    assert done.exit_code == 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Warning")]
    assert "context.seed" in line


def test_options_reach_the_run(place: Path) -> None:
    done = call("confirm", place, "--workers", 2, "--timeout", 60, "--max-cost", 20)
    assert done.exit_code == 0, done.output
    with deepband.open_study(place) as study:
        assert len(study.session.state.confirmations) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top", 0], "--top is 0: give a whole number of 1 or more."),
        (["--seeds", 0], "--seeds is 0: give a whole number of 1 or more."),
        (["--seeds", 99999], "--seeds is 99999: give at most 10,000."),
    ],
)
def test_refusals(place: Path, arguments: list[object], message: str) -> None:
    done = call("confirm", place, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_without_results_there_is_nothing_to_confirm(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    assert call("confirm", place).exit_code == 2
    deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9).close()
    done = call("confirm", place)
    assert done.exit_code == 1
    assert "nothing has been evaluated" in done.stderr


def test_a_study_without_objective_asks_for_it(tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
        study.optimize(lambda config, budget: config["x"])
    done = call("confirm", tmp_path / "a.study")
    assert done.exit_code == 2
    assert "FILE.py:FUNCTION" in done.stderr
