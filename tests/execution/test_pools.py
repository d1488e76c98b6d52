"""Worker pools that break: idle workers and the fork server killed, Ctrl-C while workers start.

A run continues with new workers, or ends as interrupted, but never with an error of the pool.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deepband
from aftermath import check_folder, check_processes
from deepband.analysis import export
from deepband.execution.outbox import Outbox
from driving import wait_until
from preloaded import Process
from torture import Place, end_all, fork_servers, start_driver, workers_of

TRAIN = """
import os, time
space = {"x": (0.0, 1.0)}

def steady(config, budget):
    time.sleep(0.05)
    return config["x"] / budget

def gated(config, budget):
    while budget == 9 and not os.path.exists("open"):
        time.sleep(0.01)
    with open("ledger", "a") as ledger:
        ledger.write(f"{config['x']} {budget}\\n")
    return config["x"] / budget
"""
PIDS = Callable[[int, Path], list[int]]
heavy = pytest.mark.heavy


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "train.py").write_text(TRAIN)
    place = Place(tmp_path)
    yield place
    end_all(place.study)


def start(place: Place, objective: str) -> Process:
    """A driver with three workers, in its own session as on a terminal. A sampler that learns runs
    one bracket after another, so workers are idle at the end of each."""
    command = ["-m", "deepband", "run", place.study, f"train.py:{objective}"]
    command += ["--workers", "3", "--max-budget", "9", "--sampler", "prior"]
    with (place.folder / "said").open("ab") as said:
        streams = {"stdout": said, "stderr": said}
        return start_driver(
            place.study, command, cwd=place.folder, start_new_session=True, **streams
        )


def said(place: Place) -> str:
    return (place.folder / "said").read_text()


def canonical(study: deepband.Study) -> list[str]:
    return list(export.canonical(study.session.state))


@pytest.fixture(scope="module")
def undisturbed() -> list[str]:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9, sampler="prior")
    study.optimize(lambda config, budget: config["x"] / budget)
    return canonical(study)


def check_end(place: Place, undisturbed: list[str]) -> None:
    """Check that the study is as if undisturbed, and that nothing is left behind."""
    assert canonical(deepband.open_study(place.study)) == undisturbed
    for name in ("Traceback", "BrokenProcessPool", "RuntimeError"):
        assert name not in said(place)
    check_processes(place.study)
    check_folder(place, "train.py", "said", "open", "__pycache__")


def wait_for_idle_workers(driver: Process, place: Place) -> None:
    """Wait until one worker runs the last job of a bracket and two have nothing to do."""
    outbox = Outbox(place.files)

    def is_last() -> bool:
        assert driver.poll() is None, said(place)
        running = outbox.running()
        evaluated = len(deepband.open_study(place.study).evaluations) if running else 0
        return len(running) == 1 and running[0].key[2] == 2 and evaluated == 12

    wait_until(is_last)


def idle(driver: int, study: Path) -> list[int]:
    busy = {running.pid for running in Outbox(Place(study.parent).files).running()}
    return [pid for pid in workers_of(driver, study) if pid not in busy]


def one_idle(driver: int, study: Path) -> list[int]:
    return idle(driver, study)[:1]


def server_and_idle(driver: int, study: Path) -> list[int]:
    return [*fork_servers(driver, study), *idle(driver, study)]


def server_and_workers(driver: int, study: Path) -> list[int]:
    return [*fork_servers(driver, study), *workers_of(driver, study)]


@pytest.mark.parametrize(
    "victims",
    [
        one_idle,
        server_and_workers,
        *(pytest.param(each, marks=heavy) for each in (idle, fork_servers, server_and_idle)),
    ],
)
def test_a_run_goes_on_when_idle_workers_or_the_fork_server_are_killed(
    place: Place, undisturbed: list[str], victims: PIDS
) -> None:
    driver = start(place, "gated")
    wait_for_idle_workers(driver, place)
    killed = victims(driver.pid, place.study)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    (place.folder / "open").touch()
    assert driver.wait(120) == 0, said(place)
    evaluated = place.ledger.path.read_text().splitlines()
    assert len(evaluated) == len(set(evaluated))
    check_end(place, undisturbed)


MOMENTS: dict[str, Callable[[int, Place], object]] = {
    "locked": lambda driver, place: (place.files / "driver.json").exists(),
    "server": lambda driver, place: fork_servers(driver, place.study),
    "worker": lambda driver, place: workers_of(driver, place.study),
}
"""What must have happened before the driver is disturbed, while its workers start."""
SEEDS = [1, *(pytest.param(seed, marks=heavy) for seed in range(2, 7))]


def start_until(place: Place, moment: str, seed: int) -> Process:
    """A driver at this stage, or shortly after it."""
    driver = start(place, "steady")
    wait_until(lambda: driver.poll() is not None or MOMENTS[moment](driver.pid, place))
    time.sleep(random.Random(f"{moment} {seed}").uniform(0, 0.3))
    assert driver.poll() is None, said(place)
    return driver


def finishes(place: Place, undisturbed: list[str]) -> None:
    assert start(place, "steady").wait(120) == 0, said(place)
    check_end(place, undisturbed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("moment", ["server", pytest.param("worker", marks=heavy)])
def test_a_run_goes_on_when_the_fork_server_is_killed_while_workers_start(
    place: Place, undisturbed: list[str], moment: str, seed: int
) -> None:
    driver = start_until(place, moment, seed)
    for pid in fork_servers(driver.pid, place.study):
        os.kill(pid, signal.SIGKILL)
    assert driver.wait(120) == 0, said(place)
    check_end(place, undisturbed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "moment", [each if each == "worker" else pytest.param(each, marks=heavy) for each in MOMENTS]
)
def test_an_interrupt_from_a_terminal_while_workers_start(
    place: Place, undisturbed: list[str], moment: str, seed: int
) -> None:
    """Ctrl-C reaches the whole process group: the driver, the fork server and new workers."""
    driver = start_until(place, moment, seed)
    os.killpg(driver.pid, signal.SIGINT)
    assert driver.wait(120) == 130, said(place)
    assert "Interrupted" in said(place)
    check_processes(place.study)
    finishes(place, undisturbed)
