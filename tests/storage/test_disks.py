"""Full disks: a run continues, or stops with a StorageError and can be resumed later."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import deepband
import preloaded
from aftermath import (
    Expected,
    Outcome,
    check_checkpoints,
    check_folder,
    check_order,
    check_processes,
    check_repetitions,
    outcome,
    undisturbed_outcomes,
)
from deepband.analysis import export
from disks import Disk, mounted
from driving import wait_until
from killing import MODES, SPACE, STORAGE_FAILED, open_study
from preloaded import Process
from torture import SECONDS_TO_HANG, Place, end_all, start, wait_for_work


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return undisturbed_outcomes(tmp_path_factory)


@dataclass
class Bed:
    """A study on a small disk."""

    place: Place
    disk: Disk
    excused: Counter[str] = field(default_factory=Counter)
    """Jobs that ran and could not be recorded."""

    def start(self, name: str) -> Process:
        return start(self.place, name, enter=self.disk.enter)

    def end(self, driver: Process) -> int:
        """The exit code of a driver."""
        code = driver.wait(SECONDS_TO_HANG)
        ledger = self.place.ledger
        self.excused.update(set(ledger.jobs("ran")) - set(ledger.jobs("recorded")))
        return code

    def end_while_full(self, driver: Process) -> int:
        """The exit code of a driver whose disk is kept full until it ends."""
        while driver.poll() is None:
            self.disk.fill()
            time.sleep(0.01)
        return self.end(driver)

    def copy(self, folder: Path) -> Place:
        """A copy of the study that can be opened: SQLite resolves links, so it cannot open the
        original through /proc."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.disk.outside(self.place.folder), folder)
        return Place(folder, self.place.ledger_folder)

    def check(self, folder: Path, expected: Outcome, cut_short: int = 0) -> None:
        """Check that nothing was lost, repeated after it was recorded, or left behind. A run that
        ends may cut short a few evaluations ahead of the next one."""
        check_processes(self.place.study)
        copy = self.copy(folder)
        study = deepband.open_study(copy.study)
        assert outcome(study).canonical == expected.canonical
        check_repetitions(copy.ledger, "ran", self.excused, cut_short)
        check_order(copy.ledger)
        check_folder(copy)
        check_checkpoints(study.session.checkpoints)


@contextmanager
def bed(folder: Path, options: str = "size=8m") -> Iterator[Bed]:
    """A small disk that the study and its folder of files share."""
    with _bed(Place(folder / "study", folder), folder / "study", options) as patient:
        yield patient


@contextmanager
def bed_of_files(folder: Path, name: str, options: str = "size=8m") -> Iterator[Bed]:
    """A small disk for the folder of a study of this mode. The study file itself is on a disk with
    enough space."""
    place = Place(folder / "study", folder)
    place.folder.mkdir()
    open_study(place.study, MODES[name]).close()
    with _bed(place, place.files, options) as patient:
        yield patient


@contextmanager
def _bed(place: Place, mount: Path, options: str) -> Iterator[Bed]:
    with mounted(mount, options) as disk:
        try:
            yield Bed(place, disk)
        finally:
            end_all(place.study)


def test_a_study_is_not_made_on_a_full_disk(
    tmp_path: Path, expected: Expected, capfd: pytest.CaptureFixture[str]
) -> None:
    with bed(tmp_path) as patient:
        patient.disk.fill()
        assert patient.end(patient.start("service")) == STORAGE_FAILED
        assert "full" in capfd.readouterr().err
        assert not patient.disk.outside(patient.place.study).exists()
        patient.disk.free()
        assert patient.end(patient.start("service")) == 0
        patient.check(tmp_path / "copy", expected("service"))


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.heavy) for n in (2, 3, 4))]
)
def test_a_disk_that_is_full_at_a_commit_stops_the_run(
    tmp_path: Path, expected: Expected, capfd: pytest.CaptureFixture[str], seed: int
) -> None:
    """The service saves nothing: only commits write."""
    with bed(tmp_path) as patient:
        driver = patient.start("service")
        assert wait_for_work(driver, patient.place.ledger)
        time.sleep(random.Random(seed).uniform(0, 0.2))
        assert patient.end_while_full(driver) == STORAGE_FAILED
        assert "full" in capfd.readouterr().err
        check_recorded(patient, tmp_path / "copy")
        patient.disk.free()
        assert patient.end(patient.start("service")) == 0
        patient.check(tmp_path / "copy", expected("service"))


def check_recorded(patient: Bed, folder: Path) -> None:
    """Recorded results can be read from a full disk."""
    study = deepband.open_study(patient.copy(folder).study)
    known = {f"{each.bracket}/{each.index}/{each.rung}" for each in study.evaluations}
    assert known >= set(patient.place.ledger.jobs("recorded"))


def test_results_and_output_that_cannot_be_written_are_still_recorded(
    tmp_path: Path, expected: Expected
) -> None:
    """Workers can write neither results nor output, but the driver receives the results directly,
    and the study file is on another disk."""
    with bed_of_files(tmp_path, "printing") as patient:
        patient.disk.fill()
        assert patient.end_while_full(patient.start("printing")) == 0
        patient.disk.free()
        patient.check(tmp_path / "copy", expected("printing"))
        assert patient.excused.total() == 0


def test_output_that_fills_the_disk_is_cut_off(tmp_path: Path, expected: Expected) -> None:
    """70 evaluations print 20,000 characters each."""
    with bed_of_files(tmp_path, "printing", "size=500k") as patient:
        assert patient.end(patient.start("printing")) == 0
        patient.check(tmp_path / "copy", expected("printing"))
        sizes = [file.stat().st_size for file in (tmp_path / "copy").rglob("output/*")]
        assert 0 < sum(sizes) <= 500 * 1024


@pytest.mark.parametrize(
    "name", ["keep-all", pytest.param("plain-in-process", marks=pytest.mark.heavy)]
)
def test_a_disk_that_is_full_for_checkpoints_stops_the_run(
    tmp_path: Path, expected: Expected, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """ENOSPC inside the objective says nothing about a config: the job is retried once, and then
    nothing is recorded for it."""
    with bed_of_files(tmp_path, name) as patient:
        driver = patient.start(name)
        assert wait_for_work(driver, patient.place.ledger)
        assert patient.end_while_full(driver) == STORAGE_FAILED
        assert "because of the machine" in capfd.readouterr().err
        ledger = patient.place.ledger
        begun = Counter(ledger.jobs("began"))
        for job in ledger.jobs("recorded"):
            del begun[job]
        assert max(begun.values()) == 2
        patient.disk.free()
        assert patient.end(patient.start(name)) == 0
        patient.check(tmp_path / "copy", expected(name))


@pytest.mark.heavy
def test_a_disk_without_inodes_stops_the_run(
    tmp_path: Path, expected: Expected, capfd: pytest.CaptureFixture[str]
) -> None:
    """Workers cannot even create a job file."""
    with bed_of_files(tmp_path, "printing", "size=8m,nr_inodes=2000") as patient:
        driver = patient.start("printing")
        assert wait_for_work(driver, patient.place.ledger)
        while driver.poll() is None:
            patient.disk.fill_inodes()
            time.sleep(0.01)
        assert patient.end(driver) == STORAGE_FAILED, capfd.readouterr().err
        patient.disk.free()
        assert patient.end(patient.start("printing")) == 0
        patient.check(tmp_path / "copy", expected("printing"))


WITHOUT_CONTEXT = """
import os, sys, time, deepband

def train(config, budget):
    with open(sys.argv[2], "a") as begun:
        begun.write("x")
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.01)
    time.sleep(0.05)
    return config["x"] / budget

with deepband.open_study(sys.argv[1]) as study:
    try:
        study.optimize(train, workers=2)
    except deepband.StorageError as error:
        print("StorageError:", error)
"""


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Keep everything below a folder open: inodes are in use even when their names are removed."""
    with ExitStack() as held:
        for path in (folder, *folder.rglob("*")):
            held.callback(os.close, os.open(path, os.O_RDONLY))
        yield


def test_a_job_that_cannot_be_held_is_no_verdict(tmp_path: Path) -> None:
    """Without a context, a worker creates nothing but a job file. If that fails, the config is not
    at fault. Both workers have a job file before the disk is full, no evaluation ends before that,
    and nothing that is removed makes room for another file."""
    with bed_of_files(tmp_path, "printing", "size=1m,nr_inodes=300") as patient:
        begun, full = patient.place.ledger.path, tmp_path / "full"
        command = ["-c", WITHOUT_CONTEXT, *map(str, (patient.place.study, begun, full))]
        enter = patient.disk.enter
        with (tmp_path / "said").open("w") as said:
            driver = Process(command, enter=enter, stdout=said)
        wait_until(lambda: begun.exists() and begun.stat().st_size == 2)
        patient.disk.fill_inodes()
        with opened(patient.disk.outside(patient.place.files)):
            full.touch()
            driver.wait(SECONDS_TO_HANG)
        assert (tmp_path / "said").read_text().startswith("StorageError")
        patient.disk.free()
        done = preloaded.run(command, tmp_path, enter=enter)
        assert (done.returncode, done.stdout) == (0, "")
        copy = deepband.open_study(patient.copy(tmp_path / "copy").study)
    alone = deepband.open_study(space=SPACE, max_budget=9, seed=11)
    alone.optimize(lambda config, budget: config["x"] / budget)
    assert list(export.canonical(copy.session.state)) == list(export.canonical(alone.session.state))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["plain", "plain-in-process", "automatic", "keep-top:1", "ahead"])
def test_a_disk_that_is_full_again_and_again_costs_nothing_recorded(
    tmp_path: Path, expected: Expected, name: str
) -> None:
    moment = random.Random(name)
    with bed(tmp_path) as patient:
        for _ in range(4):
            driver = patient.start(name)
            if wait_for_work(driver, patient.place.ledger):
                time.sleep(moment.uniform(0, 0.3))
            assert patient.end_while_full(driver) in (STORAGE_FAILED, 0)
            patient.disk.free()
        assert patient.end(patient.start(name)) == 0
        patient.check(tmp_path / "copy", expected(name), MODES[name].cut_short)
