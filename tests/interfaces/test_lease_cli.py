"""The commands that need no driver: ask, tell, release, exec and work."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import deepband
import preloaded
from deepband.analysis.export import canonical
from deepband.core.leases import find_lease
from driving import wait_until

SPACE = {"lr": {"range": [1e-4, 1e-1, "log"]}, "kind": ["a", "b"]}
NEW = ["--space", "space.json", "--max-budget", "9"]
PROGRAM = """
import json, os, pathlib, sys
job = json.loads(pathlib.Path(os.environ["DEEPBAND_JOB"]).read_text())
assert json.loads(os.environ["DEEPBAND_CONFIG"]) == job["config"]
assert float(os.environ["DEEPBAND_BUDGET"]) == job["budget"]
assert int(os.environ["DEEPBAND_SEED"]) == job["seed"]
if os.environ["DEEPBAND_PREVIOUS"]:
    saved = pathlib.Path(os.environ["DEEPBAND_PREVIOUS"], "state").read_text()
    assert float(saved) == float(os.environ["DEEPBAND_PREVIOUS_BUDGET"]) < job["budget"]
pathlib.Path(os.environ["DEEPBAND_CHECKPOINT"], "state").write_text(str(job["budget"]))
print("0.125")
result = {"loss": job["config"]["lr"] / job["budget"], "kind": job["config"]["kind"]}
pathlib.Path(os.environ["DEEPBAND_RESULT"]).write_text(json.dumps(result))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text(json.dumps(SPACE))
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def call(folder: Path, *arguments: object, code: int = 0) -> str:
    """The output of a command, or its error message if `code` is not 0."""
    done = preloaded.run(["-m", "deepband", *arguments], folder)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout if code in (0, 75) else done.stderr


def ask(folder: Path, *more: object, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(folder, "ask", "a.study", "--json", *more, code=code))
    return found


def test_jobs_are_asked_for_and_told(folder: Path) -> None:
    (first, second) = ask(folder, *NEW, "--count", 2)["jobs"]
    assert (first["budget"], second["budget"]) == (1, 1)
    (Path(first["checkpoint"]) / "state").write_text("1")
    assert call(folder, "tell", "a.study", first["token"], "-0.25") == "recorded 0-0-0\n"
    given = json.dumps({"loss": 0.5, "accuracy": 0.75})
    call(folder, "tell", "a.study", second["token"], given)
    (third,) = ask(folder)["jobs"]
    call(folder, "tell", "a.study", third["token"], "--failed", "out of memory")
    (fourth,) = ask(folder)["jobs"]
    (folder / "result.json").write_text('{"value": 3}')
    call(folder, "tell", "a.study", fourth["token"], "--json", "result.json")
    with deepband.open_study(folder / "a.study") as study:
        found = study.evaluations
        assert [each.loss for each in found] == [-0.25, 0.5, None, 3.0]
        assert found[1].metrics == {"accuracy": 0.75}
        assert found[2].error == "EvaluationError: out of memory"
        assert found[0].checkpoint is not None
        assert (found[0].checkpoint / "state").read_text() == "1"
        assert found[1].checkpoint is None
        assert study.session.state.leases == {}


def test_a_study_ends_with_asking_and_telling(folder: Path) -> None:
    call(folder, "ask", "a.study", *NEW)
    with deepband.open_study(folder / "a.study") as study:
        for _ in range(100):
            for job in study.ask_all(lease=60):
                study.tell(job, job.config["lr"])
            if len(study.evaluations) == 21:
                break
    found = ask(folder, code=75)
    assert found == {"done": False, "jobs": []}
    assert "1 job leased" in call(folder, "ask", "a.study", code=75)
    assert "1 running" in call(folder, "status", "a.study")


def test_what_cannot_be_told_is_refused(folder: Path) -> None:
    (job,) = ask(folder, *NEW)["jobs"]
    token = job["token"]
    assert "not a result" in call(folder, "tell", "a.study", token, "abc", code=2)
    assert "not a result" in call(folder, "tell", "a.study", token, "[1]", code=2)
    assert "'loss' nor 'value'" in call(folder, "tell", "a.study", token, '{"x": 1}', code=2)
    assert "give one of RESULT" in call(folder, "tell", "a.study", token, code=2)
    assert "give one of RESULT" in call(
        folder, "tell", "a.study", token, "1", "--failed", "x", code=2
    )
    assert "cannot be read" in call(folder, "tell", "a.study", token, "--json", "no", code=2)
    assert "is not a job" in call(folder, "tell", "a.study", "abc", "1", code=2)
    foreign = "0-3-0.00000000"
    assert "another study" in call(folder, "tell", "a.study", foreign, "1", code=2)
    assert "there is no study" in call(folder, "tell", "b.study", token, "1", code=2)
    assert not (folder / "b.study").exists()
    call(folder, "tell", "a.study", token, "1")
    assert "already recorded" in call(folder, "tell", "a.study", token, "1", code=1)
    assert "already recorded" in call(folder, "release", "a.study", token, code=1)


def test_a_released_job_is_asked_for_again(folder: Path) -> None:
    (job,) = ask(folder, *NEW)["jobs"]
    assert call(folder, "release", "a.study", job["token"]) == "released 0-0-0\n"
    (again,) = ask(folder)["jobs"]
    assert (again["bracket"], again["index"], again["rung"]) == (0, 0, 0)
    assert again["token"] != job["token"]


def test_a_lease_is_renewed(folder: Path) -> None:
    (job,) = ask(folder, *NEW, "--lease", 1000)["jobs"]
    assert call(folder, "renew", "a.study", job["token"], "--lease", 2000) == "renewed 0-0-0\n"
    with deepband.open_study(folder / "a.study") as study:
        _, lease = find_lease(study.session.state, job["token"])
    assert lease.until > job["until"] + 500
    assert "--lease is -1.0" in call(
        folder, "renew", "a.study", job["token"], "--lease", -1, code=2
    )
    call(folder, "release", "a.study", job["token"])
    assert "cannot be renewed" in call(folder, "renew", "a.study", job["token"], code=1)


def test_a_new_study_needs_its_settings(folder: Path) -> None:
    assert "give --space" in call(folder, "ask", "a.study", "--max-budget", 9, code=2)
    assert "lease is 0" in call(folder, "ask", "a.study", *NEW, "--lease", 0, code=2).replace(
        "--lease is 0", "lease is 0"
    )


def test_a_command_evaluates_a_study(folder: Path) -> None:
    command = [sys.executable, "program.py"]
    call(folder, "exec", "a.study", *NEW, "--", *command)
    with deepband.open_study(folder / "a.study") as study:
        assert len(study.evaluations) == 1
    call(folder, "exec", "a.study", "--until-done", "--", *command)
    with deepband.open_study(folder / "a.study") as study:
        assert study.done
        found = list(canonical(study.session.state))
        assert {each.resumed_from for each in study.evaluations if each.rung > each.bracket} == {
            0,
            1,
        }
    one = deepband.open_study(space={"lr": (1e-4, 1e-1, "log"), "kind": ["a", "b"]}, max_budget=9)
    one.optimize(lambda config, budget: config["lr"] / budget)
    assert found == list(canonical(one.session.state))


def test_a_command_that_fails(folder: Path) -> None:
    shell = ["--", "sh", "-c"]
    assert "wrote nothing" in call(folder, "exec", "a.study", *NEW, "--", "true", code=1)
    assert "ended with status 3" in call(folder, "exec", "a.study", *shell, "exit 3", code=1)
    assert "there is no command" in call(folder, "exec", "a.study", "--", "./nothing", code=2)
    with deepband.open_study(folder / "a.study") as study:
        assert len(study.evaluations) == 0
        assert study.ask() is not None  # the jobs were released
    call(folder, "exec", "a.study", *shell, "echo 0.5 > $DEEPBAND_RESULT")
    assert "status 3" in call(folder, "exec", "a.study", *shell, "exit 3")
    assert "cannot be read" in call(
        folder, "exec", "a.study", *shell, "echo '{' > $DEEPBAND_RESULT"
    )
    call(folder, "exec", "a.study", *shell, "kill -TERM $$", code=130)
    with deepband.open_study(folder / "a.study") as study:
        errors = [each.error for each in study.evaluations]
    assert errors[:2] == [None, "CommandError: the command ended with status 3"]
    assert len(errors) == 3


TRAIN = """
import os, pathlib
space = {"x": (0.0, 1.0)}

def train(config, budget, context):
    (context.path / "state").write_text(str(budget))
    return config["x"] / budget

def broken(config, budget):
    return config["y"]

def delete(config, budget):
    os.remove("a.study")
    return 1.0
"""


def test_work_stops_at_its_limits_and_continues(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    options = ["--no-progress"]
    call(folder, "work", "a.study", "train.py:train", "--max-budget", 9, "--jobs", 4, *options)
    with deepband.open_study(folder / "a.study") as study:
        assert len(study.evaluations) == 4
        assert study.session.state.leases == {}
    call(folder, "work", "a.study", "--max-seconds", 0, *options)
    with deepband.open_study(folder / "a.study") as study:
        assert len(study.evaluations) == 4
    assert "done" in call(folder, "work", "a.study", "--workers", 2, *options)
    assert "done" in call(folder, "work", "a.study", *options)
    assert "jobs is 0" in call(folder, "work", "a.study", "--jobs", 0, code=2).replace("--", "")


def test_work_with_a_broken_objective_records_nothing(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    done = preloaded.run(
        ["-m", "deepband", "work", "a.study", "train.py:broken", "--max-budget", "9"], folder
    )
    assert done.returncode == 1
    assert "KeyError" in done.stderr
    with deepband.open_study(folder / "a.study") as study:
        assert len(study.evaluations) == 0
        assert len(study.ask_all()) == 17


def test_a_study_that_is_deleted_during_work_is_rescued(folder: Path) -> None:
    (folder / "train.py").write_text(TRAIN)
    given = ["work", "a.study", "train.py:delete", "--max-budget", 9, "--no-progress"]
    assert "a.rescued.study" in call(folder, *given, code=1)
    assert not (folder / "a.study").exists()
    with deepband.open_study(folder / "a.rescued.study") as study:
        assert [each.loss for each in study.evaluations] == [1.0]


def test_a_driver_makes_other_commands_wait(folder: Path) -> None:
    (job,) = ask(folder, *NEW)["jobs"]
    with deepband.open_study(folder / "a.study") as study:
        study.ask()
        told = preloaded.Process(
            ["-m", "deepband", "tell", "a.study", job["token"], "0.5"], cwd=folder
        )
        assert told.poll() is None
        study.close()
    assert told.wait(60) == 0
    assert os.listdir(folder)


def test_a_command_ends_with_the_process_that_runs_it(folder: Path) -> None:
    """However that ends; with what the command has started."""
    script = "sleep 600 & echo $! $$ > pids.new; mv pids.new pids; wait"
    given = ["-m", "deepband", "exec", "a.study", *NEW, "--", "sh", "-c", script]
    process = preloaded.Process(given, cwd=folder)
    wait_until((folder / "pids").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    pids = list(map(int, (folder / "pids").read_text().split()))
    assert len(pids) == 2
    wait_until(lambda: not any(map(is_running, pids)))


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
