"""Several `deepband work` processes on one study, which are killed and disturb each other."""

from __future__ import annotations

import math
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import deepband
from deepband.analysis.export import canonical
from deepband.errors import StorageError
from preloaded import Process, run

PROCESSES = 8
SOAK_KILLS = 200
TRAIN = """
import os, time
space = {"x": (0.0, 1.0), "kind": ["a", "b"]}

def note(event, config, budget):
    file = os.open("ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{event} {config['x']!r} {budget}\\n".encode())
    os.close(file)

def train(config, budget, context):
    note("start", config, budget)
    done = 0
    if context.previous is not None:
        done = context.previous_budget
        assert (context.previous / "trained").read_text() == str(done)
    time.sleep(float(os.environ.get("PACE", "0")))
    (context.path / "trained").write_text(str(budget))
    time.sleep(float(os.environ.get("PACE", "0")))
    if config["x"] > 0.9:
        raise ValueError("too large")
    return {"loss": config["x"] / budget + (config["kind"] == "a"), "trained": budget - done}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def command(width: int, name: str = "work", sampler: str = "uniform") -> list[str]:
    given = ["-m", "deepband", name, "a.study", "train.py:train", "--no-progress"]
    given += ["--max-budget", "27", "--width", str(width), "--first-failures", "0"]
    return [*given, "--sampler", sampler, "--parallel", "4", "--seed", "5"]


def start(folder: Path, width: int, pace: float = 0.0, *more: str) -> Process:
    with open(folder / "output", "ab") as output:
        return Process(
            [*command(width), *more],
            cwd=folder,
            env={**os.environ, "PACE": str(pace)},
            stdout=output,
            stderr=output,
        )


def exported(path: Path) -> list[str]:
    with deepband.open_study(path) as study:
        assert study.done
        return list(canonical(study.session.state))


def undisturbed(folder: Path, width: int, sampler: str = "uniform") -> list[str]:
    """What one process comes to."""
    place = folder / "alone"
    place.mkdir()
    (place / "train.py").write_text(TRAIN)
    assert run(command(width, "run", sampler), place).returncode == 0
    return exported(place / "a.study")


def started(folder: Path, after: int = 0) -> Counter[str]:
    """How often each evaluation was started, after the ledger had this size."""
    ledger = folder / "ledger"
    lines = ledger.read_bytes()[after:].decode().splitlines() if ledger.exists() else []
    return Counter(line.removeprefix("start ") for line in lines)


def recorded(path: Path) -> set[str]:
    """The evaluations that a study has, as the ledger names them."""
    try:
        with deepband.open_study(path) as study:
            return {f"{each.config['x']!r} {each.budget}" for each in study.evaluations}
    except (StorageError, deepband.InputError):  # a commit was just interrupted
        return set()


def kill_at_random(folder: Path, width: int, kills: int, pace: float, seed: int) -> int:
    """Keep processes working, and kill them at random until the study is done; the number of kills.
    An evaluation that was recorded must not start again."""
    chosen, path, done = random.Random(seed), folder / "a.study", 0
    working = [start(folder, width, pace) for _ in range(PROCESSES)]
    while done < kills and any(each.poll() is None for each in working):
        time.sleep(chosen.uniform(0.0, 0.1))
        before = recorded(path) if path.exists() else set()
        size = (folder / "ledger").stat().st_size if (folder / "ledger").exists() else 0
        place = chosen.randrange(PROCESSES)
        if working[place].poll() is None:
            working[place].kill()
            working[place].wait()
            done += 1
        if working[place].returncode != 0:
            working[place] = start(folder, width, pace)
        time.sleep(chosen.uniform(0.0, 0.05))
        assert not before & set(started(folder, size))
    assert [each.wait(600) for each in working] == [0] * PROCESSES, output(folder)
    return done


def output(folder: Path) -> str:
    return (folder / "output").read_text()[-2000:]


def check(folder: Path, width: int, kills: int) -> None:
    """The study is that of one process, and only what ran when a process was killed ran again."""
    path = folder / "a.study"
    assert exported(path) == undisturbed(folder, width)
    with deepband.open_study(path) as study:
        assert study.session.state.leases == {}
        count = len(study.evaluations)
    assert count <= started(folder).total() <= count + kills
    assert set(os.listdir(folder / "a.study.files")) <= {"lock", "checkpoints", "driver.json"}
    assert not list((folder / "a.study.files").glob("checkpoints/*/attempts/*"))


def test_several_processes_come_to_the_study_of_one(folder: Path) -> None:
    working = [start(folder, 1) for _ in range(3)]
    assert [each.wait(120) for each in working] == [0, 0, 0], output(folder)
    check(folder, 1, 0)


def test_killed_processes_come_to_the_study_of_one(folder: Path) -> None:
    check(folder, 1, kill_at_random(folder, 1, 6, 0.05, seed=0))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2])
def test_forty_kills_come_to_the_study_of_one(folder: Path, seed: int) -> None:
    kills = kill_at_random(folder, 6, 40, 0.05, seed)
    assert kills == 40
    check(folder, 6, kills)


@pytest.mark.soak
def test_two_hundred_kills_come_to_the_study_of_one(folder: Path) -> None:
    kills = kill_at_random(folder, 20, SOAK_KILLS, 0.08, seed=3)
    assert kills == SOAK_KILLS
    check(folder, 20, kills)


def test_what_diverged_in_another_process_is_no_success(tmp_path: Path) -> None:
    """Otherwise an objective that always diverges would fill the run."""
    place = tmp_path / "a.study"
    deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9).ask(lease=0.01)
    study, calls = deepband.open_study(place), []

    def diverge(config: dict[str, float], budget: float, context: deepband.Context) -> float:
        context.report(1, math.nan)
        calls.append(budget)
        if len(calls) == 1:
            with deepband.open_study(place) as other:
                other.work(diverge, jobs=1, first_failures=0, progress=False)
        return 0.0 if context.should_stop() else 1.0

    with pytest.raises(deepband.ObjectiveError, match="infinite or NaN"):
        study.work(diverge, progress=False)
    assert len(study.evaluations) == 1
