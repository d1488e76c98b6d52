"""The commands that extend a study, and what other commands say of a wider or limited one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deepband
from deepband.interfaces.cli import main

TRAIN = """
space = {"x": (0.0, 1.0)}

def train(config, budget):
    return config["x"] + 1 / budget
"""
NEW = "run", "a.study", "train.py:train", "--max-budget", "9"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN)


def call(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done.output


def found(*arguments: object) -> Any:
    return json.loads(call(*arguments, "--json"))


def sizes() -> list[tuple[float, int, int | None, str | None]]:
    runs = deepband.open_study("a.study").runs
    return [(run.max_budget, run.width, run.brackets, run.strategy) for run in runs]


def test_widen_costs_what_was_quoted_and_is_idempotent() -> None:
    call(*NEW)
    quoted = found("quote", "a.study", "--width", 2, "--strategy", "efficient")
    assert (quoted["old_width"], quoted["width"]) == (1, 2)
    assert "run 1, efficient, max_budget 9, width 2. Next: deepband run a.study" in call(
        "widen", "a.study"
    )
    assert "run 1, max_budget 9, width 2: done" in call("run", "a.study")
    assert deepband.open_study("a.study").runs[1].cost == quoted["cost"]["low"]
    said = call("widen", "a.study", "--to", 2)
    assert "nothing to do: the study already reached that" in said
    assert "max_budget 9; max_budget 9, width 2" in said
    call("widen", "a.study", "--to", 4, "--strategy", "discarding")
    assert sizes()[1:] == [(9, 2, None, "efficient"), (9, 4, None, "discarding")]


def test_extend_in_several_directions_at_once() -> None:
    call(*NEW, "--width", 2, "--brackets", 1)
    quoted = call("quote", "a.study", "--to", 27, "--width", 3, "--brackets", 2)
    assert quoted.startswith(
        "extending 'preserving', max_budget 9 to 27, width 2 to 3, brackets 1 to 2\n"
    )
    target = "--max-budget", 27, "--width", 3, "--brackets", 2
    said = call("extend", "a.study", *target, "--strategy", "efficient")
    assert (
        "run 1, efficient, max_budget 27, width 3, brackets 2. Next: deepband run a.study" in said
    )
    call("run", "a.study")
    assert "nothing to do" in call("extend", "a.study", *target)
    assert sizes() == [(9, 2, 1, None), (27, 3, 2, "efficient")]
    assert "give what to extend" in call("extend", "a.study", code=2)
    assert "frugal run only promotes" in call(
        "extend", "a.study", "--width", 4, "--strategy", "frugal", code=2
    )
    assert "never shrinks" in call("extend", "a.study", "--width", 2, "--max-budget", 81, code=2)


@pytest.mark.parametrize(
    "extension", [["deepen"], ["widen"], ["extend", "--max-budget", "27", "--width", "2"]]
)
def test_an_unfinished_run_is_extended_only_when_asked_for(extension: list[str]) -> None:
    call(*NEW, "--max-cost", 5)
    command, *target = extension
    assert "cannot" in call(command, "a.study", *target, code=1)
    assert "unfinished" in call("quote", "a.study")
    call(command, "a.study", *target, "--unfinished")
    assert "done" in call("run", "a.study")
    assert [run.done for run in deepband.open_study("a.study").runs] == [False, True]


def test_one_command_runs_widens_and_deepens() -> None:
    extended = *NEW, "--widen-to", 2, "--deepen-to", 27
    assert "run 2, max_budget 27, width 2: done" in call(*extended)
    assert sizes() == [(9, 1, None, None), (9, 2, None, "efficient"), (27, 2, None, "preserving")]
    before = deepband.open_study("a.study").evaluations
    assert "run 2, max_budget 27, width 2: done" in call(*extended)
    assert len(sizes()) == 3
    assert deepband.open_study("a.study").evaluations == before


def test_one_command_continues_where_a_limit_stopped_it() -> None:
    extended = *NEW, "--widen-to", 2, "--deepen-to", 27, "--strategy", "efficient"
    for number in range(1, 20):
        said = call(*extended, "--max-cost", 60)
        assert sum(run.cost for run in deepband.open_study("a.study").runs) <= 60 * number
        if "stopped at a limit" not in said:
            break
    once = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    steps: list[dict[str, Any]] = [{}, {"width": 2}, {"max_budget": 27}]
    for step in steps:
        if step:
            once.extend("efficient", **step)
        once.optimize(lambda config, budget: config["x"] + 1 / budget)
    told = [(each.bracket, each.index, each.rung, each.loss) for each in once.evaluations]
    again = deepband.open_study("a.study").evaluations
    assert [(each.bracket, each.index, each.rung, each.loss) for each in again] == told


def test_time_is_up_for_the_whole_command() -> None:
    said = call(*NEW, "--widen-to", 2, "--max-seconds", 0)
    assert "run 0, max_budget 9: stopped at a limit" in said
    assert len(sizes()) == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--deepen-to", 28], "it grows by powers of eta"),
        (["--widen-to", 0], "--widen-to is 0"),
        (["--widen-to", 2, "--strategy", "frugal"], "frugal run only promotes"),
        (["--strategy", "frugal"], "--strategy is for --widen-to and --deepen-to"),
    ],
)
def test_a_wrong_target_is_refused_before_anything_is_spent(given: list[Any], why: str) -> None:
    assert why in call(*NEW, *given, code=2)
    assert not Path("a.study").exists() or not deepband.open_study("a.study").evaluations


def test_reading_commands_show_width_and_brackets() -> None:
    call(*NEW, "--brackets", 2)
    call("widen", "a.study")
    said = call("status", "a.study")
    assert "run      1, efficient, max_budget 9, width 2, brackets 2: " in said
    assert "bracket 1" in said
    assert "bracket 2" not in said
    status = found("status", "a.study")["status"]
    assert (status["width"], status["brackets"], status["step"]) == (2, 2, "widening")
    plan = found("plan", "a.study")
    assert (plan["width"], plan["brackets"]) == (2, 2)
    assert plan["sizes"] == {"0": [18, 6, 2], "1": [10, 3]}
    assert "width 2: 28 configs" in call("plan", "a.study")
    said = call("plan", "a.study", "--workers", 4, "--seconds-per-unit", 1)
    assert "widening 'efficient'" in said
    assert "run 1 (efficient, width 2)" in call("explain", "a.study", 0, 0)
    for command in (["best"], ["advice"], ["export"], ["checkpoints"], ["doctor"]):
        code = 1 if command == ["advice"] else 0
        call(*command, "a.study", code=code)
