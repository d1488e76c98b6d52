"""Small search spaces on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import deepband
from deepband.interfaces.cli import main

OBJECTIVE = """
space = {"kind": ["a", "b"], "size": (1, 3)}

def train(config, budget):
    return config["size"] / budget
"""


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def objective(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(OBJECTIVE)
    return f"{tmp_path}/train.py:train"


def test_a_run_warns_in_the_words_of_the_command(tmp_path: Path, objective: str) -> None:
    done = call("run", tmp_path / "a.study", objective, "--max-budget", 9)
    assert done.exit_code == 0, done.output
    warned = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warned) == 1
    assert "at most 6 different configs and the run needs 17" in warned[0]
    assert "--reuse-identical" in warned[0]
    assert "Warning" not in call("run", tmp_path / "a.study").output


def test_equal_configs_share_results(tmp_path: Path, objective: str) -> None:
    place = tmp_path / "a.study"
    done = call("run", place, objective, "--max-budget", 9, "--reuse-identical")
    assert done.exit_code == 0, done.output
    assert "Warning" not in done.output
    with deepband.open_study(place) as study:
        assert study.runs[0].added > 0
        shown = call("quote", place).output
        assert f"at most {study.quote().cost.high}" in shown
    assert "at most 22 evaluations" in call("plan", place).output
    assert call("run", place, "--deepen-to", 27).exit_code == 0
    refused = call("run", tmp_path / "b.study", objective, "--max-budget", 9)
    assert refused.exit_code == 0
    refused = call("run", tmp_path / "b.study", "--reuse-identical")
    assert refused.exit_code == 2
    assert "reuse-identical" in refused.stderr
