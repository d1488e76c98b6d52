"""Errors of commands name options, as a user of the command line types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import deepband
from deepband.interfaces.cli import main
from deepband.interfaces.cli.option_names import in_options
from driving import finish, noisy

TRAIN = "space = {'x': (0.0, 1.0)}\n\ndef train(config, budget):\n    return config['x']\n"
TRAIN += "\ndef fails(config, budget):\n    return float('nan')\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)
    deepband.open_study("open.study", space={"x": (0.0, 1.0)}, max_budget=3).close()
    with deepband.open_study("done.study", space={"x": (0.0, 1.0)}, max_budget=3) as study:
        finish(study, noisy(1))
    with deepband.open_study("failed.study", space={"x": (0.0, 1.0)}, max_budget=1) as study:
        finish(study, lambda job: float("nan"))


@pytest.mark.parametrize(
    ("command", "wanted", "unwanted"),
    [
        ("deepen done.study --to 10", "--to is 10", "max_budget is"),
        ("widen done.study --to 0", "--to is 0", "width is"),
        ("quote done.study --to 10", "--to is 10", "max_budget is"),
        ("extend done.study", "`--max-budget`, `--width` or `--brackets`", "max_budget"),
        ("advice open.study", "with `deepband run`.", "unfinished"),
        ("best failed.study --path", "See why with `deepband failures`.", "study."),
        ("run new.study train.py:train --timeout -1", "or leave it out.", "None"),
        ("run new.study train.py:train --per-device 2", "give `--devices`, too.", " devices"),
        (
            "run new.study train.py:train --executor ray --devices 0",
            "leave out `--devices`, and give what each job needs as `--resources`",
            "devices out",
        ),
        ("deepen open.study", "(`--unfinished` extends it", "unfinished=True"),
        ("deepen open.study", "with `deepband run`. (", "study."),
        ("run new.study train.py:train", "give --max-budget to create it", "max_budget"),
        ("run new.study train.py:train --max-budget 3 --workers 0", "--workers is 0", "workers is"),
        ("run done.study train.py:train --deepen-to 10", "--deepen-to is 10", "max_budget is"),
        ("run done.study train.py:train --widen-to 0", "--widen-to is 0", "width is"),
        ("auto-extend done.study train.py:train", "give --max-cost, what", "max_cost"),
        ("auto-extend open.study train.py:train --max-cost 1", "--max-cost is 1,", "max_cost"),
    ],
)
def test_an_error_names_the_option(command: str, wanted: str, unwanted: str) -> None:
    result = CliRunner().invoke(main, command.split())
    assert result.exit_code in (1, 2)
    assert wanted in result.output
    assert unwanted not in result.output.replace(wanted, "")


@pytest.mark.parametrize(
    "command",
    [
        "run --max-cost -1",
        "run --max-seconds -1",
        "run --ahead --ahead-limit -1",
        "auto-extend --max-cost 99 --max-seconds -1",
    ],
)
def test_an_invalid_limit_creates_no_study(command: str) -> None:
    name, *options = command.split()
    given = [name, "new.study", "train.py:train", "--max-budget", "3", *options]
    result = CliRunner().invoke(main, given)
    assert f"{options[-2]} is -1.0: give a number of 0 or more." in result.output
    assert result.exit_code == 2
    assert not Path("new.study").exists()


def test_commands_to_type_are_quoted() -> None:
    run = CliRunner().invoke(main, ["run", "a b.study", "train.py:fails", "--max-budget", "1"])
    assert "deepband advice 'a b.study'" in run.output
    assert "deepband failures 'a b.study'" in run.output
    deepened = CliRunner().invoke(main, ["deepen", "a b.study"])
    assert "Next: deepband run 'a b.study'" in deepened.output


def test_a_missing_objective_gives_the_command_that_is_running() -> None:
    CliRunner().invoke(main, ["run", "a b.study", "train.py:train", "--max-budget", "1"])
    Path("train.py").unlink()
    for name in ("run", "confirm", "auto-extend --max-cost 9"):
        result = CliRunner().invoke(main, [*name.split()[:1], "a b.study", *name.split()[1:]])
        typed = f"deepband {name.split()[0]} 'a b.study' path/to/train.py:train"
        assert typed in result.output, result.output


def test_what_is_not_the_name_of_an_argument_stays() -> None:
    options = {
        "max_budget": "--max-budget",
        "max_cost": "--max-cost",
        "to": "--to",
        "width": "--width",
    }
    assert in_options("at max_budget 27", options) == "at max_budget 27"
    for text in (
        "there is no study my/max_cost.study.",
        "up to 5 jobs",
        "'max_cost' is a parameter",
    ):
        assert in_options(text, options) == text
    assert in_options("width is 0: give width.", options) == "--width is 0: give --width."
    assert in_options("accept it with max_cost=0.", options) == "accept it with --max-cost 0."


def test_automatic_extension_says_which_option_stopped_it() -> None:
    command = "auto-extend done.study train.py:train --max-cost 10"
    output = CliRunner().invoke(main, command.split()).output
    assert "--max-cost is 10" in output
    assert "max_cost" not in output
