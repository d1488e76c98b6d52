"""Workers that die, hang, print and fork: each costs only its own evaluation."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ctypes
import errno
import math
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import deepband
import preloaded
from deepband import Context, InputError, Job, ObjectiveError, StorageError, Study
from deepband.analysis import export
from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.execution.executors import worker_slot
from deepband.execution.executors.worker_process import WorkerProcess
from deepband.execution.outbox import Outbox
from deepband.system import plain_files

heavy = pytest.mark.heavy
SPACE = {"x": (0.0, 1.0)}


def open_study(path: Path | None = None, **settings: Any) -> Study:
    return deepband.open_study(path, **{"space": SPACE, "max_budget": 9, **settings})


@pytest.fixture(autouse=True, scope="module")
def _by_value() -> Iterator[None]:
    """Send functions of this module to workers as scripts do. Otherwise every worker would import
    it, and pytest with it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


def by_x(config: dict[str, Any], budget: float) -> float:
    return float(config["x"]) / budget


def undisturbed() -> list[str]:
    """The outcome of a study when nothing goes wrong."""
    study = open_study()
    study.optimize(by_x)
    return canonical(study)


@pytest.mark.parametrize(
    ("workers", "stored"),
    [
        (2, False),
        (3, True),
        pytest.param(2, True, marks=heavy),
        pytest.param(3, False, marks=heavy),
        pytest.param(7, True, marks=heavy),
        pytest.param(7, False, marks=heavy),
    ],
)
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
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    bytearray(2**30)  # refused at once: to fill memory first takes seconds


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
        with pytest.warns(deepband.FailedEvaluationsWarning):
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
        with pytest.warns(deepband.FailedEvaluationsWarning):
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
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(objective, workers=2, timeout=0.7, retries=0)
        assert study.done
    deadline = time.monotonic() + 10
    while processes_named(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_named(mark) == []


@pytest.mark.parametrize("megabytes", [32, pytest.param(1024, marks=pytest.mark.heavy)])
def test_output_goes_to_capped_files(path: Path, megabytes: int) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        print("hello from", budget)
        if budget == 9 and not marker.exists():
            marker.touch()
            os.write(1, b"start")
            for _ in range(megabytes):
                os.write(1, b"x" * 2**20)
            os.write(2, b"\xff\xfeend")
        return float(config["x"])

    marker = path.with_name("marker")
    with open_study(path, seed=1) as study:
        study.optimize(objective, workers=2)
        sizes = [file.stat().st_size for file in (study.session.files / "output").iterdir()]
        assert max(sizes) <= 1024 * 1024 + 100
        large = next(
            f for f in (study.session.files / "output").iterdir() if f.stat().st_size > 10**6
        )
        text = large.read_bytes()
        assert text.startswith(b"hello from 9\nstartxxx") or b"startxxx" in text[:100]
        assert b"bytes left out" in text
        assert text.endswith(b"end")
        small = (study.session.files / "output" / "0-0-0").read_text()
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
    """A limit on file sizes simulates the disk, in the workers only."""

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
    done = preloaded.run([script], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["once", "22"]


def test_modules_with_a_type_of_their_own_travel(tmp_path: Path) -> None:
    """As torch.backends.cudnn has one."""
    (tmp_path / "special.py").write_text(
        "import sys, types\n"
        "class Special(types.ModuleType):\n"
        "    factor = 2\n"
        "sys.modules[__name__] = Special(__name__)\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        """
import deepband
import special
def train(config, budget):
    return special.factor * config["x"] / budget
study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3)
study.optimize(train, workers=2)
print(len(study.evaluations))
"""
    )
    done = preloaded.run([script], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["6"]


def test_an_objective_that_cannot_travel_is_told_before_anything_runs(path: Path) -> None:
    lock = threading.Lock()

    def objective(config: dict[str, Any], budget: float) -> float:
        with lock:
            return 1.0

    with open_study(path) as study:
        with pytest.raises(InputError, match="cannot be sent to worker processes"):
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
        with pytest.warns(deepband.FailedEvaluationsWarning):
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
        with pytest.warns(deepband.FailedEvaluationsWarning):
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
        (study.session.files / "output").mkdir(parents=True)
        (study.session.files / "output" / "0-0-0").mkdir()
        study.optimize(objective, workers=2)
        assert canonical(study) == undisturbed()


# A worker that an evaluation left broken


@pytest.mark.parametrize("workers", [pytest.param(1, marks=heavy), 2, pytest.param(5, marks=heavy)])
def test_a_failed_evaluation_harms_no_other(path: Path, workers: int) -> None:
    """Like an assertion on a GPU, a failure breaks everything that follows in its process."""

    def objective(config: dict[str, Any], budget: float) -> float:
        if hasattr(sys, "broken"):
            raise RuntimeError("the process is broken")
        if config["x"] < 0.3:
            sys.broken = True  # type: ignore[attr-defined] # a mark of this test
            raise ValueError("too small")
        return float(config["x"]) / budget

    with open_study(path, max_budget=27, seed=3) as study:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(objective, workers=workers, timeout=60)
        failed = {each.config["x"] for each in study.evaluations if each.loss is None}
        assert failed
        assert max(failed) < 0.3


def test_an_evaluation_may_close_its_output(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        print("closing")
        os.close(1)
        if config["x"] < 0.3:
            raise ValueError("too small")
        return float(config["x"]) / budget

    with open_study(path, seed=3) as study:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(objective, workers=2)
        assert all((each.loss is None) == (each.config["x"] < 0.3) for each in study.evaluations)


MANY_FILES = """
import os, resource, sys
from pathlib import Path
from deepband.execution.executors.worker_main import capped_output

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
with capped_output(Path(sys.argv[1])):
    print("x" * 100_000)
"""


def test_a_worker_with_many_open_files_prints(tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = [sys.executable, "-c", MANY_FILES, str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert output.stat().st_size == 100_001


def test_what_a_worker_started_in_another_session_ends_with_it(path: Path) -> None:
    mark = f"left-behind-{os.getpid()}-{time.time_ns()}"

    def objective(config: dict[str, Any], budget: float) -> float:
        code = f"import time; '{mark}'; time.sleep(99)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        if config["x"] < 0.3:
            os.kill(os.getpid(), signal.SIGKILL)
        if config["x"] < 0.6:
            raise ValueError("a failure")
        return 1.0

    with open_study(path, max_budget=3, seed=3) as study:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(objective, workers=2, retries=0, first_failures=0)
        kinds = {(each.error or "").partition(":")[0] for each in study.evaluations}
        assert kinds == {"", "WorkerDied", "ValueError"}
    deadline = time.monotonic() + 10
    while processes_named(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_named(mark) == []


BESIDE_SPAWN = """
import multiprocessing, sys, threading
import deepband

def started(queue):
    queue.put("started")

def train(config, budget):
    return config["x"] / budget

def spawn():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=started, args=(queue,))
    process.start()
    process.join()
    codes.append(process.exitcode)

if __name__ == "__main__":
    codes = []
    multiprocessing.set_forkserver_preload(["json"])
    threads = [threading.Thread(target=spawn) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
        study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3)
        study.optimize(train, workers=3)
    for thread in threads:
        thread.join()
    print(codes, multiprocessing.forkserver._forkserver._preload_modules)
"""


@pytest.mark.parametrize("starts", [3, pytest.param(8, marks=heavy)])
def test_starting_workers_disturbs_no_other_start_of_processes(tmp_path: Path, starts: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(BESIDE_SPAWN)
    done = subprocess.run(
        [sys.executable, str(script), str(starts)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[0] * starts} ['json']\n", done.stderr


# Faults of the machine


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_within() -> None:
    try:
        full()
    except OSError as error:
        raise RuntimeError("cannot save the model") from error


def leaks() -> None:
    os.close(0)
    while True:
        os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize(
    ("fault", "workers"),
    [
        (full, 1),
        (full_within, 2),
        pytest.param(full, 2, marks=heavy),
        pytest.param(full_within, 1, marks=heavy),
    ],
)
def test_a_fault_of_the_machine_is_tried_again(
    path: Path, fault: Callable[[], None], workers: int
) -> None:
    with open_study(path) as study:
        study.optimize(once(fault, path.with_name("marker")), workers=workers)
        assert path.with_name("marker").exists()
        assert canonical(study) == undisturbed()


def test_a_leak_of_files_ends_with_its_worker(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(once(leaks, path.with_name("marker")), workers=2)
        assert path.with_name("marker").exists()
        assert canonical(study) == undisturbed()


@pytest.mark.parametrize(
    ("number", "workers"),
    [
        (errno.ENOSPC, 2),
        (errno.EDQUOT, 1),
        (errno.EMFILE, 2),
        (errno.EIO, 1),
        pytest.param(errno.ENOSPC, 1, marks=heavy),
        pytest.param(errno.EDQUOT, 2, marks=heavy),
        pytest.param(errno.EMFILE, 1, marks=heavy),
        pytest.param(errno.EIO, 2, marks=heavy),
    ],
)
def test_a_fault_of_the_machine_that_stays_stops_the_run_and_is_no_verdict(
    path: Path, number: int, workers: int
) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        if not healthy.exists() and config["x"] < 0.4:
            raise OSError(number, os.strerror(number))
        return float(config["x"]) / budget

    healthy = path.with_name("healthy")
    with open_study(path) as study:
        with pytest.raises(StorageError, match="because of the machine") as caught:
            study.optimize(objective, workers=workers)
        assert os.strerror(number) in str(caught.value)
        assert all(each.loss is not None for each in study.evaluations)
        healthy.touch()
        study.optimize(objective, workers=workers)
        assert canonical(study) == undisturbed()


class EndsTheProcess:
    """A result that raises when it is inspected."""

    def __float__(self) -> float:
        sys.exit("read")

    @property
    def shape(self) -> Any:
        sys.exit("read")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_result_whose_reading_exits_is_a_failure(path: Path, workers: int) -> None:
    def objective(config: dict[str, Any], budget: float) -> Any:
        return EndsTheProcess() if config["x"] < 0.3 else float(config["x"])

    with open_study(path, seed=3) as study:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(objective, workers=workers)
        failed = [each for each in study.evaluations if each.loss is None]
        assert failed
        assert all((each.error or "").startswith("SystemExit: read") for each in failed)
        assert all(each.config["x"] < 0.3 for each in failed)


# Configs with mutable values

LISTS: dict[str, Any] = {"layers": [[64, 32], [128], [16, 16, 16]], "x": (0.0, 1.0)}


@pytest.mark.parametrize(
    ("workers", "stored"),
    [
        (1, True),
        (2, False),
        pytest.param(1, False, marks=heavy),
        pytest.param(2, True, marks=heavy),
    ],
)
def test_an_objective_may_change_the_lists_of_its_config(
    path: Path, workers: int, stored: bool
) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        config["layers"].append(10)
        return float(config["x"])

    with open_study(path if stored else None, space=LISTS) as study:
        study.enqueue(mine := {"layers": [128], "x": 0.5})
        mine["layers"].append(3)  # type: ignore[attr-defined]
        study.optimize(objective, workers=workers)
        job = study.ask()
        assert job is None
        for each in study.evaluations:
            assert each.config["layers"] in [[64, 32], [128], [16, 16, 16]]
            each.config["layers"].append(5)
        assert all(each.config["layers"][-1] != 5 for each in study.evaluations)


def test_a_job_has_its_own_lists() -> None:
    study = open_study(space=LISTS)
    for job in study.ask_all():
        job.config["layers"].append(5)
        study.tell(job, 1.0)
    assert all(each.config["layers"][-1] != 5 for each in study.evaluations)


def double(x: float) -> float:
    return 2 * x


class Scale:
    """A choice that is an object."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: float) -> float:
        return self.factor * x


OBJECTS = {"f": [double, copy.copy, math.sqrt, lambda x: x / 3, Scale(5)], "x": (0.0, 1.0)}
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
    """Workers do not import the script, so its functions must be pickled by value."""
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
    done = preloaded.run([script], tmp_path)
    assert done.stdout == "True [2, 3, 4]\n", done.stderr


@pytest.mark.filterwarnings("ignore::deepband.SmallSpaceWarning")
def test_a_choice_that_cannot_travel_is_refused_before_anything_is_run() -> None:
    study = open_study(space={"lock": [threading.Lock(), "none"]})
    with pytest.raises(InputError, match=r"'lock' has the choice <unlocked .* cannot be sent"):
        study.optimize(lambda config, budget: 1.0, workers=2)
    assert study.evaluations == []
    study.optimize(lambda config, budget: 1.0)
    assert study.done


def test_a_result_of_a_config_with_objects_waits_in_the_outbox(tmp_path: Path) -> None:
    outbox, job = Outbox(tmp_path), Job(0, 1, 2, 9, {"f": double, "of": {(1, 2): "a"}})
    outbox.make()
    with outbox.hold([job.key], "token", None) as held:
        held.put([Attempt(job, Outcome(0.5))])
    (found,) = outbox.get([job.key], "token")
    assert (found.job.key, found.job.budget, found.outcome.loss) == (job.key, 9, 0.5)


def test_a_job_that_is_given_up_while_its_result_is_written_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint may be gone by then, and the next driver would record it without."""
    outbox, job = Outbox(tmp_path), Job(0, 1, 2, 9, {})
    outbox.make()
    rename = plain_files.rename_inside

    def given_up(folder: int, source: str, target: str) -> None:
        outbox.drop(job.key, "abcd")
        rename(folder, source, target)

    with outbox.hold([job.key], "abcd", None) as held:
        monkeypatch.setattr(plain_files, "rename_inside", given_up)
        held.put([Attempt(job, Outcome(0.5))])
    assert outbox.waiting() == []


def test_a_result_that_waits_keeps_the_types_of_its_config(tmp_path: Path) -> None:
    """Otherwise it would not match its job, which would be evaluated again."""
    outbox = Outbox(tmp_path)
    outbox.make()
    config = {"layers": (50, 20), "steps": [1, 2], "names": {1: "a", "b": (None,)}}
    curve = ((1.0, math.inf), (math.inf, 0.5))
    outcome = Outcome(0.5, curve=curve)
    attempt = Attempt(Job(0, 1, 0, 1, config, "ab"), outcome, saved="0-1-0.abcd")
    with outbox.hold([(0, 1, 0)], "abcd", None) as held:
        held.put([attempt])
        assert outbox.waiting() == [[attempt]]


# Workers that are started, ended and replaced


class SlowToLoad:
    """An objective that takes longer to load than a worker may take to start."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        time.sleep(2)

    def __getstate__(self) -> dict[str, Any]:
        return {"some": "state"}

    def __call__(self, config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.3:
            raise ValueError("too small")
        return float(config["x"]) / budget


@heavy  # it waits
def test_a_spare_worker_is_used_when_it_has_loaded_the_objective(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_slot, "SECONDS_TO_START", 1.5)
    with open_study(path, max_budget=3, seed=3) as study:
        with pytest.warns(deepband.FailedEvaluationsWarning):
            study.optimize(SlowToLoad(), workers=2, retries=0)
        assert all((each.loss is None) == (each.config["x"] < 0.3) for each in study.evaluations)
        assert all("too small" in each.error for each in study.evaluations if each.error)


@pytest.mark.heavy
def test_a_timeout_is_told_once(path: Path) -> None:
    """A second signal would interrupt the cleanup of an objective."""

    def objective(config: dict[str, Any], budget: float) -> float:
        def note(*_: object) -> None:
            with path.with_name("signals").open("a") as file:
                file.write("x")

        signal.signal(signal.SIGTERM, note)
        time.sleep(1.5)
        return float(config["x"])

    with open_study(path, max_budget=1) as study:
        study.optimize(objective, workers=1, timeout=0.3, retries=0)
        assert path.with_name("signals").read_text() == "x"


def test_a_process_that_has_the_number_of_a_dead_worker_is_not_ended() -> None:
    """Process ids are reused: a child stands in for a process with the id of a dead worker."""
    worker = WorkerProcess(cloudpickle.dumps(os.getpid))
    os.kill(worker.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while not worker.is_gone():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as innocent:
        worker.pid = innocent.pid
        worker.end()
        assert innocent.poll() is None
        innocent.communicate()
        assert innocent.returncode == 1  # its input ended


def test_a_leak_of_files_on_a_pool_of_somebody_else_is_no_verdict(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        while True:
            try:
                os.open(os.devnull, os.O_RDONLY)
            except OSError:
                return float(config["x"]) / budget

    with open_study(path, max_budget=3) as study, ProcessPoolExecutor(1) as pool:
        with pytest.raises(StorageError, match="because of the machine"):
            study.optimize(objective, executor=pool)
        assert all(each.loss is not None for each in study.evaluations)


class Named(dict[str, Any]):
    """A choice that is a dict and more."""


@pytest.mark.filterwarnings("ignore::deepband.SmallSpaceWarning")
def test_choices_keep_their_type() -> None:
    kinds: set[type] = set()
    choices = [OrderedDict(a=1), Named(b=2), UserDict(c=3)]

    def objective(config: dict[str, Any], budget: float) -> float:
        kinds.add(type(config["x"]))
        config["x"]["changed"] = 1
        return 1.0

    study = deepband.open_study(space={"x": choices}, max_budget=27)
    study.optimize(objective)
    assert kinds == {OrderedDict, Named, UserDict}
    assert choices == [OrderedDict(a=1), Named(b=2), UserDict(c=3)]
    assert {type(each.config["x"]) for each in study.evaluations} == kinds


def test_a_folder_of_jobs_that_is_lost_is_said_in_plain_words(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        shutil.rmtree(jobs)
        jobs.write_text("not a folder")
        os.kill(os.getpid(), signal.SIGKILL)
        return 1.0

    with open_study(path) as study:
        jobs = study.session.files / "jobs"
        with pytest.raises(StorageError, match="not a folder"):
            study.optimize(objective, workers=1, timeout=60, retries=0)


def test_two_threads_may_run_a_study_on_pools(path: Path) -> None:
    """Each run creates a file by which workers recognise the study's folder."""
    started = threading.Barrier(2)

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        (context.path / "state").write_text("x")
        return float(config["x"]) / budget

    def run() -> None:
        started.wait(60)
        with ThreadPoolExecutor(2) as pool:
            study.optimize(objective, executor=pool)

    with open_study(path, max_budget=27) as study:
        alone = open_study(max_budget=27)
        alone.optimize(by_x)
        with ThreadPoolExecutor(2) as drivers:
            for driver in [drivers.submit(run) for _ in range(2)]:
                driver.result()
        assert canonical(study) == canonical(alone)
