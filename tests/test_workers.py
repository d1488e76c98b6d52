"""Workers that die, hang, print and fork: each costs only its own evaluation."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import math
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Context, InputError, Job, ObjectiveError, Study, export
from deepband.outbox import Outbox
from deepband.records import Attempt

SPACE = {"x": (0.0, 1.0)}


def open_study(path: Path | None = None, **settings: Any) -> Study:
    return deepband.open_study(path, **{"space": SPACE, "max_budget": 9, **settings})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.state))


def by_x(config: dict[str, Any], budget: float) -> float:
    return float(config["x"]) / budget


def undisturbed() -> list[str]:
    """What a study comes to when nothing goes wrong."""
    study = open_study()
    study.optimize(by_x)
    return canonical(study)


@pytest.mark.parametrize("workers", [2, 3, 7])
@pytest.mark.parametrize("stored", [True, False])
def test_the_same_study_for_any_number_of_workers(path: Path, workers: int, stored: bool) -> None:
    def slowly(config: dict[str, Any], budget: float, context: Context) -> float:
        import random
        import time

        (context.path / "state").write_text(str(budget))
        assert context.previous is None or (context.previous / "state").read_text() == str(
            context.previous_budget
        )
        time.sleep(random.random() / 100)
        return float(config["x"]) / budget

    alone = open_study()
    with open_study(path if stored else None) as study:
        alone.optimize(by_x)
        study.optimize(slowly, workers=workers)
        alone.deepen("preserving")
        alone.optimize(by_x)
        study.deepen("preserving")
        study.optimize(slowly, workers=workers)
        assert canonical(study) == canonical(alone)
        assert all(run.trained == run.cost_resumed for run in study.runs)


def test_slots_are_numbered(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> dict[str, float]:
        time.sleep(0.02)
        return {"loss": 1.0, "slot": context.slot}

    with open_study(path) as study:
        study.optimize(objective, workers=3)
        assert {each.metrics["slot"] for each in study.evaluations} == {0, 1, 2}


# What goes wrong in the first attempt at index 1 of bracket 0, and what it is called.


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def exits_well() -> None:
    os._exit(0)


def exits_badly() -> None:
    os._exit(3)


def segfaults() -> None:
    ctypes.string_at(0)


def runs_out_of_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
    waste = []
    while True:
        waste.append(bytearray(2**27))


def exits_politely() -> None:
    sys.exit(0)


def hangs() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


LOST: list[tuple[Callable[[], None], str]] = [
    (killed, "WorkerDied"),
    (exits_well, "WorkerDied"),
    (exits_badly, "WorkerDied"),
    (segfaults, "WorkerDied"),
    (hangs, "Timeout"),
]
VERDICTS: list[tuple[Callable[[], None], str]] = [
    (runs_out_of_memory, "MemoryError"),
    (exits_politely, "SystemExit"),
]


def once(fault: Callable[[], None], marker: Path) -> Callable[[dict[str, Any], float], float]:
    """An objective in which one config meets a fault, in its first attempt only."""

    def objective(config: dict[str, Any], budget: float) -> float:
        time.sleep(0.01)
        if 0.3 < config["x"] < 0.5 and budget == 1 and not marker.exists():
            marker.touch()
            fault()
        return float(config["x"]) / budget

    return objective


def ever(fault: Callable[[], None]) -> Callable[[dict[str, Any], float], float]:
    """An objective in which some configs always meet a fault."""

    def objective(config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.2:
            fault()
        return float(config["x"]) / budget

    return objective


@pytest.mark.parametrize(("fault", "kind"), LOST)
def test_a_lost_worker_is_tried_again(path: Path, fault: Callable[[], None], kind: str) -> None:
    with open_study(path) as study:
        study.optimize(once(fault, path.with_name("marker")), workers=2, timeout=1.0, retries=1)
        assert path.with_name("marker").exists()
        assert canonical(study) == undisturbed()


@pytest.mark.parametrize(("fault", "kind"), LOST[:2] + VERDICTS)
def test_a_worker_that_is_always_lost_is_a_failure(
    path: Path, fault: Callable[[], None], kind: str
) -> None:
    with open_study(path, seed=2) as study:
        study.optimize(ever(fault), workers=2, retries=1)
        assert study.done
        bad = [each for each in study.evaluations if each.config["x"] < 0.2]
        good = [each for each in study.evaluations if each.config["x"] >= 0.2]
        assert bad
        assert {(each.error or "").split(":")[0] for each in bad} == {kind}
        assert all(each.error is None for each in good)


def test_a_timeout_may_depend_on_the_budget(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        if budget == 3:
            time.sleep(30)
        return float(config["x"])

    with open_study(path) as study:
        study.optimize(
            objective, workers=2, retries=0, timeout=lambda budget: 0.3 if budget == 3 else 20
        )
        errors = {each.budget: each.error for each in study.evaluations}
        assert errors[1] is None
        assert (errors[3] or "").startswith("Timeout: it took more than 0.3 seconds")


def processes_named(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "cmdline").read_text():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_what_a_worker_started_ends_with_it(path: Path) -> None:
    mark = f"left-behind-{os.getpid()}-{time.time_ns()}"

    def objective(config: dict[str, Any], budget: float) -> float:
        code = f"import time, signal; '{mark}'; signal.signal(15, signal.SIG_IGN); time.sleep(99)"
        subprocess.Popen([sys.executable, "-c", code])
        if budget == 1:
            time.sleep(60)
        return 1.0

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, workers=2, timeout=0.7, retries=0)
        assert study.done
    deadline = time.monotonic() + 10
    while processes_named(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_named(mark) == []


def test_output_goes_to_capped_files(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        print("hello from", budget)
        if budget == 9 and not marker.exists():
            marker.touch()
            os.write(1, b"start")
            for _ in range(1024):
                os.write(1, b"x" * 2**20)
            os.write(2, b"\xff\xfeend")
        return float(config["x"])

    marker = path.with_name("marker")
    with open_study(path, seed=1) as study:
        study.optimize(objective, workers=2)
        sizes = [file.stat().st_size for file in (study.files / "output").iterdir()]
        assert max(sizes) <= 1024 * 1024 + 100
        large = next(f for f in (study.files / "output").iterdir() if f.stat().st_size > 10**6)
        text = large.read_bytes()
        assert text.startswith(b"hello from 9\nstartxxx") or b"startxxx" in text[:100]
        assert b"bytes left out" in text
        assert text.endswith(b"end")
        small = (study.files / "output" / "0-0-0").read_text()
        assert small == "hello from 1\n"


def test_a_config_changed_by_a_worker_changes_nothing(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        return float(config.pop("x"))

    with open_study(path) as study:
        study.optimize(objective, workers=2)
        assert all("x" in each.config for each in study.evaluations)


def test_a_fork_in_the_objective(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        return float(config["x"]) / budget

    with open_study(path) as study:
        study.optimize(objective, workers=2)
        assert canonical(study) == undisturbed()


def test_a_full_disk_in_checkpoints_and_outbox_costs_no_result(path: Path) -> None:
    """A limit on file sizes stands in for the disk, within the workers only."""

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        with contextlib.suppress(OSError):
            (context.path / "state").write_text("x" * 100)
        return float(config["x"]) / budget

    with open_study(path) as study:
        study.optimize(objective, workers=2)
        assert canonical(study) == undisturbed()
        assert all(each.resumed_from is None for each in study.evaluations)


def test_functions_of_a_script_travel_and_it_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        """
import functools
import deepband
factor = 2
@functools.cache
def data():
    return [factor]
@functools.lru_cache(maxsize=7)
def scaled(x):
    return data()[0] * x
def train(config, budget):
    return scaled(config["x"]) / budget
print("once")
study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
study.optimize(train, workers=2)
print(len(study.evaluations))
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["once", "22"]


def test_an_objective_that_cannot_travel_is_told_before_anything_runs(path: Path) -> None:
    lock = threading.Lock()

    def objective(config: dict[str, Any], budget: float) -> float:
        with lock:
            return 1.0

    with open_study(path) as study:
        with pytest.raises(InputError, match="cannot travel to worker processes"):
            study.optimize(objective, workers=2)
        assert study.evaluations == []


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2"])
def test_bad_numbers_of_workers_are_refused(workers: Any) -> None:
    with pytest.raises(InputError, match="workers is"):
        open_study().optimize(by_x, workers=workers)


def test_first_failures_stop_it_with_workers_too(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        return float(config["learning_rate"])

    with open_study(path) as study:
        with pytest.raises(ObjectiveError, match="the first 4 evaluations all failed") as caught:
            study.optimize(objective, workers=4)
        assert "KeyError: 'learning_rate'" in str(caught.value)
        assert study.evaluations == []
        study.optimize(by_x, workers=2)
        assert study.done
        assert all(each.error is None for each in study.evaluations)


def test_a_forked_child_that_comes_back_is_not_the_worker(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        if os.fork() == 0:
            if config["x"] < 0.5:
                sys.exit(3)
            return -1.0
        time.sleep(0.05)
        return float(config["x"]) / budget

    with open_study(path) as study:
        study.optimize(objective, workers=2)
        assert canonical(study) == undisturbed()


def test_a_worker_that_leaves_a_child_and_exits_well_is_noticed(path: Path) -> None:
    def exits_with_a_child() -> None:
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)

    with open_study(path) as study:
        study.optimize(once(exits_with_a_child, path.with_name("marker")), workers=2)
        assert canonical(study) == undisturbed()


def test_a_timeout_is_a_timeout_whatever_the_objective_makes_of_it(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        if budget == 3:
            time.sleep(30)
        return float(config["x"])

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, workers=2, timeout=0.5, retries=0)
        late = [each.error for each in study.evaluations if each.budget == 3]
        assert all((error or "").startswith("Timeout") for error in late)


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit])
def test_odd_exceptions_are_verdicts(path: Path, error: type[BaseException]) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.3:
            raise error("odd")
        return float(config["x"])

    with open_study(path, seed=2) as study:
        study.optimize(objective, workers=2)
        kinds = {(each.error or "").split(":")[0] for each in study.evaluations}
        assert kinds == {"", error.__name__}


def test_workers_see_the_driver_as_it_is_now(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def objective(config: dict[str, Any], budget: float) -> dict[str, Any]:
        return {"loss": 1.0, "mark": os.environ["DEEPBAND_MARK"], "folder": os.getcwd()}

    monkeypatch.chdir(tmp_path)
    for mark in ("first", "second"):
        monkeypatch.setenv("DEEPBAND_MARK", mark)
        study = open_study(max_budget=1)
        study.optimize(objective, workers=2)
        assert study.evaluations[0].metrics == {"mark": mark, "folder": str(tmp_path)}


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": "5"},
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"timeout": True},
        {"timeout": lambda budget: -1},
        {"retries": None},
        {"retries": -1},
        {"retries": "1"},
        {"first_failures": -1},
    ],
)
def test_bad_numbers_are_refused(path: Path, given: dict[str, Any]) -> None:
    with open_study(path) as study:
        with pytest.raises(InputError, match=next(iter(given))):
            study.optimize(by_x, workers=2, **given)
        assert study.evaluations == []


def test_output_that_cannot_be_kept_is_lost_and_nothing_else(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        print("x" * 10**6)
        sys.stdout = None
        return float(config["x"]) / budget

    with open_study(path) as study:
        (study.files / "output").mkdir(parents=True)
        (study.files / "output" / "0-0-0").mkdir()
        study.optimize(objective, workers=2)
        assert canonical(study) == undisturbed()


def double(x: float) -> float:
    return 2 * x


class Scale:
    """A choice that is an object."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: float) -> float:
        return self.factor * x


OBJECTS = {"f": [double, math.sqrt, lambda x: x / 3, Scale(5)], "x": (0.0, 1.0)}
POOLS: dict[str, Callable[[], Any]] = {
    "workers": lambda: None,
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")),
}


@pytest.mark.parametrize("pool", POOLS)
def test_choices_that_are_objects_work_anywhere(pool: str) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        return float(config["f"](config["x"])) / budget

    alone, study = open_study(space=OBJECTS), open_study(space=OBJECTS)
    alone.optimize(objective)
    executor = POOLS[pool]()
    study.optimize(objective, workers=2, executor=executor)
    if executor is not None:
        executor.shutdown()
    losses = [[each.loss for each in made.evaluations] for made in (alone, study)]
    assert losses[0] == losses[1]
    assert all(each.config["f"] in OBJECTS["f"] for each in study.evaluations)


def test_choices_of_a_script_work_in_workers(tmp_path: Path) -> None:
    """Workers do not load the script, so its functions must travel by value."""
    script = tmp_path / "script.py"
    script.write_text(
        "import deepband\n"
        "def half(x): return x / 2\n"
        "def third(x): return x / 3\n"
        "space = {'f': [half, third, lambda x: x / 4]}\n"
        "study = deepband.open_study(space=space, max_budget=9)\n"
        "study.optimize(lambda config, budget: config['f'](budget), workers=2)\n"
        "print(study.done, sorted({round(e.budget / e.loss) for e in study.evaluations}))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "True [2, 3, 4]\n"


def test_a_choice_that_cannot_travel_is_refused_before_anything_is_run() -> None:
    study = open_study(space={"lock": [threading.Lock(), "none"]})
    with pytest.raises(InputError, match=r"'lock' has the choice <unlocked .* cannot travel"):
        study.optimize(lambda config, budget: 1.0, workers=2)
    assert study.evaluations == []
    study.optimize(lambda config, budget: 1.0)
    assert study.done


def test_a_result_of_a_config_with_objects_waits_in_the_outbox(tmp_path: Path) -> None:
    outbox, job = Outbox(tmp_path), Job(0, 1, 2, 9, {"f": double, "of": {(1, 2): "a"}})
    outbox.make()
    with outbox.hold(job.key, "token", None):
        outbox.put(Attempt(job, 0.5), "token")
    found = outbox.get(job.key, "token")
    assert found is not None
    assert (found.job.key, found.job.budget, found.loss) == (job.key, 9, 0.5)
