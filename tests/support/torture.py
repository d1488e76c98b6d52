"""Kills a study's driver and workers at random moments.

A process is stopped before it is killed, so that the ledger and the job files show exactly what it
was doing when it died.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import killing
from deepband.execution.outbox import Outbox
from driving import wait_until
from killing import MODES, Ledger, Mode
from preloaded import Process

MARK = "DEEPBAND_KILLING"
"""An environment variable that all processes of a study have."""
PACE = 0.02
"""The longest duration of an evaluation, in seconds."""
SECONDS_TO_HANG = 600.0
KINDS, WEIGHTS = ("driver", "worker", "server"), (45, 45, 10)
"""What is killed, and its relative frequency."""


@dataclass(frozen=True)
class Place:
    """The location of a study and its ledger."""

    folder: Path
    ledger_folder: Path | None = None
    """None if it is the same folder."""

    @property
    def study(self) -> Path:
        return self.folder / "a.study"

    @property
    def files(self) -> Path:
        return self.folder / "a.study.files"

    @property
    def ledger(self) -> Ledger:
        return Ledger((self.ledger_folder or self.folder) / "ledger")


_drivers: dict[Path, list[Process]] = {}
"""The drivers of each study, because their environment in /proc is that of a server."""


def start(place: Place, name: str, pace: float = PACE, enter: Sequence[str] = ()) -> Process:
    """A driver; `enter` is the command that runs it somewhere else."""
    arguments = [killing.__file__, place.study, place.ledger.path, name, pace]
    return start_driver(place.study, arguments, enter=enter)


def start_driver(study: Path, arguments: Sequence[object], **options: Any) -> Process:
    """A process that `processes_of` finds, as well as those that it starts."""
    driver = Process(arguments, env={**os.environ, MARK: str(study)}, **options)
    _drivers.setdefault(study, []).append(driver)
    return driver


@dataclass
class Tally:
    """What was killed, and how often each job may therefore be run again."""

    drivers: int = 0
    workers: int = 0
    servers: int = 0
    """The fork servers that workers are forked from."""
    excused: Counter[str] = field(default_factory=Counter)

    @property
    def kills(self) -> int:
        return self.drivers + self.workers + self.servers


def torture(place: Place, name: str, most: int, moment: random.Random) -> Tally:
    """Run a study to its end, killing its driver or a worker at random moments."""
    tally = Tally()
    try:
        while not run_and_kill(place, name, most, moment, tally):
            pass
    finally:
        end_all(place.study)
    return tally


def run_and_kill(place: Place, name: str, most: int, moment: random.Random, tally: Tally) -> bool:
    """Run a driver until it is killed, and kill workers meanwhile; whether the study finished."""
    mode, earlier = MODES[name], place.ledger.size
    with start(place, name) as driver:
        try:
            while tally.kills < most and wait_for_work(driver, place.ledger):
                time.sleep(moment.uniform(0, 0.05))
                kind = "driver" if mode.in_process else moment.choices(KINDS, WEIGHTS)[0]
                if kind == "driver":
                    kill_driver(driver, place, mode, tally, earlier)
                elif kind == "worker":
                    kill_worker(moment, driver.pid, place, tally)
                else:
                    kill_server(driver.pid, place, tally)
            code = driver.wait(SECONDS_TO_HANG)
        finally:
            driver.kill()  # if an assertion failed while it was stopped
    assert code in (0, -signal.SIGKILL), f"the driver ended with {code}"
    return code == 0


def wait_for_work(driver: Process, ledger: Ledger) -> bool:
    """Wait for another event in the ledger; False if the driver ends before that."""
    before = ledger.size
    wait_until(lambda: driver.poll() is not None or ledger.size > before, SECONDS_TO_HANG)
    return driver.poll() is None


def kill_driver(driver: Process, place: Place, mode: Mode, tally: Tally, earlier: int) -> None:
    """Kill a driver. Only evaluations in its own process are lost: workers outlive it. `earlier` is
    the size of the ledger when this driver started."""
    if not stopped(driver.pid):
        return
    if mode.in_process:
        ledger = place.ledger
        begun = set(ledger.jobs("began", earlier)) - set(ledger.jobs("recorded"))
        assert len(begun) <= mode.unrecorded
        tally.excused.update(begun - set(ledger.jobs("finished")))
    driver.kill()
    driver.wait()
    tally.drivers += 1


def kill_worker(moment: random.Random, driver: int, place: Place, tally: Tally) -> None:
    """Kill a worker. Only the jobs that it holds and has not finished are lost, if any."""
    workers = workers_of(driver, place.study)
    pid = moment.choice(workers) if workers else 0
    if not pid or not stopped(pid):
        return
    running = [each for each in Outbox(place.files).running() if each.pid == pid]
    held = {"/".join(map(str, key)) for each in running for key in each.keys}
    os.kill(pid, signal.SIGKILL)
    tally.excused.update(held - set(place.ledger.jobs("finished")))
    tally.workers += 1


def kill_server(driver: int, place: Place, tally: Tally) -> None:
    """Kill the fork server. Its workers continue; others are forked from a new server."""
    for pid in fork_servers(driver, place.study):
        os.kill(pid, signal.SIGKILL)
        tally.servers += 1


def stopped(pid: int) -> bool:
    """Stop a process; False if it has already ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: state_of(pid) in "TtZX")
    return state_of(pid) in "Tt"


def state_of(pid: int) -> str:
    """The state of a process: R (running), S (sleeping), T (stopped) and so on; X if it does not
    exist."""
    fields = stat_of(pid)
    return fields[0] if fields else "X"


def stat_of(pid: int) -> list[str]:
    """The kernel's information on a process: its state, its parent and more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def processes_of(study: Path) -> dict[int, str]:
    """All processes that were started for a study, with their command lines."""
    drivers = _drivers.get(study, [])
    found = {driver.pid: "driver" for driver in drivers if driver.poll() is None}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={study}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
    return found


def end_all(study: Path) -> None:
    """Kill all processes of a study when a test fails or is interrupted."""
    for pid in processes_of(study):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def fork_servers(driver: int, study: Path) -> list[int]:
    """The processes that workers of a driver are forked from."""
    return [pid for pid in forked(study) if stat_of(pid)[1:2] == [str(driver)]]


def workers_of(driver: int, study: Path) -> list[int]:
    """The workers of a study, including those that an earlier driver left behind."""
    return sorted(set(forked(study)) - set(fork_servers(driver, study)))


def forked(study: Path) -> list[int]:
    return [pid for pid, line in processes_of(study).items() if "forkserver" in line]
