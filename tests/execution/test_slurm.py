"""A real Slurm, with a controller and two nodes on this machine, and drivers that are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clusters
import deepband
import slurm
from deepband import InputError, Study
from deepband.analysis.export import canonical
from deepband.execution import slurm_queue
from deepband.execution.executors import slurm as slurm_executor
from deepband.execution.submissions import SUBMISSIONS
from driving import wait_until

pytestmark = [pytest.mark.timeout(400), *clusters.MARKS]


def make_objective(ledger: Path, gate: Path | None = None) -> Any:
    """An objective that is pickled by value, and logs every evaluation that it begins and ends. On
    the first rung, it waits for a gate."""

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        import time

        with ledger.open("a") as file:
            file.write(f"begin {config['x']} {budget}\n")
        while budget == 1 and gate is not None and not gate.exists():
            time.sleep(0.05)
        before = 0 if context.previous is None else int((context.previous / "n").read_text())
        (context.path / "n").write_text(str(budget))
        with ledger.open("a") as file:
            file.write(f"end {config['x']} {budget} {before}\n")
        return float(config["x"] * 10 % 1 + 1 / budget)

    return train


def make_slow_objective(ledger: Path, seconds: float) -> Any:
    """An objective that saves its progress ten times and logs where it begins. It takes this long
    on the highest rung, and waits there after the first step until it is interrupted once."""

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        import time

        done = context.restore(step=0)["step"]
        with ledger.open("a") as file:
            file.write(f"{config['x']} {budget} {done}\n")
        for step in range(done, 10):
            context.save(step=step + 1)
            time.sleep(seconds / 10 if budget == 3 else 0)
        return float(config["x"] + 1 / budget)

    return train


def open_study(place: Path, max_budget: int = 9) -> Study:
    return deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=max_budget, seed=2)


def run(place: Path, objective: Any, max_budget: int = 9, **how: Any) -> list[str]:
    """Run a study to its end, with Slurm unless told otherwise, and export it."""
    how = {"executor": "slurm", "resources": slurm.RESOURCES, **how}
    with open_study(place, max_budget) as study, slurm.hastened():
        study.optimize(objective, **how)
        assert study.done
        return list(canonical(study.session.state))


def undisturbed(tmp_path: Path, objective: Any, max_budget: int = 9) -> list[str]:
    """The export of a run in this process."""
    return run(tmp_path / "alone.study", objective, max_budget, executor=None, resources=None)


def lines(ledger: Path, start: str = "") -> list[str]:
    found = ledger.read_text().splitlines() if ledger.exists() else []
    return [line for line in found if line.startswith(start)]


def start_driver(place: Path, ledger: Path, gate: Path, max_budget: int) -> subprocess.Popen[bytes]:
    code = (
        "import sys, cloudpickle, test_slurm\n"
        "cloudpickle.register_pickle_by_value(test_slurm)\n"
        "from pathlib import Path\n"
        "place, ledger, gate = map(Path, sys.argv[1:4])\n"
        "test_slurm.run(place, test_slurm.make_objective(ledger, gate), int(sys.argv[4]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(place), str(ledger), str(gate), str(max_budget)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with slurm.slurm_cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_queue, "SECONDS_BETWEEN_QUERIES", 1.0)


def test_a_study_on_slurm_is_the_same_study(tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    assert run(place, make_objective(ledger)) == undisturbed(
        tmp_path, make_objective(tmp_path / "alone")
    )
    assert set(Counter(lines(ledger)).values()) == {1}
    assert not (tmp_path / "a.study.files" / SUBMISSIONS).exists()


def test_jobs_that_are_ready_together_are_one_array(tmp_path: Path) -> None:
    """The driver is killed in the middle of a rung of 27, and another one finishes the study."""
    ledger, place, gate = tmp_path / "ledger", tmp_path / "a.study", tmp_path / "gate"
    driver = start_driver(place, ledger, gate, 27)
    wait_until(lambda: len(lines(ledger, "begin")) == 8)  # all CPUs
    arrays = Counter(each.partition("_")[0] for each in slurm.ids())
    assert list(arrays.values()) == [27 + 12 + 6 + 4]  # the first rungs of all brackets
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    gate.touch()
    wait_until(lambda: len(lines(ledger, "end")) >= 12)
    found = run(place, make_objective(ledger, gate), 27)
    assert found == undisturbed(tmp_path, make_objective(tmp_path / "alone"), 27)
    assert set(Counter(lines(ledger)).values()) == {1}
    with open_study(place, 27) as study:
        assert len(lines(ledger, "end")) == len(study.evaluations)
    assert slurm.states() == []


def test_a_job_that_is_requeued_continues_from_what_it_saved(tmp_path: Path) -> None:
    """As after preemption: Slurm kills the job and starts it again."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    requeued: list[str] = []

    def requeue() -> None:
        wait_until(lambda: any(" 3 " in line for line in lines(ledger)))
        requeued.extend(slurm.ids())
        for job in requeued:
            slurm.run("scontrol", "requeue", job)

    thread = threading.Thread(target=requeue)
    thread.start()
    found = run(place, make_slow_objective(ledger, 20), 3, retries=0)
    thread.join()
    assert requeued
    assert found == undisturbed(tmp_path, make_slow_objective(tmp_path / "alone", 0), 3)
    check_continued(ledger)


def check_continued(ledger: Path) -> None:
    """The highest rung was interrupted, and continued from a later step. Nothing else was."""
    words = [line.split() for line in lines(ledger)]
    begun = [int(step) for _, budget, step in words if budget == "3"]
    assert max(begun) > 0
    assert all(step == "0" for _, budget, step in words if budget != "3")


def test_a_job_that_reaches_its_time_limit_continues_from_what_it_saved(tmp_path: Path) -> None:
    """The evaluation takes longer than the limit of one minute."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run(place, make_slow_objective(ledger, 80), 3, resources={"timeout_min": 1}, retries=0)
    assert found == undisturbed(tmp_path, make_slow_objective(tmp_path / "alone", 0), 3)
    check_continued(ledger)


@pytest.mark.parametrize("more", [{}, {"no-requeue": True}], ids=["requeued", "not"])
def test_a_node_that_goes_down(more: dict[str, Any], tmp_path: Path) -> None:
    """Slurm requeues its job or, if that is not allowed, reports NODE_FAIL. In both cases, the job
    continues on the other node: it is not the fault of its config."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    lost: list[str] = []

    def lose() -> None:
        wait_until(lambda: any(" 3 " in line for line in lines(ledger)))
        lost.extend(slurm.run("squeue", "--noheader", "-o%N").split())
        slurm.run("scontrol", "update", f"nodename={lost[0]}", "state=down", "reason=test")

    thread = threading.Thread(target=lose)
    thread.start()
    try:
        resources = {**slurm.RESOURCES, "additional_parameters": more}
        found = run(place, make_slow_objective(ledger, 20), 3, retries=0, resources=resources)
    finally:
        thread.join()
        slurm.run("scontrol", "update", f"nodename={lost[0]}", "state=resume")
    assert found == undisturbed(tmp_path, make_slow_objective(tmp_path / "alone", 0), 3)
    check_continued(ledger)


def test_a_node_that_starts_no_jobs(tmp_path: Path) -> None:
    """Slurm holds its jobs: they are submitted again, and start on the other node."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    with slurm.broken("n1"):
        found = run(place, make_objective(ledger), 3, retries=0)
    assert found == undisturbed(tmp_path, make_objective(tmp_path / "alone"), 3)
    assert set(Counter(lines(ledger)).values()) == {1}
    wait_until(lambda: not slurm.states())


def test_nodes_that_start_no_jobs_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_executor, "MOST_LAUNCHES", 0)
    place, objective = tmp_path / "a.study", make_objective(tmp_path / "ledger")
    # The node may be given an array, or the last job of the run if it was slow to resume.
    why = r"could not start a job 1 times?, the last time as \d+(_\d+)?: it says .launch failed"
    with slurm.broken("n1"), pytest.raises(InputError, match=why):
        run(place, objective, 3)
    assert run(place, objective, 3) == undisturbed(tmp_path, make_objective(tmp_path / "x"), 3)


def test_a_driver_submits_jobs_again_that_slurm_holds_since_the_last(tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    with slurm.broken("n1"):
        with open_study(place, 3) as study:
            study.optimize(
                make_objective(ledger), max_seconds=0.1, executor="slurm", resources=slurm.RESOURCES
            )
        wait_until(lambda: "launch failed" in slurm.run("squeue", "--noheader", "-o%r"))
        found = run(place, make_objective(ledger), 3)
    assert found == undisturbed(tmp_path, make_objective(tmp_path / "alone"), 3)
    wait_until(lambda: not slurm.states())


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        ({"partition": "unheard"}, "Slurm refused the jobs: .*invalid partition"),
        (
            {"cpus_per_task": 999},
            "Slurm refused the jobs: .*More processors requested",
        ),
        ({"partition": "main", "timeout_min": 6000}, "Slurm refused the jobs: .*time limit"),
        ({"no_such_option": 1}, "submitit does not accept these `resources`"),
        ({"nodes": 2}, "nodes is 2: an objective is called in one process"),
        ({"timeout_min": None}, "timeout_min is None: give the time limit"),
        ({"max_num_timeout": -1}, "max_num_timeout is -1"),
    ],
)
def test_a_queue_that_refuses(resources: dict[str, Any], why: str, tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    with open_study(place) as study, pytest.raises(InputError, match=why):
        study.optimize(
            make_objective(tmp_path / "ledger"),
            executor="slurm",
            resources={**slurm.RESOURCES, **resources},
        )
    assert slurm.states() == []
    assert not (tmp_path / "a.study.files" / SUBMISSIONS).exists()


def test_a_driver_that_stops_leaves_its_jobs_to_the_next(tmp_path: Path) -> None:
    """Whatever that runs its own jobs with."""
    ledger, place, gate = tmp_path / "ledger", tmp_path / "a.study", tmp_path / "gate"
    how: dict[str, Any] = {"executor": "slurm", "resources": slurm.RESOURCES}
    with open_study(place) as study:
        study.optimize(make_objective(ledger, gate), max_seconds=3, **how)
        assert not study.done
    wait_until(lambda: len(lines(ledger, "begin")) == 8)
    submitted = slurm.ids()
    assert len(submitted) == 9 + 5 + 3
    with open_study(place) as study:  # nothing is submitted twice
        study.optimize(make_objective(ledger, gate), max_seconds=3, **how)
    assert sorted(slurm.ids()) == sorted(submitted)
    gate.touch()
    found = run(place, make_objective(ledger), executor=None, resources=None)
    assert found == undisturbed(tmp_path, make_objective(tmp_path / "alone"))
    assert set(Counter(lines(ledger)).values()) == {1}
    assert not (tmp_path / "a.study.files" / SUBMISSIONS).exists()


def test_jobs_of_another_driver_can_be_given_up(tmp_path: Path) -> None:
    ledger, place, gate = tmp_path / "ledger", tmp_path / "a.study", tmp_path / "gate"
    with open_study(place) as study:
        study.optimize(
            make_objective(ledger, gate), max_seconds=3, executor="slurm", resources=slurm.RESOURCES
        )
    wait_until(lambda: len(lines(ledger, "begin")) == 8)
    second = make_objective(tmp_path / "second")
    found = run(place, second, executor=None, resources=None, wait=False)
    wait_until(lambda: not slurm.states())
    assert found == undisturbed(tmp_path, make_objective(tmp_path / "alone"))
    assert lines(ledger, "end") == []


def test_a_job_that_cannot_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ledger = tmp_path / "a.study", tmp_path / "ledger"
    resources = {**slurm.RESOURCES, "additional_parameters": {"hold": True}}

    def release() -> None:
        wait_until(lambda: warned)
        while not done.wait(0.5):
            for job in slurm.ids():
                slurm.run("scontrol", "release", job)

    warned, done = list[str](), threading.Event()
    monkeypatch.setattr(slurm_queue, "show_warning", lambda text, kind: warned.append(text))
    thread = threading.Thread(target=release)
    thread.start()
    run(place, make_objective(ledger), 3, resources=resources)
    done.set()
    thread.join()
    (text,) = warned
    assert re.match(r"5 jobs cannot start, such as \d+_0: Slurm says 'JobHeldUser'", text)


def test_what_a_job_prints_is_kept(tmp_path: Path) -> None:
    def loud(config: dict[str, Any], budget: float) -> float:
        print("hello from", config["x"])
        return float(config["x"])

    place = tmp_path / "a.study"
    run(place, loud, 1)
    (file,) = (tmp_path / "a.study.files" / "output").iterdir()
    assert file.read_text().startswith("hello from")


def test_each_job_sees_its_own_gpu(tmp_path: Path) -> None:
    def look(config: dict[str, Any], budget: float, context: deepband.Context) -> dict[str, Any]:
        import os
        import time

        time.sleep(3)
        visible = os.environ["CUDA_VISIBLE_DEVICES"]
        here = f"{os.environ['SLURMD_NODENAME']}:{visible}"
        return {"loss": config["x"], "gpu": here, "device": context.device, "until": time.time()}

    place = tmp_path / "a.study"
    resources = {**slurm.RESOURCES, "gpus_per_node": 1}
    with open_study(place, 3) as study:
        study.optimize(look, executor="slurm", resources=resources)
        assert [each.error for each in study.evaluations if each.error] == []
        metrics = [each.metrics for each in study.evaluations]
    assert {each["device"] for each in metrics} == {"cuda:0"}
    assert {each["gpu"] for each in metrics} <= {f"n{n}:{gpu}" for n in (1, 2) for gpu in (0, 1)}
    for one in metrics:  # no two at the same time
        others = [each for each in metrics if each["gpu"] == one["gpu"] and each is not one]
        assert all(abs(each["until"] - one["until"]) >= 3 for each in others)


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "slurm.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "'lr':" in done.stdout


def test_from_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "space = {'x': (0.0, 1.0)}\ndef train(config, budget): return config['x'] / budget\n"
    )
    command = [sys.executable, "-m", "deepband", "run", "a.study", "train.py:train"]
    command += ["--max-budget", "3", "--executor", "slurm"]
    command += ["--resources", "partition=main,timeout_min=10", "--workers", "5"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "run 0, max_budget 3: done" in done.stdout
