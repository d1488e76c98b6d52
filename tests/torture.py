"""Kills a study's driver and workers at random moments, and checks what that did to the study.

A process is stopped before it is killed, so that the ledger and the job files say exactly what it
was doing when it died.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pytest

import deepband
import killing
from deepband import export
from deepband.checkpoints import Checkpoints
from deepband.facts import JobKey
from deepband.outbox import Outbox
from driving import wait_until
from killing import MODES, Ledger, Mode

MARK = "DEEPBAND_KILLING"
"""An environment variable that all processes of a study have."""
PACE = 0.02
"""How many seconds an evaluation takes at most."""
SECONDS_TO_HANG = 600.0


@dataclass(frozen=True)
class Place:
    """Where a study and its ledger are."""

    folder: Path

    @property
    def study(self) -> Path:
        return self.folder / "a.study"

    @property
    def files(self) -> Path:
        return self.folder / "a.study.files"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder / "ledger")


def start(place: Place, name: str, pace: float = PACE) -> subprocess.Popen[bytes]:
    command = [sys.executable, killing.__file__, str(place.study)]
    command += [str(place.ledger.path), name, str(pace)]
    return subprocess.Popen(command, env={**os.environ, MARK: str(place.study)})


class Outcome(NamedTuple):
    """What a study came to."""

    canonical: list[str]
    resumed: dict[JobKey, int | None]
    """From which rung's checkpoint each evaluation continued."""
    sealed: set[JobKey]
    """The checkpoints that are kept."""


def outcome(place: Place) -> Outcome:
    study = deepband.open_study(place.study)
    resumed = {(e.bracket, e.index, e.rung): e.resumed_from for e in study.evaluations}
    sealed = set(study.checkpoints.kept())
    return Outcome(list(export.canonical(study.state)), resumed, sealed)


def undisturbed(place: Place, name: str) -> Outcome:
    """What a mode comes to when nothing is killed."""
    assert start(place, name, pace=0).wait() == 0
    return outcome(place)


@dataclass
class Tally:
    """What was killed, and how often each job may be run again because of it."""

    drivers: int = 0
    workers: int = 0
    excused: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return self.drivers + self.workers


def torture(place: Place, name: str, most: int, moment: random.Random) -> Tally:
    """Run a study to its end, killing its driver or a worker at random moments on the way."""
    tally = Tally()
    try:
        while not run_and_kill(place, name, most, moment, tally):
            pass
    finally:
        for pid in processes_of(place.study):  # when the test itself fails or is interrupted
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return tally


def run_and_kill(place: Place, name: str, most: int, moment: random.Random, tally: Tally) -> bool:
    """Run a driver until it is killed, and kill workers meanwhile. Whether it came to the end."""
    mode, driver = MODES[name], start(place, name)
    while tally.kills < most and wait_for_work(driver, place.ledger):
        time.sleep(moment.uniform(0, 0.05))
        workers = [] if mode.in_process else workers_of(driver.pid, place.study)
        if workers and moment.random() < 0.5:
            kill_worker(moment.choice(workers), place, tally)
        else:
            kill_driver(driver, place, mode, tally)
    code = driver.wait(SECONDS_TO_HANG)
    assert code in (0, -signal.SIGKILL)
    return code == 0


def wait_for_work(driver: subprocess.Popen[bytes], ledger: Ledger) -> bool:
    """Wait until something more has been evaluated; False if the driver ends before that."""
    path = ledger.path
    before = path.stat().st_size if path.exists() else 0
    wait_until(
        lambda: driver.poll() is not None or (path.exists() and path.stat().st_size > before),
        SECONDS_TO_HANG,
    )
    return driver.poll() is None


def kill_driver(driver: subprocess.Popen[bytes], place: Place, mode: Mode, tally: Tally) -> None:
    """A driver takes only its own evaluations with it: workers outlive it."""
    if not stopped(driver.pid):
        return
    if mode.in_process:
        ledger = place.ledger
        begun = set(ledger.jobs("began")) - set(ledger.jobs("recorded"))
        assert len(begun) <= mode.unrecorded
        tally.excused.update(begun)
    driver.kill()
    driver.wait()
    tally.drivers += 1


def kill_worker(pid: int, place: Place, tally: Tally) -> None:
    if not stopped(pid):
        return
    held = [running.key for running in Outbox(place.files).running() if running.pid == pid]
    if not held:
        os.kill(pid, signal.SIGCONT)
        return
    os.kill(pid, signal.SIGKILL)
    tally.excused.update("/".join(map(str, key)) for key in held)
    tally.workers += 1


def stopped(pid: int) -> bool:
    """Stop a process; False if it has ended by itself."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) in "TtZX")
    return state_of(pid) in "Tt"


def state_of(pid: int) -> str:
    """R for a process that runs, S for one that sleeps, T for one that is stopped, and so on; X
    when there is none."""
    fields = stat_of(pid)
    return fields[0] if fields else "X"


def stat_of(pid: int) -> list[str]:
    """What the kernel says of a process: its state, its parent and more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def processes_of(study: Path) -> dict[int, str]:
    """All processes that were started for a study, with their command lines."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={study}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    return found


def fork_servers(driver: int, study: Path) -> list[int]:
    """The process that workers of a driver are forked from."""
    return [pid for pid in forked(study) if stat_of(pid)[1:2] == [str(driver)]]


def workers_of(driver: int, study: Path) -> list[int]:
    """The workers of a study: of this driver, and those that an earlier one left."""
    return sorted(set(forked(study)) - set(fork_servers(driver, study)))


def forked(study: Path) -> list[int]:
    return [pid for pid, line in processes_of(study).items() if "forkserver" in line]


def check(place: Place, mode: Mode, tally: Tally, expected: Outcome) -> None:
    """Nothing lost, nothing run again that was finished, nothing left behind."""
    found = outcome(place)
    assert found.canonical == expected.canonical
    check_repetitions(place.ledger, mode, tally.excused, len(expected.canonical))
    check_processes(place.study)
    check_folder(place)
    if mode.keep in ("newest", "all", "none"):
        assert found.resumed == expected.resumed
    assert found.sealed == expected.sealed


def check_repetitions(ledger: Ledger, mode: Mode, excused: Counter[str], evaluations: int) -> None:
    """Every job was run once, and again only as often as it was killed while it ran."""
    for event in ("began", "ran"):
        counts = Counter(ledger.jobs(event))
        assert len(counts) == evaluations
        repeated = Counter({job: count - 1 for job, count in counts.items()})
        assert (repeated - excused).total() <= mode.cut_short, repeated - excused
    check_order(ledger)


def check_order(ledger: Ledger) -> None:
    """No job was begun after its result was recorded."""
    recorded: set[str] = set()
    for line in ledger.path.read_text().splitlines():
        event, job = line.split(" ", 1)
        assert event == "recorded" or job not in recorded, f"{job} was recorded, and {event} again"
        if event == "recorded":
            recorded.add(job)


def check_processes(study: Path) -> None:
    wait_until(lambda: not processes_of(study))


def check_folder(place: Place) -> None:
    """Everything beside the study is accounted for."""
    assert names(place.folder) <= {"a.study", "a.study.files", "ledger"}
    known = {"checkpoints", "driver.json", "jobs", "lock", "outbox", "output"}
    assert names(place.files) <= known
    for folder in ("jobs", "outbox", "output"):
        assert names(place.files / folder) == set(), folder
    check_checkpoints(deepband.open_study(place.study).checkpoints)


def check_checkpoints(checkpoints: Checkpoints) -> None:
    """Nothing is there but sealed checkpoints of this study."""
    assert names(checkpoints.folder.parent) <= {checkpoints.folder.name}
    assert names(checkpoints.attempts) == set()
    sealed = {"/".join(map(str, key)) for key in checkpoints.kept()}
    found = {str(each.relative_to(checkpoints.folder)) for each in checkpoints.folder.glob("*/*/*")}
    assert found == sealed | {f"{each}.json" for each in sealed}


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


class Progress:
    """How far a soak has come. It says so after every study, on the terminal and in the file
    DEEPBAND_SOAK_LOG, so that one that is stopped halfway can be reported too. Only kills whose
    study was checked afterwards are counted."""

    def __init__(self, goal: int, capsys: pytest.CaptureFixture[str]) -> None:
        self.goal = goal
        self.tally = Tally()
        self.modes: Counter[str] = Counter()
        self.studies = 0
        self._capsys = capsys
        self._log = os.environ.get("DEEPBAND_SOAK_LOG")

    def __enter__(self) -> Progress:
        self._say(f"begins: {self.goal} kills in {len(MODES)} modes")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        violated = kind is not None and issubclass(kind, AssertionError)
        ending = "finished" if kind is None else f"stopped by {kind.__name__}: {error}"
        modes = ", ".join(f"{name} {count}" for name, count in self.modes.items())
        self._say(f"{ending}; {self._reached()}; violations {int(violated)}; by mode: {modes}")

    def add(self, name: str, tally: Tally) -> None:
        self.studies += 1
        self.tally.drivers += tally.drivers
        self.tally.workers += tally.workers
        self.modes[name] += tally.kills
        self._say(f"{self._reached()}; violations 0; last mode: {name}")

    def _reached(self) -> str:
        tally = self.tally
        return (
            f"{tally.kills} of {self.goal} kills ({tally.drivers} of drivers, {tally.workers} of "
            f"workers) in {self.studies} studies"
        )

    def _say(self, text: str) -> None:
        line = f"{datetime.now().isoformat(timespec='seconds')} soak: {text}"
        with self._capsys.disabled():
            print(line, flush=True)
        if self._log:
            with open(self._log, "a") as log:
                print(line, file=log)
