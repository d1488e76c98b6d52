"""Folders of a study that vanish or become read-only during a run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deepband
import preloaded
from disks import mounted

SPACE = {"x": (0.0, 1.0)}
WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""The capabilities that let root write anywhere."""


def spoiling(spoil: Callable[[], object], once: Path) -> Callable[..., float]:
    """An objective that spoils something once, after a few evaluations."""

    def objective(config: dict[str, Any], budget: float) -> float:
        with (once / "evaluations").open("a") as file:
            file.write(".")
        if (once / "evaluations").stat().st_size == 5:
            spoil()
        return float(config["x"]) / budget

    return objective


RUN: dict[str, Callable[[], dict[str, Any]]] = {
    "inline": dict,
    "workers": lambda: {"workers": 2},
    "threads": lambda: {"executor": ThreadPoolExecutor(2)},
}


@pytest.mark.parametrize("how", RUN)
@pytest.mark.parametrize("name", ["jobs", "outbox", "output", ""])
def test_a_run_goes_on_when_a_folder_is_removed(how: str, name: str, tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9) as study:
        gone = study.session.files / name
        objective = spoiling(lambda: shutil.rmtree(gone, ignore_errors=True), tmp_path)
        study.optimize(objective, **RUN[how](), retries=3)
        assert study.done
        assert [each.error for each in study.evaluations] == [None] * 22
    assert deepband.open_study(tmp_path / "a.study").done


def test_a_study_on_a_read_only_disk_can_be_looked_at(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "names").touch()
    (tmp_path / "ledger").mkdir()
    with mounted(tmp_path / "disk", "size=8m") as disk:

        def call(*arguments: str) -> subprocess.CompletedProcess[str]:
            return preloaded.run(["-m", "deepband", *arguments], tmp_path, enter=disk.enter)

        study = str(disk.mount / "a.study")
        done = call("run", study, f"{tmp_path}/train.py:train", "--max-budget", "3")
        assert done.returncode == 0, done
        remount = ["mount", "-o", "remount,ro", str(disk.mount)]
        subprocess.run([*disk.enter, *remount], check=True)
        for command in ("status", "best", "quote", "export", "plan"):
            done = call(command, study)
            assert (done.returncode, done.stderr) == (0, ""), done
        for command in ("run", "deepen"):
            done = call(command, study)
            assert done.returncode == 1
            assert "Read-only file system" in done.stderr
            assert "Traceback" not in done.stderr


TRAIN = """
import os, pathlib

space = {"x": (0.0, 1.0)}
here = pathlib.Path(__file__).parent

def train(config, budget, context):
    (context.path / "weights").write_text(str(budget))
    with (here / "ledger" / "evaluations").open("a") as file:
        file.write(".")
    if (here / "ledger" / "evaluations").stat().st_size == 5:
        for name in (here / "names").read_text().split():
            (here / name).chmod(0o555)
    return config["x"] / budget
"""


LOST = [
    ["a.study.files/jobs"],
    ["a.study.files/outbox"],
    ["a.study.files/output"],
    ["a.study.files"],
    ["a.study.files/checkpoints"],
    ["."],
    [".", "a.study.files", "a.study.files/jobs", "a.study.files/outbox"],
]
HOW = [["--workers", "2"], []]


@pytest.mark.parametrize(
    ("names", "how"),
    [
        # With and without workers in turn; the other one is heavy.
        pytest.param(names, how, marks=() if number % 2 == other else pytest.mark.heavy)
        for number, names in enumerate(LOST)
        for other, how in enumerate(HOW)
    ],
    ids=str,
)
def test_a_folder_that_cannot_be_written_any_more_is_said_in_plain_words(
    names: list[str], how: list[str], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "names").write_text("\n".join(names))
    (tmp_path / "ledger").mkdir()
    (tmp_path / "a.study.files").mkdir()
    for name in ("jobs", "outbox", "output", "checkpoints"):
        (tmp_path / "a.study.files" / name).mkdir()
    command = ["-m", "deepband", "run", "a.study"]
    arguments = [*command, "train.py:train", "--max-budget", "9", *how]
    enter = [] if os.geteuid() else WITHOUT_PRIVILEGES
    done = preloaded.run(arguments, tmp_path, enter=enter)
    for name in names:
        if (tmp_path / name).exists():  # it was empty, and is removed at the end
            (tmp_path / name).chmod(0o755)
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()  # the progress, and then the error
    assert done.returncode == 0 or any(line.startswith("Error: ") for line in said), done
    again = preloaded.run(command, tmp_path, enter=enter)
    assert again.returncode == 0, again
    study = deepband.open_study(tmp_path / "a.study")
    assert study.done
    assert [each.error for each in study.evaluations] == [None] * 22
