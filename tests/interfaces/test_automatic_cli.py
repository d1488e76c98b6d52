"""`deepband auto-extend` and `deepband advice`: what they do, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deepband.core.strategies import NAMES
from deepband.execution.limits import Limits
from deepband.interfaces.cli import main

TRAIN = """
space = {"x": (0.0, 1.0)}

def train(config, budget):
    return config["x"] + 10 / min(budget, 27)
"""


GIVEN = ["a.study", "train.py:train", "--max-budget", "9"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)


def said(command: str, *arguments: str) -> str:
    return CliRunner().invoke(main, [command, *GIVEN, *arguments]).output


def test_the_command_line() -> None:
    call = CliRunner().invoke
    run = ["auto-extend", *GIVEN]
    refused = call(main, run)
    assert refused.exit_code == 2
    assert "give --max-cost" in refused.output
    done = call(main, [*run, "--max-cost", "3000", "--strategy", "efficient"])
    assert done.exit_code == 0
    assert "run 2, max_budget 81: done" in done.output
    assert "\nstop at 81: the best config gained nothing on the top rung, and " in done.output
    assert "deepband advice a.study" in done.output

    told = call(main, ["advice", "a.study"])
    assert told.exit_code == 0
    assert told.output.startswith(
        "stop at 81: the best config gained nothing on the top rung, and "
    )
    found = json.loads(call(main, ["advice", "a.study", "--json"]).output)
    assert found["step"] == "stop"
    assert found["widening"]["pays"] is False
    assert [each["strategy"] for each in found["quotes"]] == [*NAMES, *NAMES[:3]]
    assert found["gains"][-1]["budgets"] == [27, 81]

    missing = call(main, ["advice", "b.study"])
    assert missing.exit_code == 2
    call(main, ["deepen", "a.study"])
    unfinished = call(main, ["advice", "a.study"])
    assert unfinished.exit_code == 1
    assert "cannot give advice" in unfinished.output


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ("--max-cost 9999 --max-budget-limit 20", "; but 27 exceeds --max-budget-limit 20"),
        ("--max-cost 100", "; but all runs up to 27 may cost 450: --max-cost is 100"),
        ("--max-hours 1e-12 --workers 1", " h: --max-hours is 1e-12"),
    ],
)
def test_it_says_which_limit_held(limits: str, why: str) -> None:
    output = said("auto-extend", *limits.split())
    assert "\ndeepen at 9: the best config still gained " in output
    assert f"{why}\n" in output


def test_the_end_of_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a run, or just when one is done."""
    automatic = ("auto-extend", "--max-cost", "5000")
    within = said(*automatic, "--max-seconds", "0")
    assert (
        "run 0, max_budget 9: stopped at --max-seconds; run the command again to resume" in within
    )
    assert "Deeper, wider or done?" in said("run")
    monkeypatch.setattr(Limits, "out_of_time", lambda limits: True)
    assert "; but time is up: run it again to resume" in said(*automatic)
