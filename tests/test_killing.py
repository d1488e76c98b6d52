"""Drivers that are killed: at random moments, and at every system call of a commit."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import deepband
import killing
from deepband import export
from deepband.outbox import Outbox


def canonical(path: Path) -> list[str]:
    return list(export.canonical(deepband.open_study(path).state))


MARK = "DEEPBAND_KILLING"
"""An environment variable that all processes of a study have."""


def start(path: Path, ledger: Path, workers: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, killing.__file__, str(path), str(ledger), str(workers)]
    return subprocess.Popen(command, env={**os.environ, MARK: str(path)})


def wait_for_work(driver: subprocess.Popen[bytes], ledger: Path) -> None:
    """Until the driver has evaluated something."""
    before = ledger.stat().st_size if ledger.exists() else 0
    while driver.poll() is None and not (ledger.exists() and ledger.stat().st_size > before):
        time.sleep(0.002)


@dataclass
class Tally:
    """How often what was killed."""

    drivers: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    """By what they were running: the workers."""

    @property
    def all(self) -> int:
        return self.drivers + self.jobs.total()


def torture(folder: Path, workers: int, most: int, moment: random.Random) -> Tally:
    """Run a study to its end, killing its driver or a worker at random moments on the way."""
    path, ledger = folder / "a.study", folder / "ledger"
    tally = Tally()
    while True:
        driver = start(path, ledger, workers)
        while tally.all < most and driver.poll() is None:
            wait_for_work(driver, ledger)
            time.sleep(moment.uniform(0, 0.05))
            outbox = Outbox(path.with_name(path.name + ".files"))
            victims = outbox.running() if workers > 1 else []
            if victims and moment.random() < 0.5:
                victim = moment.choice(victims)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim.pid, signal.SIGKILL)
                    tally.jobs["/".join(map(str, victim.key))] += 1
            else:
                driver.send_signal(signal.SIGKILL)
                driver.wait()
                tally.drivers += 1
        if driver.wait() == 0:
            return tally
        assert driver.returncode == -signal.SIGKILL


def check(folder: Path, tally: Tally, undisturbed: list[str], workers: int) -> None:
    """Nothing lost, nothing run again that was finished, nobody left behind."""
    path = folder / "a.study"
    assert canonical(path) == undisturbed
    evaluations = deepband.open_study(path).evaluations
    runs = Counter((folder / "ledger").read_text().splitlines())
    assert len(runs) == len(undisturbed)
    repeated = Counter({key: count - 1 for key, count in runs.items() if count > 1})
    if workers == 1:  # in process, the evaluation that was running is repeated, and with it
        # failures at the start of a call, which are held back until something succeeds
        failed = {"/".join(map(str, each[:3])) for each in evaluations if each.error}
        again = sum(count for key, count in repeated.items() if key not in failed)
        assert again <= tally.drivers
        assert repeated.total() - again <= 3 * tally.drivers
    else:  # a worker outlives its driver: only what was killed itself may be run again
        assert repeated <= tally.jobs
    check_that_nobody_is_left(path)
    assert list((folder / "a.study.files" / "outbox").iterdir()) == []


def check_that_nobody_is_left(path: Path) -> None:
    deadline = time.monotonic() + 60
    while (left := still_running(path)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


def still_running(path: Path) -> list[str]:
    """The command lines of all processes that were started for a study."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={path}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert start(folder / "a.study", folder / "ledger", 1).wait() == 0
    return canonical(folder / "a.study")


@pytest.mark.timeout(86400)
@pytest.mark.parametrize(
    ("workers", "kills"),
    [
        (1, 10),
        (2, 30),
        pytest.param(1, 50, marks=pytest.mark.heavy),
        pytest.param(2, 300, marks=pytest.mark.heavy),
        pytest.param(3, 10_000, marks=pytest.mark.soak),
    ],
)
def test_killing_loses_nothing_and_repeats_only_what_was_not_finished(
    tmp_path: Path, undisturbed: list[str], workers: int, kills: int
) -> None:
    moment = random.Random(kills)
    killed = 0
    for round_ in itertools.count():
        folder = tmp_path / str(round_)
        folder.mkdir()
        tally = torture(folder, workers, min(15, kills - killed), moment)
        check(folder, tally, undisturbed, workers)
        killed += tally.all
        shutil.rmtree(folder)
        if killed >= kills:
            return


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
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        assert len(still_running(tmp_path)) >= 3  # itself, the server, the worker
        driver.kill()
    check_that_nobody_is_left(tmp_path)


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
    while state_of(driver.pid) != "S":  # until it waits for its input: then no call comes early
        time.sleep(0.01)
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


def state_of(pid: int) -> str:
    """R for a process that runs, S for one that sleeps, and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


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
