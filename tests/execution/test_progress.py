"""Progress: what is read from a state, how it is written, and what terminals and functions get."""

from __future__ import annotations

import io
import math
import random
import signal
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import deepband
import preloaded
from deepband import Evaluation, Job, Progress, RunningEvaluation, Study
from deepband.core.costs import cost_left, counts, paid
from deepband.core.exact_numbers import as_number
from deepband.execution.display import LineView
from deepband.execution.pace import Pace, Started
from deepband.execution.progress import RunMeter, advanced
from deepband.execution.progress_text import (
    columns,
    fitted,
    last_line,
    last_lines,
    lines,
    one_line,
    running_lines,
)
from deepband.system.interrupts import RECORDED, answer_to
from driving import open_study
from terminals import CTRL_C, Terminal

# What a meter reads


def check(progress: Progress, study: Study) -> None:
    """Compare a reading with what the state says as a whole."""
    state = study.session.state
    own = list(paid(state, state.run.number))
    spent, left = state.schedule.cost_of(counts(own)), cost_left(state)
    assert progress.run == state.run.number
    assert progress.evaluations == len(own)
    assert progress.failed == sum(each.loss is None for each in own)
    amounts = progress.spent, progress.left, progress.total
    assert tuple(map(Fraction, amounts)) == (spent, left, spent + left)
    assert progress.done == study.done
    assert (progress.total_evaluations == progress.evaluations) == study.done
    assert (progress.best is None) == all(each.loss is None for each in study.evaluations)
    assert progress.best is None or progress.best == study.best


@pytest.mark.filterwarnings("ignore::deepband.WaitingWarning")
@pytest.mark.parametrize("seed", range(5))
def test_readings_agree_with_the_whole_state_at_any_time(seed: int) -> None:
    draw = random.Random(seed)
    study = open_study(max_budget=27)
    meter = RunMeter(1, 0.0)
    for strategy in ("preserving", "frugal", "efficient"):
        study.enqueue({"x": 0.5})
        study.add_evaluation({"x": 0.25}, 1, 0.5)
        while jobs := study.ask_all():
            for job in jobs:
                failed = draw.random() < 0.2
                study.tell(job, ValueError() if failed else {"loss": draw.random(), "a": 1})
                if draw.random() < 0.3:
                    check(meter.read(study.session.state, [], 0.0), study)
            study.retry_failed() if draw.random() < 0.2 else None
        check(meter.read(study.session.state, [], 0.0), study)
        study.deepen(strategy)


def test_a_first_run_has_the_totals_of_its_plan() -> None:
    study = open_study(max_budget=10)  # the smallest budget is 10/9
    meter, found = RunMeter(1, 0.0), []
    while job := study.ask():
        found.append(meter.read(study.session.state, [], 0.0))
        study.tell(job, {"loss": job.config["x"], "seconds": math.nan, "x": 1})
    found.append(meter.read(study.session.state, [], 0.0))
    plan = study.plan()
    totals = {(each.total_evaluations, each.total) for each in found}
    assert totals == {(plan.evaluations, as_number(plan.cost))}
    assert [each.evaluations for each in found] == list(range(plan.evaluations + 1))
    rungs = [each.finished_rungs for each in found]
    assert rungs == sorted(rungs)
    assert (rungs[0], rungs[-1]) == (0, 6)
    assert [each.done for each in found] == [False] * plan.evaluations + [True]
    assert (found[0].metric, found[1].metric) == (None, "x")


def test_only_time_passes_between_two_readings() -> None:
    study = open_study()
    meter = RunMeter(2, 100.0)
    started = [Started(job, 101.0) for job in study.ask_all()[:2]]
    first = meter.read(study.session.state, started, 103.0)
    assert [each.seconds for each in first.running] == [2, 2]
    assert (first.seconds, first.seconds_left, first.workers) == (3, None, 2)
    later = meter.read(study.session.state, started, 108.0)
    assert advanced(first, 5.0) == later
    assert advanced(replace(first, seconds_left=4.0), 5.0).seconds_left == 0


# How long a run takes


def job(bracket: int, rung: int) -> Job:
    return Job(bracket, 0, rung, 3**rung, {})


def pace_of(*results: tuple[int, float] | tuple[int, float, int]) -> Pace:
    """The pace after results with a rung, the time they took, and the rung they resumed from."""
    pace = Pace()
    pace.charges = [1.0, 3.0, 9.0]
    for each in results:
        pace.add(*each)
    return pace


def test_there_is_no_estimate_without_a_result() -> None:
    assert pace_of().seconds_left({(0, 0): 9}, [], 1, 0.0) is None


def test_the_work_left_is_divided_by_the_workers() -> None:
    left = {(0, 0): 8, (0, 1): 3, (0, 2): 1}  # 8 + 9 + 9 units
    assert pace_of((0, 2.0)).seconds_left(left, [], 1, 0.0) == 52
    assert pace_of((0, 2.0)).seconds_left(left, [], 2, 0.0) == 26


def test_no_number_of_workers_is_faster_than_the_longest_bracket() -> None:
    left = {(0, 0): 8, (0, 1): 3, (0, 2): 1, (1, 1): 3, (1, 2): 1}
    assert pace_of((0, 2.0)).seconds_left(left, [], 100, 0.0) == 2 * (1 + 3 + 9)


def test_what_has_passed_of_running_evaluations_is_subtracted() -> None:
    pace, left = pace_of((0, 2.0)), {(0, 1): 0, (0, 2): 1}
    assert pace.seconds_left(left, [Started(job(0, 2), 10.0)], 1, 15.0) == 18 - 5
    assert pace.seconds_left(left, [Started(job(0, 2), 10.0)], 1, 99.0) == 0
    assert pace.seconds_left(left, [Started(job(3, 3), 10.0)], 1, 15.0) == 18  # a job ahead


def test_a_job_that_overruns_shows_that_the_speed_was_too_optimistic() -> None:
    pace, left = pace_of((0, 2.0)), {(0, 2): 1, (1, 2): 1}
    on_time = pace.seconds_left(left, [Started(job(0, 2), 10.0)], 1, 28.0)
    late = pace.seconds_left(left, [Started(job(0, 2), 10.0)], 1, 98.0)
    assert on_time == 18
    assert late == pytest.approx(9 * (2 + 88) / (1 + 9))


def test_training_that_continues_pays_the_difference() -> None:
    pace = pace_of((0, 2.0), (1, 4.0, 0))
    assert pace.seconds_left({(0, 2): 1, (2, 2): 1}, [], 1, 0.0) == 2 * (6 + 9)


def test_the_time_between_evaluations_counts() -> None:
    pace, left = pace_of((0, 0.0)), {(0, 0): 10}
    assert pace.seconds_left(left, [], 1, 100.0) == 0
    pace.add(0, 0.0)
    assert pace.seconds_left(left, [], 1, 103.0) == 30


# Texts

EVALUATION = Evaluation(
    0, 4, 2, 9, {"x": 0.5}, -0.96875, 0.96875, 0, None, {"accuracy": 0.5, "n": 3}, 1.0, None, ()
)
SAMPLE = Progress(
    run=0,
    evaluations=14,
    total_evaluations=22,
    finished_rungs=2,
    failed=0,
    spent=45,
    left=33,
    total=78,
    best=EVALUATION,
    metric="accuracy",
    running=(RunningEvaluation(1, 0, 2, 9, 72.3),),
    workers=2,
    seconds=3723.5,
    seconds_left=298.0,
    done=False,
)


def test_a_line_has_everything() -> None:
    assert one_line(SAMPLE) == (
        "run 0: 14 of 22 evaluations, 45 of 78 units, best 0.96875 on budget 9, accuracy 0.5, "
        "1 running on 2 workers, 1:02:03 elapsed, about 4 min 58 s left"
    )
    new = replace(SAMPLE, best=None, metric=None, seconds_left=None, failed=1, workers=1)
    assert one_line(new) == (
        "run 0: 14 of 22 evaluations, 45 of 78 units, 1 failed, no result yet, "
        "1 running on 1 worker, 1:02:03 elapsed, no estimate yet"
    )


def test_the_last_line_says_how_it_ended() -> None:
    assert last_line(SAMPLE).endswith("accuracy 0.5, stopped after 1 h 02 min")
    assert last_line(replace(SAMPLE, done=True)).endswith("accuracy 0.5, done in 1 h 02 min")


def test_an_extension_has_lower_bounds() -> None:
    extension = replace(SAMPLE, run=1)
    assert "14 of at least 22 evaluations, 45 of at least 78 units" in one_line(extension)
    assert "22 of 22 evaluations" in last_line(replace(extension, evaluations=22, done=True))


def test_a_confirmation_has_exact_amounts_and_another_title() -> None:
    running = (RunningEvaluation(0, 11, 3, 27, 5.0, repetition=2),)
    found = replace(SAMPLE, run=1, confirming=True, running=running)
    assert one_line(found).startswith("confirming: 14 of 22 evaluations, 45 of 78 units, best ")
    assert lines(found, [], 60, 20, unicode=True)[0].startswith("confirming  ━")
    assert "  bracket 0, index 11, budget 27, repetition 2  0:05" in lines(found, [], 60, 20, True)


def test_large_and_fractional_amounts() -> None:
    many = replace(SAMPLE, total_evaluations=20_000, spent=0.5, total=1234567.25)
    assert "14 of 20,000 evaluations, 0.5 of 1,234,567.25 units" in one_line(many)


def test_a_terminal_has_a_bar_and_the_running_evaluations() -> None:
    assert lines(SAMPLE, ["a note"], 60, 20, unicode=True) == [
        f"run 0  {'━' * 23}{'─' * 17}  57 %",
        "14 of 22 evaluations, 45 of 78 units",
        "best 0.96875 on budget 9, accuracy 0.5",
        "1 running on 2 workers, 1:02:03 elapsed",
        "about 4 min 58 s left",
        "  bracket 1, index 0, budget 9  1:12",
        "a note",
    ]
    assert lines(SAMPLE, [], 60, 20, unicode=False)[0] == f"run 0  {'#' * 23}{'-' * 17}  57 %"


def test_long_lists_of_running_evaluations_are_cut() -> None:
    running = [RunningEvaluation(0, index, 0, 1, 5.0) for index in range(20)]
    found = running_lines(running)
    assert len(found) == 9
    assert found[0] == "bracket 0, index 0, budget 1  0:05"
    assert found[-1] == "and 12 more"
    assert running_lines([]) == []


@pytest.mark.parametrize("width", [3, 10, 39, 200])
@pytest.mark.parametrize("height", [1, 3, 8, 40])
def test_any_terminal_is_large_enough(width: int, height: int) -> None:
    running = tuple(RunningEvaluation(0, index, 0, 1, 5.0) for index in range(20))
    metrics = {"精度" * 50: 0.5}
    wide = replace(SAMPLE, running=running, best=EVALUATION._replace(metrics=metrics))
    wide = replace(wide, metric=next(iter(metrics)))
    found = lines(wide, ["Stopping after 20 running evaluations"], width, height, unicode=True)
    assert len(found) <= height
    assert all(columns(line) <= max(width, 20) for line in found)
    if width > 20 and height > 7:
        assert "evaluations" in found[-1]  # the note is not cut


def test_the_last_notes_are_whole() -> None:
    """A path that is cut cannot be opened, and nothing is drawn over the last lines."""
    path = "folder/" * 20
    *_, found = last_lines(SAMPLE, [f"Workers' output: {path}"], 40, unicode=True)
    assert found == f"Workers' output: {path}"


def test_the_width_of_a_line_is_that_on_the_screen() -> None:
    assert columns("abc") == 3
    assert columns("精度") == 4
    assert columns("e\u0301") == 1
    assert fitted("精度精度", 5) == "精度…"
    assert fitted("short", 5) == "short"


def test_the_answer_to_an_interrupt() -> None:
    assert answer_to(signal.SIGINT, 0) == "Stopping."
    assert answer_to(signal.SIGINT, 1) == (
        "Stopping after 1 running evaluation; press Ctrl-C again to abandon it."
    )
    assert answer_to(signal.SIGINT, 3) == (
        "Stopping after 3 running evaluations; press Ctrl-C again to abandon them."
    )
    assert answer_to(signal.SIGTERM, 1) == (
        "Stopping after 1 running evaluation; it is abandoned after 20 s."
    )
    assert answer_to(signal.SIGTERM, 2).endswith("they are abandoned after 20 s.")


# Functions


def by_x(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def test_a_function_receives_what_is_running_and_the_end() -> None:
    found: list[Progress] = []
    study = open_study()
    study.optimize(by_x, workers=2, progress=found.append)
    check(found[-1], study)
    assert (found[-1].running, found[-1].seconds_left) == ((), 0)
    assert found[0].evaluations > 0
    assert found[0].running  # it is called at once, and the next evaluations have been started
    assert {each.workers for each in found} == {2}
    for each in (one for progress in found for one in progress.running):
        assert each.budget == study.session.state.run.budgets[each.rung]
        assert each.seconds >= 0


def test_a_function_that_fails_harms_nothing() -> None:
    calls = []

    def broken(progress: Progress) -> None:
        calls.append(progress)
        raise SystemExit("no")

    study = open_study()
    with pytest.warns(deepband.ObserverWarning, match="given as progress failed with SystemExit"):
        study.optimize(by_x, progress=broken)
    assert study.done
    assert len(calls) > 1
    assert calls[-1].done


def test_auto_extend_reports_all_runs() -> None:
    found: list[Progress] = []
    study = open_study(max_budget=3)
    study.auto_extend(by_x, max_cost=500, progress=found.append)
    assert {each.run for each in found} == set(range(len(study.runs)))
    assert all(after.run >= before.run for before, after in pairwise(found))


def test_what_progress_may_be() -> None:
    with pytest.raises(deepband.InputError, match="progress is 3: give True, False, or a function"):
        open_study().optimize(by_x, progress=3)  # type: ignore[arg-type]


def test_a_study_in_use_is_not_waited_for() -> None:
    study = open_study()
    held, done = Event(), Event()

    def hold() -> None:
        with study.session._method_lock.lock:
            held.set()
            done.wait()

    thread = Thread(target=hold)
    thread.start()
    held.wait()
    assert study.session.read_state(lambda state: state.run.number, 0.0) is None
    done.set()
    thread.join()
    assert study.session.read_state(lambda state: state.run.number, 0.0) == 0


# Lines


def test_lines_come_with_rungs_and_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView()
    for rungs in (2, 2, 2, 3, 3):
        view.show(replace(SAMPLE, finished_rungs=rungs, evaluations=rungs), [])
    view.show(replace(SAMPLE, finished_rungs=6, running=(), done=True), [])  # the end says it
    view.end(replace(SAMPLE, running=(), done=True), ["Workers' output: a.study.files/output"])
    out, err = capsys.readouterr()
    assert out == ""
    first, last, note = err.splitlines()
    assert first.startswith("run 0: 3 of 22 evaluations")
    assert last.endswith("done in 1 h 02 min")
    assert note == "Workers' output: a.study.files/output"


def test_lines_come_after_some_time(capsys: pytest.CaptureFixture[str]) -> None:
    view = LineView(seconds=0.0)
    for seconds in (60.0, 120.0):
        view.show(replace(SAMPLE, seconds=seconds), [])
    first, second = capsys.readouterr().err.splitlines()
    assert "1:00 elapsed" in first
    assert "2:00 elapsed" in second


class Broken(io.StringIO):
    """A stream that fails in a way that streams do not."""

    def write(self, text: str) -> int:
        raise RuntimeError("out of order")


def test_a_display_that_fails_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    study = open_study()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Broken())
        with pytest.warns(deepband.ObserverWarning, match="the display of progress failed with"):
            study.optimize(by_x, progress=True)
    assert study.done


# Programs

PROGRAM = """
import logging, os, sys, time
from pathlib import Path
import deepband

space = {"x": (0.0, 1.0)}
logging.basicConfig(format="%(message)s", level=logging.INFO)

def waits(config, budget):
    while not Path("go").exists():
        time.sleep(0.01)
    return {"loss": config["x"], "accuracy": 0.75}

def talks(config, budget):
    print(f"{budget}: printed")
    logging.info(f"{budget}: logged")
    print("\\rhalf", end="", flush=True)
    time.sleep(0.1)
    print("\\rwhole")
    return config["x"]

def forks(config, budget):
    print("half", end="", flush=True)
    if not os.fork():
        print("\\nin a child", flush=True)
        os._exit(0)
    os.wait()
    print("\\rwhole")
    return config["x"]

def chats(config, budget):
    for number in range(10):
        print(f"{budget}: line {number}")
        time.sleep(0.01)
    return config["x"]

def nests(config, budget):
    inner = deepband.open_study(space=space, max_budget=3)
    inner.optimize(waits, progress=True)
    return config["x"]

def program(objective, path=None, **options):
    study = deepband.open_study(path, space=space, max_budget=9)
    study.optimize(objective, **options)
    print("END", len(study.evaluations))

if __name__ == "__main__":
    eval(f"program({sys.argv[1]})")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def call(text: str) -> list[str]:
    return ["program.py", text]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_the_clock_moves_while_the_first_evaluation_runs(folder: Path, workers: int) -> None:
    terminal = Terminal(call(f"waits, 'a.study', workers={workers}"), folder)
    screen = terminal.wait_for(r"^  bracket 0, index 0, budget 1  0:01$")
    assert "0 of 22 evaluations, 0 of 78 units" in screen
    assert "no result yet" in screen
    screen = terminal.wait_for(r"^  bracket 0, index 0, budget 1  0:02$")
    assert f"{workers} running on {workers} worker" in screen
    assert "no estimate yet" in screen
    (folder / "go").touch()
    assert terminal.wait() == 0
    bar, *rest = terminal.screen
    assert bar == f"run 0  {'━' * 40}  100 %"
    assert rest[0] == "22 of 22 evaluations, 78 of 78 units"
    assert rest[1].startswith("best 0.101176 on budget 9, accuracy 0.75, done in ")
    assert rest[2:] == ["END 22", ""]


def test_the_first_interrupt_answers_and_the_evaluation_ends(folder: Path) -> None:
    terminal = Terminal(call("waits, 'a.study'"), folder)
    terminal.wait_for(r"^  bracket 0, index 0, budget 1  0:0\d$")
    terminal.press(CTRL_C)
    terminal.wait_for(r"^Stopping after 1 running evaluation; press Ctrl-C again to abandon it\.$")
    (folder / "go").touch()
    assert terminal.wait() != 0
    assert f"KeyboardInterrupt: {RECORDED}" in terminal.screen
    assert any("stopped after" in line for line in terminal.screen)
    assert len(deepband.open_study(folder / "a.study").evaluations) == 1


def test_the_second_interrupt_abandons_evaluations(folder: Path) -> None:
    terminal = Terminal(call("waits, 'a.study', workers=2"), folder)
    terminal.wait_for(r"^2 running on 2 workers")
    terminal.press(CTRL_C)
    terminal.wait_for(
        r"^Stopping after 2 running evaluations; press Ctrl-C again to abandon them\.$"
    )
    terminal.press(CTRL_C)
    assert terminal.wait() != 0
    assert f"KeyboardInterrupt: {RECORDED}" in terminal.screen
    assert not deepband.open_study(folder / "a.study").evaluations


def test_what_objectives_print_stays_whole(folder: Path) -> None:
    terminal = Terminal(call("talks"), folder)
    assert terminal.wait() == 0
    place = terminal.screen.index(f"run 0  {'━' * 40}  100 %")
    printed, (*_, end, last) = terminal.screen[:place], terminal.screen[place:]
    assert not [line for line in printed if "evaluations" in line]
    assert (end, last) == ("END 22", "")
    budgets = [1] * 9 + [3] * 8 + [9] * 5
    for kind in ("printed", "logged"):
        found = [line.partition(":")[0] for line in printed if line.endswith(f": {kind}")]
        assert sorted(map(int, found)) == budgets
    assert printed.count("whole") == 22


def test_what_a_forked_process_prints_reaches_the_terminal(folder: Path) -> None:
    terminal = Terminal(call("forks, progress=True"), folder)
    assert terminal.wait() == 0
    assert "END 22" in terminal.screen
    assert terminal.text.count("in a child") == 22  # the display may overwrite it on the screen


def test_the_display_is_back_after_each_line_that_objectives_print(folder: Path) -> None:
    terminal = Terminal(call("chats, progress=True"), folder, rows=500)
    assert terminal.wait() == 0
    first = terminal.text.index("run 0")
    *between, _ = terminal.text[first:].split(": line ")
    assert len(between) > 10
    assert all("run 0" in each for each in between)


def test_there_is_one_display_at_a_time(folder: Path) -> None:
    (folder / "go").touch()
    terminal = Terminal(call("nests, progress=True"), folder)
    assert terminal.wait() == 0
    bars = [line for line in terminal.screen if line.startswith("run 0")]
    assert bars == [f"run 0  {'━' * 40}  100 %"]
    assert "of 5 evaluations" not in terminal.text


def test_a_narrow_terminal(folder: Path) -> None:
    (folder / "go").touch()
    terminal = Terminal(call("waits, progress=True"), folder, columns=40, rows=10)
    assert terminal.wait() == 0
    assert "22 of 22 evaluations, 78 of 78 units" in terminal.screen
    assert terminal.widest < 40


@pytest.mark.parametrize("given", ["False", "None"])
def test_nothing_is_printed(folder: Path, given: str) -> None:
    """With progress=False, and by default where there is no terminal."""
    (folder / "go").touch()
    code = call(f"waits, workers=2, progress={given}")
    done = preloaded.run(code, folder)
    assert (done.stdout, done.stderr) == ("END 22\n", "")
    if given == "False":
        terminal = Terminal(code, folder)
        assert terminal.wait() == 0
        assert terminal.text == "END 22\r\n"


def test_a_log_gets_lines(folder: Path) -> None:
    (folder / "go").touch()
    code = call("talks, 'a.study', workers=2, progress=True")
    done = preloaded.run(code, folder)
    assert done.stdout == "END 22\n"
    *some, last, note = done.stderr.splitlines()
    assert all(line.startswith("run 0: ") for line in some)
    assert last.startswith("run 0: 22 of 22 evaluations, 78 of 78 units, best ")
    assert note == "Workers' output: a.study.files/output"


STREAMS = """
import os, sys, deepband

class Bare:
    def write(self, text): pass
    def flush(self): pass

kept = []

def keeps(config, budget):
    kept.append(sys.stdout)
    return config["x"]

def program(stdout=None):
    sys.stdout = stdout or sys.stdout
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    study.optimize(keeps, progress=True)
    print(len(study.evaluations), "END", file=sys.stderr)

def closed():
    stream = open(os.devnull, "w")
    stream.close()
    return stream

eval(sys.argv[1])
if len(sys.argv) > 2:
    kept[0].write("printed later")
    kept[0].flush()
    assert deepband.execution.display._view(always=False) is not None
    os._exit(0)
"""


@pytest.mark.parametrize("stdout", ["Bare()", "closed()"])
def test_an_unusual_stdout_beside_a_terminal_harms_nothing(tmp_path: Path, stdout: str) -> None:
    (tmp_path / "streams.py").write_text(STREAMS)
    terminal = Terminal(["streams.py", f"program({stdout})"], tmp_path)
    assert terminal.wait() == 0
    bar, *_, end, _ = terminal.screen
    assert (bar, end) == (f"run 0  {'━' * 40}  100 %", "22 END")


def test_what_a_kept_stream_prints_after_the_run_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "streams.py").write_text(STREAMS)
    terminal = Terminal(["streams.py", "program()", "later"], tmp_path)
    assert terminal.wait() == 0
    assert terminal.screen[-2:] == ["22 END", "printed later"]


def test_a_terminal_without_process_groups(folder: Path) -> None:
    """As on Windows."""
    start = "runpy.run_path('program.py', run_name='__main__')"
    code = f"import os, runpy; del os.tcgetpgrp, os.getpgrp; {start}"
    terminal = Terminal(["-c", code, "waits"], folder)
    terminal.wait_for("^1 running on 1 worker")
    (folder / "go").touch()
    assert terminal.wait() == 0
