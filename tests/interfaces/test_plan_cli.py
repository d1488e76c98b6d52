"""The command line: planning, and changing the space."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

import deepband
from deepband.interfaces.cli import main
from driving import SPACE, finish, noisy


def deepband_cli(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_a_study_is_planned_before_it_exists() -> None:
    shown = deepband_cli("plan", "--max-budget", "81", "--width", "2")
    assert shown.exit_code == 0
    assert shown.output.rstrip() == str(deepband.plan(max_budget=81, width=2))
    timed = deepband_cli(
        "plan", "--max-budget", "27", "--workers", "8", "--seconds-per-unit", "30", "--json"
    )
    found = json.loads(timed.output)
    assert found["cost"] == 423
    assert found["sizes"]["0"] == [27, 9, 3, 1]
    assert len(found["steps"]) + 1 == len(found["forecasts"])


def test_workers_alone_are_no_estimate() -> None:
    shown = deepband_cli("plan", "--max-budget", "9", "--workers", "8")
    assert "give --seconds-per-unit, too" in shown.output


def test_a_plan_needs_a_study_or_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    deepband.open_study(path, space=SPACE, max_budget=9).close()
    assert "--max-budget" in deepband_cli("plan").output
    both = deepband_cli("plan", str(path), "--width", "2")
    assert both.exit_code != 0
    assert "own settings" in both.output
    assert "17 configs" in deepband_cli("plan", str(path)).output


def test_the_space_is_changed_on_the_command_line(tmp_path: Path) -> None:
    path, space = tmp_path / "a.study", tmp_path / "space.json"
    with deepband.open_study(path, space=SPACE, max_budget=9) as study:
        finish(study, noisy(0))
    space.write_text(json.dumps({"x": [0.1, 0.5, "log"], "kind": ["a", "b"]}))
    odd = deepband_cli("widen", str(path), "--space", str(space))
    assert "'x' is [0.1, 0.5, \"log\"]: write a range as" in odd.output
    space.write_text(json.dumps({"x": {"range": [0.0, 0.5]}, "kind": ["a", "b"]}))
    refused = deepband_cli("widen", str(path), "--space", str(space))
    assert "'kind' is new" in refused.output
    spelled = deepband_cli("widen", str(path), "--space", str(space), "--added", "kind")
    assert "write NAME=VALUE" in spelled.output
    done = deepband_cli("widen", str(path), "--space", str(space), "--added", "kind=b")
    assert done.exit_code == 0, done.output
    with deepband.open_study(path) as study:
        assert study.width == 2
        (change,) = study.session.state.changes
        assert change.added == {"kind": "b"}
