"""The command line, used as a user would: in processes of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

import deepband
import make_commands
import preloaded
from deepband.interfaces.cli import demo, main
from deepband.interfaces.cli.criteria_options import merge_pairs
from deepband.interfaces.cli.group import RESOURCES
from terminals import Terminal

HOSTILE = "\x1b[31mred\x1b[0m[bold]\u202e=cmd()\r"
TRAIN = f"""
import time
space = {{"lr": (1e-4, 1e-1, "log"), "name": ["plain", {HOSTILE!r}, "=1+1"]}}

def objective(config, budget):
    return (config["lr"] - 0.01) ** 2 + 1 / budget

def broken(config, budget):
    return config["learning_rate"]

def slow(config, budget, context):
    (context.path / "state").write_text(str(budget))
    time.sleep(0.05)
    return config["lr"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def call(folder: Path, *arguments: object, code: int = 0) -> str:
    """The output of a command, or its error message if `code` is not 0."""
    done = preloaded.run(["-m", "deepband", *arguments], folder)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr or code == 1
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that the command line has run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "train.py").write_text(TRAIN)
    call(folder, "run", "mlp.study", "train.py:objective", "--max-budget", 9)
    return folder / "mlp.study"


@pytest.fixture
def study(folder: Path, finished: Path) -> Path:
    """A copy of it, to be looked at or spoiled."""
    return Path(shutil.copy(finished, folder))


def test_run_deepen_and_run_again(folder: Path) -> None:
    out = call(folder, "run", "mlp.study", "train.py:objective", "--max-budget", 9, "--eta", 3)
    assert out.startswith("objective train.py:objective\n")
    assert "run 0, max_budget 9: done" in out
    assert "deepband advice mlp.study" in out
    out = call(folder, "quote", "mlp.study", "--strategy", "efficient", "--to", 27)
    assert "deepening 'efficient', max_budget 9 to 27" in out
    assert "max_budget 27. Next: deepband run mlp.study" in call(folder, "deepen", "mlp.study")
    assert "nothing to do" in call(folder, "deepen", "mlp.study", "--to", "27.0")
    assert "run 1, max_budget 27: done" in call(folder, "run", "mlp.study")
    opened = deepband.open_study(folder / "mlp.study")
    assert opened.session.state.objective == "train.py:objective"
    assert [run.strategy for run in opened.runs] == [None, "preserving"]


def test_limits_and_resuming(folder: Path) -> None:
    out = call(folder, "run", "a.study", "train.py:objective", "--max-budget", 9, "--max-cost", 5)
    assert "stopped at a limit" in out
    assert len(deepband.open_study(folder / "a.study").evaluations) == 5
    assert "done" in call(folder, "run", "a.study")


def test_reading_commands_in_text_and_json(folder: Path, study: Path) -> None:
    assert "bracket 0  9/9  3/3  1/1" in call(folder, "status", study)
    status = json.loads(call(folder, "status", study, "--json"))
    assert status["objective"] == "train.py:objective"
    assert status["status"]["done"] is True
    assert status["status"]["spent"] == 78
    assert "22 evaluations, cost 78" in call(folder, "plan", study)
    plan = json.loads(call(folder, "plan", study, "--json"))
    assert plan["sizes"] == {"0": [9, 3, 1], "1": [5, 1], "2": [3]}
    quote = json.loads(call(folder, "quote", study, "--json"))
    assert quote["cost"]["low"] == 345
    best = json.loads(call(folder, "best", study, "--json"))
    assert best["value"] == pytest.approx(1 / 9, abs=0.01)
    low = json.loads(call(folder, "best", study, "--rung", 0, "--json"))
    assert low["budget"] == 1
    assert call(folder, "best", study).startswith(f"best on any budget: {best['value']:.6g} with")
    assert call(folder, "best", study, "--rung", 0).startswith("best on rung 0: ")
    assert "\nbest on any budget: " in call(folder, "status", study)
    assert "ranks" in call(folder, "explain", study, 0, 0)
    verdicts = json.loads(call(folder, "explain", study, 0, 0, "--json"))
    assert verdicts[0]["candidates"] == 9
    assert call(folder, "predict", study, 0, 0).endswith("(evaluated)\n")
    assert "(95 %: " in call(folder, "predict", study, 0, 0, "--budget", 27)
    predicted = json.loads(call(folder, "predict", study, 0, 0, "--budget", 27, "--json"))
    low, high = predicted["intervals"]["0.8"]
    assert low < predicted["value"] < high
    doctor = json.loads(call(folder, "doctor", study, "--json"))
    assert doctor["good"] is True
    assert doctor["locks"] is True
    assert "sqlite" in call(folder, "doctor")


def test_exports(folder: Path, study: Path) -> None:
    lines = call(folder, "export", study, "--canonical").splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 22
    assert set(rows[0]) == {"bracket", "index", "rung", "run", "budget", "config", "loss"}
    keys = [(row["bracket"], row["index"], row["rung"]) for row in rows]
    assert keys == sorted(keys)
    assert len(call(folder, "export", study, "--format", "jsonl").splitlines()) == 22
    call(folder, "export", study, "-o", "out.csv")
    text = (folder / "out.csv").read_text()
    assert len(text.splitlines()) == 23
    assert "'=1+1" in text
    assert not re.search(r"(^|,)=", text)
    assert "does not exist" in call(folder, "export", study, "-o", "no/out.csv", code=2)
    assert "belongs to the study" in call(folder, "export", study, "-o", "mlp.study", code=2)
    assert deepband.open_study(study).done


def test_hostile_texts_are_escaped(folder: Path, study: Path) -> None:
    for command in (("status", study), ("best", study), ("export", study), ("plan", study)):
        out = call(folder, *command)
        assert not any(bad in out for bad in "\x1b\u202e\r")
    assert "\\x1b[31mred\\x1b[0m[bold]\\u202e=cmd()\\r" in call(folder, "export", study)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "b.study"], 2, "does not exist yet: give the objective, FILE.py:FUNCTION"),
        (["run", "b.study", "nofile.py:f", "--max-budget", "9"], 2, "there is no file nofile.py"),
        (["run", "b.study", "train.py", "--max-budget", "9"], 2, "write it as FILE.py:FUNCTION"),
        (["run", "b.study", "train.py:objectiv", "--max-budget", "9"], 2, "mean 'objective'"),
        (["run", "b.study", "train.py:space", "--max-budget", "9"], 2, "give a function"),
        (["run", "b.study", "no.module:f", "--max-budget", "9"], 2, "cannot be imported"),
        (
            ["run", "b.study", "train.py:objective"],
            2,
            "b.study is a new study: give --max-budget to create it",
        ),
        (["run", "b.study", "train.py:objective", "--max-budget", "x"], 2, "is not a number"),
        (["run", "b.study", "train.py:objective", "--max-budget", "0"], 2, "greater than zero"),
        (["run", "b.study", "train.py:objective", "--max-budget", "9", "--keep", "x"], 2, "keep"),
        (["run", "mlp.study", "--eta", "2"], 2, "created with eta 3, and 2 is given"),
        (["run", "mlp.study", "--max-budget", "27"], 2, "first max_budget 9, and 27 is given"),
        (["run", "b.study", "train.py:objective", "--space", "bad.json"], 2, "cannot be read"),
        (
            ["run", "b.study", "train.py:objective", "--max-budget", "9", "--space", "odd.json"],
            2,
            "'x'",
        ),
        (["run", "b.study", "exits.py:f", "--max-budget", "9"], 2, "SystemExit: 0 ("),
        (["run", "mlp.study", "other.py:objective"], 2, "parameter 'lr' was"),
        (["run", "mlp.study", "--max-cost", "nan"], 2, "give a number of 0"),
        (["run", "b.study", "train.py:broken", "--max-budget", "9"], 1, "KeyError"),
        (["status", "nothing.study"], 2, "there is no study nothing.study"),
        (["status", "train.py"], 1, "is not an intact study file"),
        (["quote", "mlp.study", "--to", "50"], 2, "the nearest values are 27 and 81"),
        (["deepen", "mlp.study", "--strategy", "effcient"], 2, "'effcient'"),
        (["explain", "mlp.study", "7", "0"], 2, "there is no bracket 7"),
        (["predict", "mlp.study", "0", "0", "--budget", "20"], 2, "--budget is 20.0: no rung of"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_wrong_use_has_a_message_and_an_exit_code(
    folder: Path, study: Path, arguments: list[str], code: int, message: str
) -> None:
    (folder / "bad.json").write_text("{")
    (folder / "odd.json").write_text('{"x": {"range": 5}}')
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    (folder / "other.py").write_text(TRAIN.replace("1e-4", "1e-5"))
    assert message in call(folder, *arguments, code=code)
    if code == 2:
        assert not (folder / "b.study").exists()


def test_a_space_from_a_file(folder: Path) -> None:
    (folder / "only.py").write_text("def f(config, budget):\n    return config['x'] + len('x')\n")
    spaces = {
        "short.json": {"x": {"range": [0.001, 1.0, "log"]}, "y": ["a", "b"], "z": 3},
        "configspace.json": deepband.open_study(
            space={"x": (0.0, 1.0)}, max_budget=1
        ).session.space.description,
    }
    for name, space in spaces.items():
        (folder / name).write_text(json.dumps(space))
        path = f"{name}.study"
        call(folder, "run", path, "only.py:f", "--max-budget", 3, "--space", name)
        assert deepband.open_study(folder / path).done


def test_a_held_study_and_an_interrupt(folder: Path) -> None:
    arguments = ("run", "slow.study", "train.py:slow", "--max-budget", 81)
    with (folder / "said").open("w") as said:
        process = preloaded.Process(["-m", "deepband", *arguments], cwd=folder, stderr=said)
    path = folder / "slow.study"
    while not path.exists() or not deepband.open_study(path).evaluations:
        assert process.poll() is None
        time.sleep(0.05)
    message = call(folder, *arguments, code=75)
    assert f"locked by process {process.pid} on host" in message
    while ", 1 running" not in call(folder, "status", path):  # it may be between two
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert "Interrupted" in (folder / "said").read_text()
    known = len(deepband.open_study(path).evaluations)
    assert known > 0
    call(folder, "run", path, "--max-cost", 5)
    assert len(deepband.open_study(path).evaluations) > known


def test_removing_checkpoints_reports_the_cost(folder: Path) -> None:
    out = call(folder, "run", "s.study", "train.py:slow", "--max-budget", 9, "--keep", "all")
    assert "deepening may repeat" not in out
    found = json.loads(call(folder, "checkpoints", "s.study", "--keep", "top:2", "--json"))
    assert found["kept"] == 2
    assert found["removed"] == 20
    assert found["bytes_freed"] > 0
    assert found["extra_cost"] > 0
    assert "2 checkpoints kept, 0 removed" in call(folder, "checkpoints", "s.study")
    out = call(folder, "checkpoints", "s.study", "--keep", "none")
    assert "0 checkpoints kept, 2 removed" in out
    assert "deepening may repeat up to" in out


def test_the_best_checkpoint_is_printed(folder: Path) -> None:
    call(folder, "run", "s.study", "train.py:slow", "--max-budget", 9)
    best = deepband.open_study(folder / "s.study").best
    assert call(folder, "best", "s.study", "--path") == f"{best.checkpoint}\n"
    assert call(folder, "best", "s.study").endswith(f"\ncheckpoint: {best.checkpoint}\n")
    found = json.loads(call(folder, "best", "s.study", "--json"))
    assert found["checkpoint"] == str(best.checkpoint)
    path = call(folder, "best", "s.study", "--path", "--rung", 2).strip()
    assert Path(path, "state").read_text() == "9"
    assert "give one of them" in call(folder, "best", "s.study", "--path", "--json", code=2)
    assert best.checkpoint is not None
    for file in best.checkpoint.iterdir():
        file.write_text("damaged")
    assert "have changed since they were saved" in call(folder, "best", "s.study", "--path", code=1)
    assert json.loads(call(folder, "best", "s.study", "--json"))["checkpoint"] is None
    call(folder, "checkpoints", "s.study", "--keep", "none")
    message = call(folder, "best", "s.study", "--path", code=1)
    assert "has no checkpoint: the study has none at all" in message
    assert "context.save(model=model)" in message
    assert "\ncheckpoint: none, because the study has none at all" in call(
        folder, "best", "s.study"
    )


def test_a_terminal_sees_a_live_display(folder: Path) -> None:
    command = ["-m", "deepband", "run", "t.study", "train.py:slow", "--max-budget", "9"]
    terminal = Terminal(command, folder)
    assert terminal.wait() == 0
    assert "bracket 0" in terminal.text
    assert re.search(r"about \d+ s left", terminal.text)
    assert "run 0, max_budget 9: done" in terminal.text


def test_messages_about_objectives_and_spaces(folder: Path) -> None:
    (folder / "bare.py").write_text("def train(config, budget):\n    return 1.0\n")
    run = "run", "new.study"
    message = call(folder, *run, "bare.py:train", "--max-budget", 3, code=2)
    assert "define it as a variable, space = {...}, in the module of the objective" in message
    message = call(folder, *run, "bare.py:trian", "--max-budget", 3, code=2)
    assert "there is no function 'trian' in bare.py; choose from 'train'." in message
    done = preloaded.run(["-m", "deepband", *run, "no.py:train", "--max-budget", 3], folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no file no.py" in done.stderr
    assert not (folder / "new.study").exists()


def test_failures_that_are_not_repeated_are_explained(folder: Path) -> None:
    with deepband.open_study(folder / "f.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
        jobs = study.ask_all()
        failing = [jobs[0], *(job for job in jobs if job.bracket == 2)]
        study.tell_all([(job, ValueError()) for job in failing])
    (folder / "ok.py").write_text("def f(config, budget):\n    return config['x']\n")
    out = call(folder, "run", "f.study", "ok.py:f", "--retry-failed")
    assert "1 of 4 failed evaluations is repeated: promotions or samples may depend" in out
    out = call(folder, "run", "f.study", "--retry-failed")
    assert "0 of 3 failed evaluations are repeated: the run is finished\n" in out


def test_failures_not_decided_on_can_be_tried_again(folder: Path) -> None:
    with deepband.open_study(folder / "f.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
        study.tell_all([(job, ValueError()) for job in study.ask_all()[:4]])
    (folder / "ok.py").write_text("def f(config, budget):\n    return config['x']\n")
    out = call(folder, "run", "f.study", "ok.py:f", "--retry-failed")
    assert "4 failed evaluations are repeated\n" in out
    assert all(
        each.loss is not None for each in deepband.open_study(folder / "f.study").evaluations
    )


def test_the_docs_hold_the_help_of_every_command() -> None:
    assert make_commands.PAGE.read_text() == make_commands.page(), "python docs/make_commands.py"


def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    first = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "train.py").write_text(first.partition("with deepband")[0])
    commands = re.findall(r"^    deepband ((?:run|quote|deepen) .*)$", readme, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        call(tmp_path, *command.split())
    assert deepband.open_study(tmp_path / "mlp.study").max_budget == 27


@pytest.mark.parametrize("command", ["run", "quote", "serve"])
def test_the_docs_hold_what_the_terminal_shows(folder: Path, command: str) -> None:
    shown = call(folder, command, "--help").strip()
    shown = shown.replace("python -m deepband", "deepband")
    assert shown.split() == make_commands.help_of(command).split()


def test_the_version(folder: Path) -> None:
    command = [sys.executable, "-m", "deepband", "--version"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == deepband.__version__


@pytest.mark.heavy
def test_the_demo_twice_in_a_row(folder: Path) -> None:
    assert check_demo(call(folder, "demo"), call(folder, "demo")) == (47, 288)


def test_the_demo_with_the_smallest_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many epochs, each of them faster."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "space", demo.space | {"layers": 1, "units": 16, "batch_size": 256})
    first, second = (CliRunner().invoke(main, ["demo"]) for _ in range(2))
    assert (first.exit_code, second.exit_code) == (0, 0)
    check_demo(first.output, second.output)
    picture = ElementTree.fromstring(Path("demo-best.svg").read_bytes())
    assert picture.tag.endswith("svg")
    assert len(picture.findall("{*}polyline")) == 1


def check_demo(first: str, second: str) -> tuple[int, int]:
    """The evaluations and epochs that the deepening has added: they depend on the losses."""
    assert re.search(r"max_budget 9 +0 +22 +69 ", first)
    found = re.search(r"max_budget 27 +22 +(\d+) +(\d+) ", first)
    assert found is not None
    new, epochs = map(int, found.groups())
    assert f"{69 + epochs} epochs trained in total" in first
    assert re.search(rf"^ +{69 + epochs} epochs trained$", first, re.MULTILINE)  # of the curve
    low, high = map(int, re.findall(r"cost resumed +(\d+) to (\d+),", first)[0])
    assert low <= epochs <= high
    assert "deepband serve demo.study " in first
    assert "The same curve as a picture: demo-best.svg" in first
    assert f"Resuming demo.study, which has {22 + new} evaluations." in second
    assert second.rsplit("reused", maxsplit=1)[-1] == first.rsplit("reused", maxsplit=1)[-1]
    return new, epochs


def test_a_sampler_by_its_name(folder: Path) -> None:
    given = ("train.py:objective", "--max-budget", 9, "--sampler", "prior")
    assert "done" in call(folder, "run", "prior.study", *given)
    assert deepband.open_study(folder / "prior.study").session.state.created.sampler == "prior"
    assert "done" in call(folder, "run", "prior.study")


@click.command()
@click.option("--resources", type=RESOURCES, multiple=True, callback=merge_pairs)
def shows_resources(resources: dict[str, float] | None) -> None:
    click.echo(json.dumps(resources))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([], None),
        (["num_gpus=1"], {"num_gpus": 1}),
        (["num_gpus=1,num_cpus=0.5"], {"num_gpus": 1, "num_cpus": 0.5}),
        (["num_gpus=1", "a b = 2"], {"num_gpus": 1, "a b": 2}),
        (["partition=gpu,timeout_min=60"], {"partition": "gpu", "timeout_min": 60}),
        (["slurm_gres=gpu:1", "mem=8"], {"slurm_gres": "gpu:1", "mem": 8}),
    ],
)
def test_resources_are_repeated_or_separated_by_commas(
    given: list[str], found: dict[str, float] | None
) -> None:
    arguments = [word for each in given for word in ("--resources", each)]
    done = CliRunner().invoke(shows_resources, arguments)
    assert json.loads(done.stdout) == found


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["num_gpus"], "'num_gpus' is not NAME=NUMBER, such as num_gpus=1."),
        (["=1"], "'=1' is not NAME=NUMBER"),
        (["num_gpus=1,"], "'' is not NAME=NUMBER"),
        (["num_gpus=one"], "'one' is not a number."),
        (["num_gpus=-1"], "give a number of 0 or more."),
        (["num_gpus=inf"], "give a number of 0 or more."),
        (["num_gpus=nan"], "give a number of 0 or more."),
        (["num_gpus=1,num_gpus=2"], "'num_gpus' is given twice."),
        (["num_gpus=1", "num_gpus=2"], "'num_gpus' is given twice."),
    ],
)
def test_resources_that_cannot_be_read_are_refused(given: list[str], why: str) -> None:
    arguments = [word for each in given for word in ("--resources", each)]
    done = CliRunner().invoke(shows_resources, arguments)
    assert done.exit_code == 2
    assert "Invalid value for '--resources': " in done.output
    assert why in done.output


def test_resources_need_a_cluster(folder: Path) -> None:
    run = ["run", "a.study", "train.py:objective", "--max-budget", 3, "--resources", "num_gpus=1"]
    assert "`--resources` only apply to Ray, Dask and Slurm" in call(folder, *run, code=2)
    assert deepband.open_study(folder / "a.study").evaluations == []


def test_an_export_is_utf_8_whatever_the_locale_says(folder: Path) -> None:
    with deepband.open_study(
        folder / "a.study", space={"größe": ["ß", "日本"]}, max_budget=1
    ) as study:
        study.optimize(lambda config, budget: 1.0)
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ascii_only["PYTHONCOERCECLOCALE"] = "0"
    for arguments in (["export", "a.study", "-o", "out.csv"], ["export", "a.study"]):
        command = [sys.executable, "-m", "deepband", *arguments]
        done = subprocess.run(command, cwd=folder, env=ascii_only, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        written = done.stdout or (folder / "out.csv").read_bytes()
        assert "config.größe" in written.decode()


def test_an_export_that_cannot_be_written_leaves_what_was_there(folder: Path, study: Path) -> None:
    """The shell's limit on the size of files stands for a full disk."""
    (folder / "out.csv").write_text("what was there\n")
    names = {path.name for path in folder.iterdir()}
    for output in ("out.csv", "new.csv"):
        command = f"ulimit -f 1; trap '' XFSZ; exec {sys.executable} -m deepband export mlp.study"
        done = subprocess.run(
            ["bash", "-c", f"{command} -o {output}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done
        assert f"{output} cannot be written: [Errno 27] File too large" in done.stderr
        assert "Traceback" not in done.stderr
    assert (folder / "out.csv").read_text() == "what was there\n"
    assert {path.name for path in folder.iterdir()} == names


def test_an_export_follows_links_and_writes_to_devices(folder: Path, study: Path) -> None:
    (folder / "link.csv").symlink_to("real.csv")
    call(folder, "export", study, "-o", "link.csv")
    assert (folder / "link.csv").is_symlink()
    assert len((folder / "real.csv").read_text().splitlines()) == 23
    assert len(call(folder, "export", study, "-o", "/dev/stdout").splitlines()) == 23


def test_a_name_without_room_for_the_files_beside_it_is_refused(folder: Path) -> None:
    before = set(folder.iterdir())
    for name in ("x" * 250, "x" * 248, "ü" * 124):
        said = call(folder, "run", name, "train.py:objective", "--max-budget", 3, code=1)
        assert "give a name of at most 247 bytes" in said
    for name in ("x" * 300, "y/" * 3000):
        assert "there is no study" in call(folder, "status", name, code=2)
        assert "there is no study or folder" in call(folder, "serve", name, code=2)
        assert "File name too long" in call(
            folder, "run", name, "train.py:objective", "--max-budget", 3, code=1
        )
    assert {path for path in folder.iterdir() if path.name != "__pycache__"} == before
    longest = folder / ("x" * 247)
    call(folder, "run", longest.name, "train.py:objective", "--max-budget", 3)
    assert deepband.open_study(longest).done


@pytest.mark.parametrize("place", ["train.py", "code/train.py", "../train.py"])
def test_the_stored_objective_is_found_from_any_folder(
    folder: Path, place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whether the study is beside its objective, above it or below it."""
    elsewhere, home = tmp_path_factory.mktemp("elsewhere"), folder / "home"
    (home / "code").mkdir(parents=True)
    (home / place).write_text(TRAIN)
    given = ("--max-budget", 9, "--max-cost", 1)
    call(home / "code", "run", "../a.study", f"{home / place}:objective", *given)
    assert f"a.study, {place}:objective\n" in call(home, "status", "a.study")
    for here, shown in ((home, place), (home / "code", home / place), (elsewhere, home / place)):
        where = os.path.normpath(here / shown)
        where = os.path.relpath(where, here) if Path(where).is_relative_to(here) else where
        out = call(here, "run", home / "a.study", "--max-cost", 1)
        assert out.startswith(f"objective {where}:objective\n")
    shutil.move(home, elsewhere / "moved")
    shutil.copy(folder / "train.py", elsewhere)
    assert "run 0, max_budget 9: done" in call(folder, "run", elsewhere / "moved" / "a.study")


def test_an_objective_that_was_stored_relative_to_the_current_folder_is_found(
    folder: Path,
) -> None:
    (folder / "sub").mkdir()
    (folder / "old.py").write_text("def objective(config, budget):\n    return config['x']\n")
    place = folder / "sub" / "a.study"
    with deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9) as study:
        study.session.name_objective("old.py:objective")
    call(folder, "run", "sub/a.study", "--max-cost", 1)
    assert "a.study, ../old.py:objective\n" in call(folder, "status", "sub/a.study")


def test_a_stored_objective_that_is_gone_gives_the_command_to_type(folder: Path) -> None:
    (folder / "sub").mkdir()
    study = folder / "a b.study"
    call(folder, "run", study, "train.py:objective", "--max-budget", 9, "--max-cost", 1)
    (folder / "train.py").rename(folder / "sub" / "train.py")
    message = call(folder, "run", study, code=2)
    assert f"there is no {folder / 'train.py'}. Say where it is now" in message
    command = f"deepband run '{study}' path/to/train.py:objective"
    assert message.endswith(f"{command}\n")
    *_, target = command.replace("path/to", "sub").split()
    out = call(folder, "run", study, target)
    assert out.startswith("objective sub/train.py:objective (was train.py:objective)\n")


def test_a_stored_module_is_found_beside_the_study(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    study = folder / "a.study"
    (folder / "models").mkdir()
    (folder / "train.py").rename(folder / "models" / "nets.py")
    call(folder, "run", study, "models.nets:objective", "--max-budget", 9, "--max-cost", 1)
    assert "done" in call(elsewhere, "run", study)
    (folder / "models").rename(folder / "networks")
    message = call(elsewhere, "run", study, code=2)
    assert f"no module models. Say where it is now: deepband run {study} PACKAGE" in message


def test_a_locked_study_is_reported_before_the_objective_is_imported(folder: Path) -> None:
    (folder / "slow.py").write_text("raise AssertionError('it was imported')")
    with deepband.open_study(folder / "a.study", space={"x": [1, 2]}, max_budget=9) as study:
        assert study.ask()
        message = call(folder, "run", "a.study", "slow.py:objective", code=75)
        assert f"locked by process {os.getpid()} on host" in message
    assert "it was imported" in call(folder, "run", "a.study", "slow.py:objective", code=2)


DEVICES = """
import os
space = {"x": (0.0, 1.0)}
print("imported with", os.environ.get("CUDA_VISIBLE_DEVICES"))

def objective(config, budget, context):
    seen = {"visible": os.environ["CUDA_VISIBLE_DEVICES"], "device": context.device}
    return {"loss": config["x"] / budget, **seen}
"""


def test_devices_of_workers(folder: Path) -> None:
    (folder / "gpu.py").write_text(DEVICES)
    run = ("run", "gpu.study", "gpu.py:objective", "--max-budget", 9)
    out = call(folder, *run, "--devices", "GPU-a,cpu", "--per-device", 2)
    assert "4 worker processes on the devices GPU-a, cpu\n" in out
    with deepband.open_study(folder / "gpu.study") as study:
        seen = {(each.metrics["visible"], each.metrics["device"]) for each in study.evaluations}
    assert seen == {("GPU-a", "cuda:0"), ("", "cpu")}


@pytest.mark.parametrize("command", ["run", "auto-extend"])
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--devices", "gpu0"], "the device 'gpu0' cannot be read: give names such as 'cuda:0'"),
        (["--devices", "GPU-a", "--workers", 2], "--per-device 2 to let workers share a device"),
        (["--devices", "GPU-a", "--executor", "ray"], "what each job needs as `--resources`"),
        (["--per-device", 2], "give `--devices`, too"),
    ],
)
def test_devices_that_cannot_be_used_create_no_study(
    folder: Path, command: str, given: list[object], problem: str
) -> None:
    start = (command, "gpu.study", "train.py:objective", "--max-budget", 9, "--max-cost", 500)
    assert problem in call(folder, *start, *given, code=2)
    assert not (folder / "gpu.study").exists()
