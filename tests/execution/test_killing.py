"""Drivers and workers that are killed: at random moments, and at every system call of a commit."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import deepband
import killing
from aftermath import Expected, check, check_processes, undisturbed_outcomes
from deepband.analysis import export
from driving import wait_until
from killing import MODES
from progress import Progress
from torture import MARK, Place, Tally, processes_of, state_of, torture


def canonical(path: Path) -> list[str]:
    return list(export.canonical(deepband.open_study(path).session.state))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return undisturbed_outcomes(tmp_path_factory)


def rounds(
    folder: Path, names: Iterable[str], kills: int, expected: Expected
) -> Iterator[tuple[str, Tally]]:
    """Torture one study after another, each in the next mode, and check each at its end, until
    there were this many kills."""
    moment, made = random.Random(kills), 0
    for name in names:
        place = Place(folder / "tortured")
        place.folder.mkdir()
        tally = torture(place, name, min(15, kills - made), moment)
        check(place, MODES[name], tally.excused, expected(name))
        shutil.rmtree(place.folder)
        made += tally.kills
        yield name, tally
        if made >= kills:
            return


@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("plain-in-process", 3),
        ("plain", 2),
        ("constraints-in-process", 2),
        pytest.param("plain", 20, marks=pytest.mark.heavy),
        *(pytest.param(name, 8, marks=pytest.mark.heavy) for name in MODES),
    ],
)
def test_killing_loses_nothing_and_repeats_only_what_was_not_finished(
    tmp_path: Path, expected: Expected, name: str, kills: int
) -> None:
    for _ in rounds(tmp_path, itertools.repeat(name), kills, expected):
        pass


@pytest.mark.soak
@pytest.mark.timeout(7 * 86400)
def test_thousands_of_kills_in_every_mode(
    tmp_path: Path, expected: Expected, capsys: pytest.CaptureFixture[str]
) -> None:
    """The modes in rotation. Progress is appended to the file DEEPBAND_SOAK_LOG."""
    kills = int(os.environ.get("DEEPBAND_SOAK_KILLS", "10000"))
    with Progress(kills, capsys) as progress:
        modes = progress.through(itertools.cycle(MODES))
        for name, tally in rounds(tmp_path, modes, kills, expected):
            progress.add(name, tally)


IDLE = """
import killing, sys, time
worker = killing.idle()
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_worker_that_hears_nothing_ends_with_its_driver(tmp_path: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", IDLE],
        env={**os.environ, MARK: str(tmp_path)},
        cwd=Path(killing.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        assert len(processes_of(tmp_path)) >= 3  # itself, the server, the worker
        driver.kill()
    check_processes(tmp_path)


COMMIT = """
import os, signal, sys, deepband
study = deepband.open_study(sys.argv[1])
jobs = study.ask_all()
os.kill(os.getpid(), signal.SIGSTOP)  # until strace watches
study.tell_all([(job, job.index / 10) for job in jobs[:3]])
os.getppid()
os._exit(0)
"""


def commit_under_strace(path: Path, *options: str) -> tuple[int, list[str]]:
    """Make one commit in a process under strace; its exit code and the lines of the trace."""
    trace = Path(f"{path}.trace")
    with subprocess.Popen([sys.executable, "-c", COMMIT, str(path)]) as driver:
        wait_until(lambda: state_of(driver.pid) in "TZ")
        command = ["strace", "-p", str(driver.pid), "-o", str(trace), *options]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
            assert strace.stderr is not None
            assert "attached" in strace.stderr.readline()
            driver.send_signal(signal.SIGCONT)
            driver.wait()
    return driver.returncode, trace.read_text().splitlines()


def calls_of_a_commit(path: Path) -> list[tuple[str, int]]:
    """Every system call of a commit: its name, and how often it was called until then."""
    code, lines = commit_under_strace(path)
    assert code == 0
    counts: Counter[str] = Counter()
    calls: list[tuple[str, int]] = []
    for line in lines:
        match = re.match(r"(\w+)\(", line)
        if match is None:  # an unfinished wait, or a signal
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
