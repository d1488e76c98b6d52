"""The commands `failures` and `logs`, and what `run` says about failures, as a user calls them."""

from __future__ import annotations

import json
import os
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

import deepband
import odd_files
import preloaded
from deepband.execution.worker_output import MOST_BYTES
from deepband.interfaces.cli import main
from driving import SPACE, finish

TRAIN = """
import sys
space = {"x": (0.0, 1.0), "layers": (1, 8)}

def objective(config, budget):
    print("training with", config["x"])
    print("\\x1b[31mwarning\\x1b[0m", file=sys.stderr)
    if config["layers"] > 4:
        raise RuntimeError(f"CUDA out of memory: {config['layers']} layers")
    return config["x"]

def quiet(config, budget):
    return config["x"]
"""


ODD = {**odd_files.LINKS, **odd_files.SPECIAL, **odd_files.FOLDERS}


def call(folder: Path, *arguments: object, code: int = 0) -> str:
    """The output of a command, or its error message if `code` is not 0."""
    with chdir(folder):
        done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that two workers have run, and the output of that command."""
    folder = tmp_path_factory.mktemp("failures")
    (folder / "train.py").write_text(TRAIN)
    run = "run", "mlp.study", "train.py:objective", "--max-budget", 9, "--workers", 2
    done = preloaded.run(["-m", "deepband", *run, "--first-failures", 0], folder)
    assert "FailedEvaluationsWarning" not in done.stderr
    (folder / "said").write_text(done.stdout)
    return folder


@pytest.fixture
def failed(folder: Path) -> list[deepband.Evaluation]:
    found = deepband.open_study(folder / "mlp.study").evaluations
    return [each for each in found if each.error is not None]


def test_a_run_ends_with_a_summary_of_its_failures_once(
    folder: Path, failed: list[deepband.Evaluation]
) -> None:
    *_, summary, hint = (folder / "said").read_text().splitlines()
    first = str(failed[0].error).splitlines()[0]
    assert summary.startswith(f"{len(failed)} of 22 evaluations failed: {len(failed)} x {first}")
    assert hint == "Configs and tracebacks: deepband failures mlp.study"
    again = preloaded.run(["-m", "deepband", "run", "mlp.study"], folder)
    assert "failed" not in again.stdout + again.stderr  # nothing failed in this call


def test_automatic_extension_ends_with_the_summary_and_no_warning(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    run = "auto-extend", "a.study", "train.py:objective", "--max-budget", 9, "--max-cost", 300
    done = preloaded.run(["-m", "deepband", *run, "--first-failures", 0], tmp_path)
    assert done.returncode == 0
    assert " evaluations failed: " in done.stdout
    assert "FailedEvaluationsWarning" not in done.stderr


def test_failures_are_listed_by_error(folder: Path, failed: list[deepband.Evaluation]) -> None:
    text = call(folder, "failures", "mlp.study")
    assert text.startswith(f"{len(failed)} evaluations failed.\n\n{len(failed)} x RuntimeError: CU")
    first = failed[0]
    place = f"bracket {first.bracket}, index {first.index}, rung {first.rung}"
    assert f"    {place}: layers = {first.config['layers']}, x = " in text
    assert f"and {len(failed) - 3} more" in text
    assert 'raise RuntimeError(f"CUDA out of memory' in text
    whole = call(folder, "failures", "mlp.study", "--all")
    assert whole.count("    bracket ") == len(failed)


def test_failures_as_json(folder: Path, failed: list[deepband.Evaluation]) -> None:
    (group,) = json.loads(call(folder, "failures", "mlp.study", "--json"))
    assert group["count"] == len(failed)
    assert group["jobs"] == [[each.bracket, each.index, each.rung] for each in failed]
    assert group["configs"] == [each.config for each in failed]
    assert group["traceback"].startswith("Traceback (most recent call last):")


def test_no_failures(tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3) as study:
        finish(study, lambda job: job.config["x"])
    assert call(tmp_path, "failures", "a.study") == "No evaluation failed.\n"
    assert json.loads(call(tmp_path, "failures", "a.study", "--json")) == []
    assert call(tmp_path, "failures", "b.study", code=2).startswith("Error: there is no study b")


def test_logs_list_what_workers_printed(folder: Path, failed: list[deepband.Evaluation]) -> None:
    header, *lines = call(folder, "logs", "mlp.study").splitlines()
    assert header.split() == ["job", "bytes", "last", "line"]
    assert len(lines) == 22 + 2
    assert lines[0].startswith("0,0,0")
    assert lines[0].endswith("\\x1b[31mwarning\\x1b[0m")
    assert lines[-1] == "The output of a job: deepband logs mlp.study --job 0,0,0"
    some = call(folder, "logs", "mlp.study", "--failed").splitlines()[1:-2]
    keys = [f"{each.bracket},{each.index},{each.rung}" for each in failed]
    assert [line.split()[0] for line in some] == keys


def test_logs_as_json(folder: Path) -> None:
    found = json.loads(call(folder, "logs", "mlp.study", "--json"))
    assert found[0]["job"] == [0, 0, 0]
    size = (folder / "mlp.study.files" / "output" / "0-0-0").stat().st_size
    assert found[0]["size"] == size
    whole = json.loads(call(folder, "logs", "mlp.study", "--job", "0,0,0", "--json"))
    assert whole["output"].startswith("training with 0.")


def test_the_output_of_a_job_is_printed_without_control_characters(folder: Path) -> None:
    study = deepband.open_study(folder / "mlp.study")
    first = f"training with {study.evaluations[0].config['x']}"
    found = call(folder, "logs", "mlp.study", "--job", "0,0,0")
    assert found.splitlines() == [first, "\\x1b[31mwarning\\x1b[0m"]


@pytest.mark.parametrize("job", ["0,0", "0-0-0", "a,b,c", "-1,0,0", "", "0,0,0,0"])
def test_a_job_is_bracket_index_and_rung(folder: Path, job: str) -> None:
    message = call(folder, "logs", "mlp.study", "--job", job, code=2)
    assert "is not BRACKET,INDEX,RUNG, such as 0,3,1." in message


def test_a_job_and_the_list_of_failed_jobs_exclude_each_other(folder: Path) -> None:
    given = "--job", "0,0,0", "--failed"
    assert "leave" in call(folder, "logs", "mlp.study", *given, code=2)


def test_evaluations_without_workers_leave_no_output(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    run = "run", "a.study", "train.py:quiet", "--max-budget", 3
    done = preloaded.run(["-m", "deepband", *run], tmp_path)
    assert done.returncode == 0
    for arguments in ((), ("--failed",), ("--job", "0,0,0")):
        found = call(tmp_path, "logs", "a.study", *arguments)
        assert found.startswith("No ")
        assert "--workers 2 or more" in found


def test_workers_that_print_nothing_are_not_listed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    run = "run", "a.study", "train.py:quiet", "--max-budget", 3, "--workers", 2
    assert preloaded.run(["-m", "deepband", *run], tmp_path).returncode == 0
    assert "either no worker printed anything, or" in call(tmp_path, "logs", "a.study")
    output = tmp_path / "a.study.files" / "output"
    output.mkdir(parents=True, exist_ok=True)
    (output / "0-1-0").write_text("one\n")
    (output / "0-2-0").write_text("")
    assert len(call(tmp_path, "logs", "a.study").splitlines()) == 4
    assert call(tmp_path, "logs", "a.study", "--failed") == "No failed job printed anything.\n"
    found = call(tmp_path, "logs", "a.study", "--job", "0,2,0")
    assert found == "Bracket 0, index 2, rung 0 printed nothing.\n"


def test_output_is_read_from_python(folder: Path, failed: list[deepband.Evaluation]) -> None:
    study, first = deepband.open_study(folder / "mlp.study"), failed[0]
    text = study.output(first.bracket, first.index, first.rung)
    assert text is not None
    assert text.startswith(f"training with {first.config['x']}\n")
    assert study.output(0, 999, 0) is None


def test_failures_say_how_to_read_the_output(
    folder: Path, failed: list[deepband.Evaluation]
) -> None:
    job = f"{failed[0].bracket},{failed[0].index},{failed[0].rung}"
    last = call(folder, "failures", "mlp.study").splitlines()[-1]
    assert last == f"What a job printed: deepband logs mlp.study --job {job}"


def test_the_warning_says_how_to_read_the_output() -> None:
    def fails(config: dict[str, float], budget: float) -> float:
        print("hello")
        raise ValueError("no")

    study = deepband.open_study(space=SPACE, max_budget=1)
    with pytest.warns(deepband.FailedEvaluationsWarning) as warned:
        study.optimize(fails, workers=2, first_failures=0)
    last = str(warned[0].message).splitlines()[-1]
    assert last == "study.output(0, 0, 0) shows what the worker of such a job printed."
    assert study.output(0, 0, 0) == "hello\n"


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_odd_files_are_not_read(tmp_path: Path, make: odd_files.Maker) -> None:
    deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3).close()
    outside = odd_files.make_outside(tmp_path / "outside")
    output = tmp_path / "a.study.files" / "output"
    output.mkdir(parents=True)
    make(output / "0-0-0", outside)
    for arguments in ((), ("--job", "0,0,0")):
        assert odd_files.SECRET not in call(tmp_path, "logs", "a.study", *arguments)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3).close()
    outside = odd_files.make_outside(tmp_path / "outside")
    (tmp_path / "a.study.files").mkdir(exist_ok=True)
    (tmp_path / "a.study.files" / "output").symlink_to(outside)
    assert "its output cannot be read" in call(tmp_path, "logs", "a.study", code=1)
    assert odd_files.SECRET not in call(tmp_path, "logs", "a.study", "--job", "0,0,0")


def test_only_the_end_of_a_huge_file_is_read(tmp_path: Path) -> None:
    deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3).close()
    output = tmp_path / "a.study.files" / "output"
    output.mkdir(parents=True)
    with (output / "0-1-0").open("wb") as file:
        os.truncate(file.fileno(), odd_files.HUGE)
        file.seek(odd_files.HUGE)
        file.write(b"\nthe end\n")
    found = call(tmp_path, "logs", "a.study", "--job", "0,1,0")
    assert found.startswith(f"... {odd_files.HUGE + 9 - MOST_BYTES} bytes left out ...\n")
    assert found.endswith("\nthe end\n")
    assert call(tmp_path, "logs", "a.study").splitlines()[1].endswith("  the end")
