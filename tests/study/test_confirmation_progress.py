"""The progress of confirmations: what is read, and what functions, logs and terminals get."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import deepband
import preloaded
from deepband import Context, Progress, Study
from deepband.core.facts import Outcome
from deepband.execution.notebook_view import html
from deepband.execution.pace import Started
from deepband.execution.progress import advanced
from deepband.execution.progress_text import one_line
from deepband.study.confirmation_session import ConfirmationSession
from deepband.study.repetitions import repetitions, selected
from driving import open_study
from terminals import CTRL_C, Terminal


def train(config: dict[str, Any], budget: float, context: Context) -> float:
    return float(config["x"]) + context.seed / 2**34


def searched() -> Study:
    study = open_study(max_budget=9)
    study.optimize(train)
    return study


def confirmation(study: Study, top: int, seeds: int) -> ConfirmationSession:
    wanted = repetitions(selected(study.session.state, top), seeds)
    return ConfirmationSession(study.session, wanted)


# What a meter reads


def test_a_reading_is_about_repetitions() -> None:
    study = searched()
    session = confirmation(study, top=2, seeds=2)
    meter = session.meter(workers=2, begun=100.0)
    jobs = [job for _ in range(2) if (job := session.ask())]
    started = [Started(job, 101.0) for job in jobs]
    first = meter.read(study.session.state, started, 105.0)
    assert (first.evaluations, first.total_evaluations, first.failed) == (0, 4, 0)
    assert (first.spent, first.left, first.total) == (0, 36, 36)
    assert (first.confirming, first.done, first.seconds_left) == (True, False, None)
    assert (first.run, first.best, first.workers, first.seconds) == (0, study.best, 2, 5)
    places = [(each.bracket, each.index, each.rung) for each in first.running]
    assert places == selected(study.session.state, 2)
    assert [(each.repetition, each.budget, each.seconds) for each in first.running] == [
        (1, 9, 4),
        (1, 9, 4),
    ]
    assert advanced(first, 1.0) == meter.read(study.session.state, started, 106.0)
    assert meter.evaluations == 0


def test_the_time_left_follows_from_what_repetitions_took() -> None:
    study = searched()
    session = confirmation(study, top=2, seeds=3)
    meter = session.meter(workers=2, begun=0.0)
    meter.read(study.session.state, [], 0.0)
    one, other = (job for _ in range(2) if (job := session.ask()))
    session.record_outcomes([(one, Outcome(0.5, seconds=10.0)), (other, Outcome(None, "no"))])
    found = meter.read(study.session.state, [], 10.0)
    assert (found.evaluations, found.failed, found.spent, found.left) == (2, 1, 18, 36)
    assert found.seconds_left == 4 * 5 / 2  # the failure took no time
    running = [Started(job, 10.0) for _ in range(2) if (job := session.ask())]
    assert meter.read(study.session.state, running, 13.0).seconds_left == (4 * 5 - 2 * 3) / 2
    assert meter.evaluations == 2


def test_what_earlier_calls_recorded_is_counted_but_says_nothing_about_the_time() -> None:
    study = searched()
    study.confirm(train, top=2, seeds=2)
    session = confirmation(study, top=2, seeds=3)
    meter = session.meter(workers=1, begun=0.0)
    found = meter.read(study.session.state, [], 0.0)
    assert (found.evaluations, found.total_evaluations, found.spent) == (4, 6, 36)
    assert (found.seconds_left, meter.evaluations) == (None, 0)


def test_costs_that_are_not_whole_are_exact() -> None:
    study = open_study(max_budget=10, min_budget=3, integer_budgets=False)
    study.optimize(train)
    session = confirmation(study, top=1, seeds=3)
    found = session.meter(1, 0.0).read(study.session.state, [], 0.0)
    assert Fraction(found.total) == 3 * study.session.state.schedule.charge(1)


# Functions


def test_a_function_receives_every_repetition() -> None:
    study, found = searched(), list[Progress]()
    study.confirm(train, top=2, seeds=3, progress=found.append)
    assert all(each.confirming and each.total_evaluations == 6 for each in found)
    assert all(after.evaluations >= before.evaluations for before, after in pairwise(found))
    last = found[-1]
    assert (last.evaluations, last.spent, last.left, last.running) == (6, 54, 0, ())
    assert (last.done, last.seconds_left, last.best) == (True, 0, study.best)


def test_a_notebook_has_the_same_title() -> None:
    study, found = searched(), list[Progress]()
    study.confirm(train, top=1, seeds=1, progress=found.append)
    assert html(found[-1], []).startswith("<div style='white-space: pre-wrap'>confirming <progress")


def test_it_is_not_done_at_a_limit() -> None:
    study, found = searched(), list[Progress]()
    study.confirm(train, top=2, seeds=3, max_cost=20, progress=found.append)
    assert (found[-1].evaluations, found[-1].done) == (2, False)


def test_totals_are_exact_after_an_extension() -> None:
    study, found = searched(), list[Progress]()
    study.deepen("preserving")
    study.confirm(train, top=1, seeds=2, max_cost=9, progress=found.append)
    assert (found[-1].run, found[-1].done) == (1, False)
    assert one_line(found[-1]).startswith("confirming: 1 of 2 evaluations, 9 of 18 units, best ")


def test_what_progress_may_be() -> None:
    with pytest.raises(deepband.InputError, match="progress is 3: give True, False, or a function"):
        searched().confirm(train, progress=3)  # type: ignore[arg-type]


# Programs

PROGRAM = """
import sys, time
from pathlib import Path
import deepband

def search(config, budget, context):
    return config["x"]

def waits(config, budget, context):
    print("trains")
    while not Path("go").exists():
        time.sleep(0.01)
    return config["x"] + context.seed / 2**34

def program(**options):
    study = deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=9)
    study.optimize(search, progress=False)
    found = study.confirm(waits, top=1, seeds=3, **options)
    print("END", len(found.configs[0].values))

if __name__ == "__main__":
    eval(f"program({sys.argv[1]})")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def test_a_terminal_shows_repetitions(folder: Path) -> None:
    terminal = Terminal(["program.py", "workers=2"], folder)
    screen = terminal.wait_for(r"^  bracket \d, index \d, budget 9, repetition 2  0:0[1-9]$")
    assert "0 of 3 evaluations, 0 of 27 units" in screen
    assert "budget 9, repetition 1  0:0" in screen
    assert "2 running on 2 workers" in screen
    (folder / "go").touch()
    assert terminal.wait() == 0
    bar, amounts, ending, *rest = terminal.screen
    assert bar == f"confirming  {'━' * 40}  100 %"
    assert amounts == "3 of 3 evaluations, 27 of 27 units"
    assert ending.startswith("best 0.101176 on budget 9, done in ")
    assert rest == ["Workers' output: a.study.files/confirmations/output", "END 3", ""]


def test_an_interrupt_is_answered_and_the_next_call_continues(folder: Path) -> None:
    terminal = Terminal(["program.py", ""], folder)
    terminal.wait_for(r"^  bracket \d, index \d, budget 9, repetition 1  0:0\d$")
    terminal.press(CTRL_C)
    terminal.wait_for(r"^Stopping after 1 running evaluation; press Ctrl-C again to abandon it\.$")
    (folder / "go").touch()
    assert terminal.wait() != 0
    assert "1 of 3 evaluations, 9 of 27 units" in terminal.screen
    (folder / "go").unlink()
    terminal = Terminal(["program.py", ""], folder)
    screen = terminal.wait_for(r"^  bracket \d, index \d, budget 9, repetition 2  0:0\d$")
    assert "1 of 3 evaluations, 9 of 27 units" in screen
    (folder / "go").touch()
    assert terminal.wait() == 0
    assert "3 of 3 evaluations, 27 of 27 units" in terminal.screen


def test_a_log_gets_a_line(folder: Path) -> None:
    (folder / "go").touch()
    done = preloaded.run(["program.py", "workers=2, progress=True"], folder)
    assert done.stdout == "END 3\n"
    *_, last, note = done.stderr.splitlines()
    assert last.startswith("confirming: 3 of 3 evaluations, 27 of 27 units, best ")
    assert note == "Workers' output: a.study.files/confirmations/output"


def test_without_a_terminal_nothing_is_printed(folder: Path) -> None:
    (folder / "go").touch()
    done = preloaded.run(["program.py", "workers=2"], folder)
    assert (done.stdout, done.stderr) == ("END 3\n", "")
