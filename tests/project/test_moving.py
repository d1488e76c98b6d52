"""The programs of `docs/moving/`, run for real, and what how-to/migration.md says of them."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import deepband

pytestmark = pytest.mark.timeout(600)  # Ray starts its processes one by one

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "migration.md").read_text()
PROGRAMS = sorted(path.stem for path in (ROOT / "docs" / "moving").glob("*.py"))
PEERS = ROOT / ".venv-peers" / "bin" / "python"
WITH_PEERS = {"smac_search", "hpbandster_search"}

PRINTED = {
    "deepband_search": r"evaluated twice: 0 old configs at 27: [1-9]",
    "deepband_sklearn_search": r"evaluated twice: 0",
    "hpbandster_search": r"old results: 20 old configs at 27: 0",
    "optuna_search": r"old configs at 27: 0",
    "ray_search": r"epochs before: (\d+) after: \1 most: 9",
    "sklearn_search": r"evaluated twice: 13 of 13",
    "smac_search": r"evaluated twice: 15 of 22",
}
"""The last line of each program: what came of asking for 27."""

LISTED = {"smac_search": "SMAC3", "ray_search": "Ray Tune", "hpbandster_search": "HpBandSter"}
"""Whose old results the page lists, and under which heading."""


def run(program: str, folder: Path, more: str = "") -> list[str]:
    """The lines that a program prints, in a folder and without a terminal."""
    if program in WITH_PEERS:
        assert PEERS.exists(), "SMAC and HpBandSter are not there: make .venv-peers/made"
    source = ROOT / "docs" / "moving" / f"{program}.py"
    (folder / source.name).write_text(source.read_text() + more)
    done = subprocess.run(
        [PEERS if program in WITH_PEERS else sys.executable, source.name],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def lines_that_list(heading: str) -> str:
    """The lines of a section that make the list of old results, and write it to a file."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"\n((?: {6}.*\n)+)", section)
    write = "json.dump(old, open('old.json', 'w'), default=lambda number: number.item())"
    return f"\n{dedent(block)}\nimport json\n{write}\n"


def check_that_all_come_along(file: Path) -> None:
    """The old results go into a study, which then evaluates only what it lacks."""
    old = json.loads(file.read_text())
    space = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 8)}
    study = deepband.open_study(space=space, max_budget=27)
    for config, budget, loss in sorted(old, key=lambda each: each[1]):
        study.add_evaluation(config, budget, loss, origin="the old search")
    assert len(study.evaluations) == len(old) >= 20

    def train(config: dict[str, Any], budget: float) -> float:
        assert [config, budget] not in [each[:2] for each in old]
        return float((config["lr"] - 0.01) ** 2 + 1 / (budget * config["layers"]))

    study.optimize(train)
    assert study.done
    assert study.runs[0].added == len(old)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_shows_every_program(program: str) -> None:
    assert f"```{{literalinclude}} ../moving/{program}.py\n" in PAGE
    assert f"[moving/{program}.py](../moving/{program}.py)" in PAGE


@pytest.mark.heavy
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_comes_of_asking_for_more(program: str, tmp_path: Path) -> None:
    lines = run(program, tmp_path, lines_that_list(LISTED[program]) if program in LISTED else "")
    (found,) = [line for line in lines if line.startswith("9: ")]
    assert "'lr':" in found or "'alpha':" in found
    assert re.fullmatch(PRINTED[program], lines[-1])
    assert ("refused" in lines) == (program == "smac_search")
    if program == "smac_search":
        assert any("Overwrite old run completely" in line for line in lines)
    if program == "optuna_search":
        check_that_rungs_are_mixed(f"sqlite:///{tmp_path / 'optuna.db'}")
    if program in LISTED:
        check_that_all_come_along(tmp_path / "old.json")


def check_that_rungs_are_mixed(storage: str) -> None:
    """Every old trial has a value on its rung 0, and 15 of them now belong to a bracket whose
    rung 0 is at another step."""
    import optuna

    study = optuna.load_study(study_name="mlp", storage=storage)
    old = study.trials[:22]
    assert all("completed_rung_0" in trial.system_attrs for trial in old)

    def brackets(max_resource: int) -> list[int]:
        pruner = optuna.pruners.HyperbandPruner(1, max_resource, 3)
        pruner._try_initialization(study)
        return [pruner._get_bracket_id(study, trial) for trial in old]

    moved = [a != b for a, b in zip(brackets(9), brackets(27), strict=True)]
    assert sum(moved) == 15


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_ray_restores_without_a_scheduler() -> None:
    from ray import tune

    assert not {"tune_config", "scheduler"} & set(inspect.signature(tune.Tuner.restore).parameters)
