"""`deepband run --skip`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

import deepband
from deepband.interfaces.cli import main

OBJECTIVE = """
space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}

def train(config, budget):
    return (config["x"] - 0.3) ** 2 + 0.1 * config["y"] + 0.2 / budget
"""


def test_skips_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OBJECTIVE)
    place, objective = tmp_path / "a.study", f"{tmp_path}/train.py:train"
    given = ["run", place, objective, "--max-budget", 9, "--deepen-to", 27, "--skip", 0.2]
    done = CliRunner().invoke(main, [str(each) for each in given])
    assert done.exit_code == 0, done.output
    state = deepband.open_study(place).session.state
    skips = list(state.run.skips())
    assert skips
    bracket, index, *_ = skips[0]
    shown = CliRunner().invoke(main, ["explain", str(place), str(bracket), str(index)])
    assert "and skipped: it becomes the best with a probability of" in shown.output
    quoted = CliRunner().invoke(main, ["quote", str(place)])
    assert "if all promotions are skipped" in quoted.output
    refused = CliRunner().invoke(main, ["run", str(place), "--skip", "2"])
    assert refused.exit_code == 2
    assert "'--skip': 2.0 is not in the range 0<=x<1" in refused.stderr
