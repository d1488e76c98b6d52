"""Ctrl-C once, twice, three times; SIGTERM; and drivers that follow a dead one."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest

import deepband
import preloaded
from deepband.core.facts import JobKey
from deepband.execution.outbox import Outbox, RunningJobs
from deepband.system.interrupts import answer_to
from driving import wait_until
from preloaded import Process
from torture import state_of

TRAIN = """
import os, time
space = {"x": (0.0, 1.0)}

def steady(config, budget):
    time.sleep(0.5)
    with open("ledger", "a") as ledger:
        ledger.write(f"{config['x']} {budget}\\n")
    return config["x"]

def quick(config, budget):
    return config["x"]

def slow_above(config, budget):
    if budget > 1:
        time.sleep(1)
    return config["x"]

def deaf(config, budget):
    open("stuck", "w").close()
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass

def stubborn(config, budget):
    if config["x"] > 0.5:
        open("stuck", "w").close()
        time.sleep(120)
    return config["x"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def start(folder: Path, objective: str, workers: int, *more: str) -> Process:
    command = ["-m", "deepband", "run", "a.study", f"train.py:{objective}"]
    command += ["--workers", str(workers), "--max-budget", "9", *more]
    with (folder / "said").open("w") as said:
        return Process(command, cwd=folder, stdout=said, stderr=said)


def wait_until_running(folder: Path, process: Process, count: int) -> list[RunningJobs]:
    """The running jobs, as soon as there are `count`."""
    outbox = Outbox(folder / "a.study.files")
    while process.poll() is None:
        if len(running := outbox.running()) >= count:
            return running
        time.sleep(0.01)
    raise AssertionError("nothing ran")


def wait_until_stuck(folder: Path, process: Process) -> None:
    """Wait until an evaluation that never ends has begun."""
    wait_until(lambda: (folder / "stuck").exists() or process.poll() is not None)
    assert process.poll() is None


def interrupt(process: Process) -> None:
    """Send SIGINT, and wait until it is handled: two signals that wait to be handled are one. The
    process is asleep before, so it has to wake up, and sleeps again afterwards."""
    if sys.platform != "linux":  # it cannot be seen
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        return
    wait_until(lambda: state_of(process.pid) == "S")
    before = switches_of(process.pid)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: switches_of(process.pid) > before and state_of(process.pid) == "S")


def switches_of(pid: int) -> int:
    """How often a process has gone to sleep."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


def known(folder: Path) -> set[JobKey]:
    evaluations = deepband.open_study(folder / "a.study").evaluations
    return {(each.bracket, each.index, each.rung) for each in evaluations}


def finishes(folder: Path) -> bool:
    command = ["-m", "deepband", "run", "a.study", "train.py:quick", "--workers", "2"]
    done = preloaded.run(command, folder)
    return done.returncode == 0 and deepband.open_study(folder / "a.study").done


def no_jobs_left(folder: Path) -> bool:
    wait_until(lambda: not Outbox(folder / "a.study.files").running())
    return True


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (signal.SIGINT, 2),
        (signal.SIGTERM, 1),
        pytest.param(signal.SIGINT, 1, marks=pytest.mark.heavy),
        pytest.param(signal.SIGTERM, 2, marks=pytest.mark.heavy),
    ],
)
def test_once_lets_running_jobs_end_and_records_them(
    folder: Path, workers: int, number: signal.Signals
) -> None:
    process = start(folder, "steady", workers)
    running = wait_until_running(folder, process, workers)
    process.send_signal(number)
    assert process.wait(timeout=30) == 130
    said = (folder / "said").read_text()
    assert "Interrupted" in said
    assert f"\n{answer_to(number, workers)}\n" in said
    assert {job.key for job in running} <= known(folder)
    assert no_jobs_left(folder)
    assert finishes(folder)


@pytest.mark.parametrize("workers", [1, 2])
def test_twice_ends_workers_at_once(folder: Path, workers: int) -> None:
    process = start(folder, "stubborn", workers)
    wait_until_stuck(folder, process)
    interrupt(process)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert no_jobs_left(folder)
    assert finishes(folder)


def test_three_times_ends_on_the_spot_and_the_study_is_whole(folder: Path) -> None:
    process = start(folder, "deaf", 1)
    wait_until_stuck(folder, process)
    for _ in range(2):
        interrupt(process)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert finishes(folder)


def test_a_terminated_driver_does_not_wait_for_ever(folder: Path) -> None:
    script = """
import sys, time, deepband, deepband.system.interrupts
deepband.system.interrupts.SECONDS_TO_END = 0.2
study = deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=9)
study.optimize(lambda config, budget: time.sleep(60))
"""
    process = Process(["-c", script], cwd=folder)
    outbox = Outbox(folder / "a.study.files")
    while not outbox.running():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) != 0
    assert finishes(folder)


def kill_driver(folder: Path, workers: int = 2) -> list[RunningJobs]:
    """Kill a driver; the jobs that its workers are still running."""
    process = start(folder, "steady", workers)
    running = wait_until_running(folder, process, workers)
    process.kill()
    process.wait()
    return running


def test_a_new_driver_waits_for_what_orphans_run(folder: Path) -> None:
    orphans = kill_driver(folder)
    process = start(folder, "steady", 2, "--max-cost", "2")
    process.wait(timeout=60)
    assert {orphan.key for orphan in orphans} <= known(folder)
    evaluated = (folder / "ledger").read_text().splitlines()
    assert len(evaluated) == len(set(evaluated))  # waited for, and not run again
    assert list((folder / "a.study.files").glob("outbox/*")) == []
    assert no_jobs_left(folder)


def test_results_that_came_while_no_driver_was_there_are_taken_in(folder: Path) -> None:
    kill_driver(folder)
    before = known(folder)
    assert no_jobs_left(folder)
    waiting = Outbox(folder / "a.study.files").waiting()
    assert len(waiting) >= 2
    with deepband.open_study(folder / "a.study") as study:
        study.optimize(lambda config, budget: 1.0, max_cost=0)
        assert known(folder) == before | {attempt.job.key for (attempt,) in waiting}


def test_results_of_a_run_that_was_extended_meanwhile_are_taken_in(folder: Path) -> None:
    process = start(folder, "slow_above", 2)
    running = wait_until_running(folder, process, 2)
    while not all(job.key[0] < job.key[2] for job in running):
        running = wait_until_running(folder, process, 2)
    process.kill()
    process.wait()
    with deepband.open_study(folder / "a.study") as study:
        study.extend("discarding", width=2, unfinished=True)
        study.optimize(lambda config, budget: 7.0, max_cost=0)
        losses = {(e.bracket, e.index, e.rung): e.loss for e in study.evaluations}
        assert all(losses[job.key] != 7.0 for job in running)
        study.optimize(lambda config, budget: 7.0)
        assert study.done
        assert not study.session.state.late.running


def test_orphans_can_be_given_up_and_their_late_results_are_refused(folder: Path) -> None:
    orphans = kill_driver(folder)
    with deepband.open_study(folder / "a.study") as study:
        start_time = time.monotonic()
        study.optimize(lambda config, budget: 7.0, max_cost=4, wait=False)
        assert time.monotonic() - start_time < 5
        losses = {(e.bracket, e.index, e.rung): e.loss for e in study.evaluations}
        assert all(losses[orphan.key] == 7.0 for orphan in orphans)
    assert no_jobs_left(folder)
    assert Outbox(folder / "a.study.files").waiting() == []


def test_an_orphan_past_its_deadline_is_ended(folder: Path) -> None:
    process = start(folder, "stubborn", 2, "--timeout", "2")
    wait_until_stuck(folder, process)
    process.kill()
    process.wait()
    start_time = time.monotonic()
    with deepband.open_study(folder / "a.study") as study:
        study.optimize(lambda config, budget: 1.0)
        assert study.done
    assert time.monotonic() - start_time < 30
    assert no_jobs_left(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"job": [0, 0, 0, 1, {"x": 99.0}, ""]},
        {"job": [0, 0, 1, 3, {"x": 0.5}, ""]},
        {"job": [0, 0, 0, 1, {"x": 0.5}, "another"]},
        {"job": 3},
        {"loss": []},
    ],
)
def test_a_result_that_does_not_match_is_refused(folder: Path, change: dict[str, object]) -> None:
    with deepband.open_study(folder / "a.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
        job = study.ask()
        assert job is not None
        outbox = Outbox(study.session.files)
        row: dict[str, object] = {"job": list(job), "loss": "0.5", "curve": []}
        row |= {"error": None, "metrics": None, "seconds": 1.0, "resumed_from": None}
    path = outbox.results / "0-0-0.abcd"
    for content, count in ((row | change, 0), (row, 1)):
        outbox.make()  # the folder goes with the lock
        path.write_text(json.dumps(content))
        with deepband.open_study(folder / "a.study") as study:
            study.optimize(lambda config, budget: 1.0, max_cost=0)
            assert len(study.evaluations) == count
        assert not path.exists()
