"""What commands say about the best evaluation, and how its checkpoint is loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import deepband
import preloaded

TRAIN = """
space = {"x": (0.0, 1.0)}

class Model:
    weight = 0.0

    def state_dict(self):
        return {"weight": self.weight}

    def load_state_dict(self, state):
        self.weight = state["weight"]

def overfits(config, budget, context):
    model = Model()
    model.weight = config["x"] + budget
    context.save(model=model, step=budget)
    return config["x"] + budget

def trains(config, budget, context):
    context.save(step=budget)
    return config["x"] + 1 / budget

def estimator(config, budget, context):
    context.save(model={1, 2}, step=budget)
    return config["x"]
"""


def call(folder: Path, *arguments: object, code: int = 0) -> str:
    done = preloaded.run(["-m", "deepband", *arguments], folder)
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_the_best_of_the_highest_budget_is_named_if_it_is_another_one(folder: Path) -> None:
    ended = call(folder, "run", "a study", "train.py:overfits", "--max-budget", 9)
    study = deepband.open_study(folder / "a study")
    top = study.best_at()
    assert (study.best.rung, top.rung) == (0, 2)
    line = f"on the highest budget, 9: {top.loss:.6g} (bracket {top.bracket}, index {top.index})"
    expected = f"\n{line}; details: deepband best 'a study' --rung top\n"
    for shown in (ended, call(folder, "best", "a study"), call(folder, "status", "a study")):
        assert expected in shown
    assert line not in call(folder, "best", "a study", "--rung", "top")
    assert "on the highest budget, 9: " in study._repr_html_()


def test_the_highest_rung_needs_no_number(folder: Path) -> None:
    call(folder, "run", "s.study", "train.py:overfits", "--max-budget", 9)
    top = deepband.open_study(folder / "s.study").best_at()
    assert call(folder, "best", "s.study", "--rung", "top", "--path") == f"{top.checkpoint}\n"
    assert json.loads(call(folder, "best", "s.study", "--rung", "top", "--json"))["budget"] == 9
    assert call(folder, "best", "s.study", "--rung", "top").startswith("best on rung 2: ")
    message = call(folder, "best", "s.study", "--rung", "highest", code=2)
    assert "'highest' is neither the number of a rung nor 'top'" in message


def test_there_is_no_second_line_if_the_best_is_on_the_highest_budget(folder: Path) -> None:
    ended = call(folder, "run", "s.study", "train.py:trains", "--max-budget", 9)
    assert deepband.open_study(folder / "s.study").best.rung == 2
    assert "best on any budget" in ended
    assert "on the highest budget" not in ended + call(folder, "best", "s.study")


@pytest.mark.parametrize(
    ("objective", "arguments"),
    [("overfits", ", model=model"), ("trains", ""), ("estimator", ", unpickle=True")],
)
def test_the_line_that_loads_the_checkpoint_is_printed(
    folder: Path, objective: str, arguments: str
) -> None:
    call(folder, "run", "s.study", f"train.py:{objective}", "--max-budget", 3)
    best = deepband.open_study(folder / "s.study").best
    [line] = [each for each in call(folder, "best", "s.study").splitlines() if "load it" in each]
    code = line.removeprefix("load it in Python: ")
    assert code == f"deepband.load_checkpoint({str(best.checkpoint)!r}{arguments})"
    names: dict[str, object] = {"deepband": deepband}
    exec(f"{TRAIN}\nmodel = Model()", names)
    assert eval(code, names)["step"] == best.budget
