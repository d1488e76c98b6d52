"""Drivers that are killed: at random moments, and at every system call of a commit."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import deepband
import killing
from deepband import export


def canonical(path: Path) -> list[str]:
    return list(export.canonical(deepband.open_study(path).state))


def start(path: Path, ledger: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, killing.__file__, str(path), str(ledger)])


def wait_for_work(driver: subprocess.Popen[bytes], ledger: Path) -> None:
    """Until the driver has evaluated something."""
    before = ledger.stat().st_size if ledger.exists() else 0
    while driver.poll() is None and not (ledger.exists() and ledger.stat().st_size > before):
        time.sleep(0.002)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert start(folder / "a.study", folder / "ledger").wait() == 0
    return canonical(folder / "a.study")


@pytest.mark.parametrize("kills", [10, pytest.param(20, marks=pytest.mark.heavy)])
def test_a_killed_driver_loses_and_repeats_nothing_but_what_was_running(
    tmp_path: Path, undisturbed: list[str], kills: int
) -> None:
    path, ledger = tmp_path / "a.study", tmp_path / "ledger"
    moment = random.Random(kills)
    killed = 0
    while True:
        driver = start(path, ledger)
        if killed < kills:
            wait_for_work(driver, ledger)
            time.sleep(moment.uniform(0, 0.05))
            driver.send_signal(signal.SIGKILL)
        code = driver.wait()
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
    assert canonical(path) == undisturbed
    runs = Counter(ledger.read_text().splitlines())
    assert len(runs) == len(undisturbed)
    assert sum(runs.values()) - len(runs) <= killed
    assert killed == kills


COMMIT = """
import os, sys, deepband
study = deepband.open_study(sys.argv[1])
jobs = study.ask_all()
print("ready", flush=True)
sys.stdin.readline()
study.tell_all([(job, job.index / 10) for job in jobs[:3]])
os.getppid()
os._exit(0)
"""


def commit_under_strace(path: Path, *options: str) -> tuple[int, list[str]]:
    """Make one commit in a process that strace watches from just before it; how the process
    ended, and the lines of the trace."""
    driver = subprocess.Popen(
        [sys.executable, "-c", COMMIT, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    trace = Path(f"{path}.trace")
    strace = subprocess.Popen(
        ["strace", "-p", str(driver.pid), "-o", str(trace), *options],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None
    assert "attached" in strace.stderr.readline()
    driver.communicate("go\n")
    strace.communicate()
    return driver.returncode, trace.read_text().splitlines()


def calls_of_a_commit(path: Path) -> list[tuple[str, int]]:
    """Every system call of a commit, as its name and how many times it was called by then."""
    code, lines = commit_under_strace(path)
    assert code == 0
    counts: Counter[str] = Counter()
    calls: list[tuple[str, int]] = []
    for line in lines:
        match = re.match(r"(\w+)\(", line)
        if match is None:  # the wait that was going on, a signal
            continue
        name = match[1]
        if name == "getppid":
            return calls
        counts[name] += 1
        calls.append((name, counts[name]))
    raise AssertionError("the commit did not end")


def kill_at(path: Path, name: str, number: int) -> None:
    """Commit in a process that is killed at its number-th call of this name."""
    code, _ = commit_under_strace(path, "-e", f"inject={name}:signal=SIGKILL:when={number}")
    assert code == -signal.SIGKILL, f"{name} {number} was not killed"


@pytest.mark.heavy
def test_a_driver_killed_at_any_system_call_of_a_commit_leaves_whole_commits(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "whole.study"
    with deepband.open_study(whole, space=killing.SPACE, max_budget=9, seed=1) as study:
        study.tell(study.ask_all()[0], 0.5)  # all configs are drawn, the commit is small
    shutil.copy(whole, tmp_path / "trial.study")
    calls = calls_of_a_commit(tmp_path / "trial.study")
    assert {"pwrite64", "fdatasync", "unlink"} <= {name for name, _ in calls}
    counts = set()
    for name, number in calls:
        path = tmp_path / f"{name}-{number}.study"
        shutil.copy(whole, path)
        kill_at(path, name, number)
        study = deepband.open_study(path)
        counts.add(len(study.evaluations))
        with study:
            while job := study.ask():
                study.tell(job, job.index / 10)
        assert len(canonical(path)) == 22
    assert counts == {1, 4}


@pytest.mark.heavy
def test_a_reader_mends_what_a_killed_driver_left(tmp_path: Path) -> None:
    """A hot journal: its reader takes the free lock, rolls it back once and reads."""
    path = tmp_path / "hot.study"
    with deepband.open_study(path, space=killing.SPACE, max_budget=9, seed=1) as study:
        study.ask_all()
    calls = calls_of_a_commit(path)
    shutil.rmtree(tmp_path / "hot.study.files")
    path.unlink()
    with deepband.open_study(path, space=killing.SPACE, max_budget=9, seed=1) as study:
        study.ask_all()
    kill_at(path, "unlink", max(count for name, count in calls if name == "unlink"))
    journal = tmp_path / "hot.study-journal"
    assert journal.stat().st_size > 0
    assert deepband.open_study(path).evaluations == []
    assert not journal.exists()
    assert os.path.exists(path)
