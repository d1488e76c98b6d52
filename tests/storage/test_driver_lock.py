"""The lock of a study, and the folder that exists only while something is in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Context, LockedError
from deepband.storage.driver_lock import DriverLock
from preloaded import Process

SPACE = {"x": (0.0, 1.0)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def open_study(path: Path) -> deepband.Study:
    return deepband.open_study(path, space=SPACE, max_budget=3)


def train(config: dict[str, Any], budget: int) -> float:
    return float(config["x"]) / budget


def train_in_vain(config: dict[str, Any], budget: int, context: Context) -> float:
    """Saves nothing, although it could."""
    return train(config, budget)


def save(config: dict[str, Any], budget: int, context: Context) -> float:
    (context.path / "state").write_text(str(budget))
    return train(config, budget)


@pytest.mark.parametrize("objective", [train, train_in_vain])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_study_without_checkpoints_is_one_file(path: Path, objective: Any, workers: int) -> None:
    with open_study(path) as study:
        study.optimize(objective, workers=workers)
        assert study.session.files.is_dir()  # the lock is in it
    assert os.listdir(path.parent) == ["a.study"]
    with deepband.open_study(path) as study:  # and reading needs no folder either
        assert study.done
    assert os.listdir(path.parent) == ["a.study"]


def test_a_folder_with_checkpoints_stays(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(save)
        kept = set(study.session.checkpoints.kept())
        study.deepen()
    files = path.with_name("a.study.files")
    assert {"lock", "driver.json", "checkpoints"} == set(os.listdir(files))
    with deepband.open_study(path) as study:
        assert set(study.session.checkpoints.kept()) == kept != set()


def test_output_of_workers_stays(path: Path) -> None:
    def talk(config: dict[str, Any], budget: int) -> float:
        print("trained")
        return train(config, budget)

    with open_study(path) as study:
        study.optimize(talk, workers=2)
    assert (path.with_name("a.study.files") / "output" / "0-0-0").read_text() == "trained\n"


def test_a_script_that_never_closes_its_study_leaves_one_file(path: Path) -> None:
    code = "import sys, deepband as d; d.open_study(sys.argv[1], space={'x': [1]}, max_budget=3)"
    assert Process(["-c", code, path]).wait() == 0
    assert os.listdir(path.parent) == ["a.study"]


def test_what_a_killed_driver_left_is_removed_by_the_next(path: Path) -> None:
    code = (
        "import os, sys, deepband as d\n"
        "study = d.open_study(sys.argv[1], space={'x': (0.0, 1.0)}, max_budget=3)\n"
        "study.optimize(lambda config, budget: os._exit(9))\n"
    )
    Process(["-c", code, path]).wait()
    assert len(os.listdir(path.with_name("a.study.files") / "jobs")) == 1
    with open_study(path) as study:
        study.optimize(train)
    assert os.listdir(path.parent) == ["a.study"]


def test_a_folder_on_another_disk_is_not_removed(path: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    (disk / "a.study.files").mkdir(parents=True)
    path.with_name("a.study.files").symlink_to(disk / "a.study.files")
    with open_study(path) as study:
        study.optimize(train)
    assert path.with_name("a.study.files").is_dir()


def test_a_forked_child_removes_nothing(path: Path) -> None:
    code = """
        import os, sys, deepband
        study = deepband.open_study(sys.argv[1], space={"x": [1]}, max_budget=3)
        job = study.ask()
        if os.fork() == 0:
            sys.exit()  # runs all handlers of the end of a process
        os.wait()
        assert os.path.exists(sys.argv[1] + ".files/lock")
        second = deepband.open_study(sys.argv[1])
        try:
            second.ask()
        except deepband.LockedError:
            study.tell(job, 0.5)
        else:
            raise AssertionError("the lock is lost")
    """
    lines = "\n".join(line.removeprefix(" " * 8) for line in code.splitlines())
    assert Process(["-c", lines, path]).wait() == 0
    assert os.listdir(path.parent) == ["a.study"]


def test_the_lock_of_another_process_in_a_new_folder_is_left_alone(
    path: Path, tmp_path: Path
) -> None:
    """The study was moved away with its folder, and another one was created in its place."""
    folder = path.with_name("a.study.files")
    ours, theirs = DriverLock(path, folder), DriverLock(path, folder)
    ours.acquire()
    shutil.move(folder, tmp_path / "moved.files")
    theirs.acquire()
    ours.release()
    third = DriverLock(path, folder)
    with pytest.raises(LockedError, match=f"locked by process {os.getpid()}"):
        third.acquire()
    theirs.release()
    third.acquire()
    third.release()
    assert not folder.exists()


ENTER = """
import os, sys
from pathlib import Path
from deepband import LockedError
from deepband.storage.driver_lock import DriverLock

study, inside = Path(sys.argv[1]), Path(sys.argv[2])
lock, entered = DriverLock(study, study.with_name(study.name + ".files")), 0
while entered < 300:
    try:
        lock.acquire()
    except LockedError:
        continue
    inside.touch(exist_ok=False)  # fails if two processes are inside
    entered += 1
    inside.unlink()
    lock.release()
"""


def test_one_process_at_a_time_although_the_lock_file_comes_and_goes(
    path: Path, tmp_path: Path
) -> None:
    crowd = [Process(["-c", ENTER, path, tmp_path / "inside"]) for _ in range(4)]
    assert [each.wait() for each in crowd] == [0] * 4
    assert os.listdir(tmp_path) == []
