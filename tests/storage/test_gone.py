"""Study files that are moved, deleted or replaced while open, and studies saved elsewhere."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import deepband
import preloaded
from deepband import GoneError, InputError, StorageError, Study
from deepband.analysis.export import jsonl
from deepband.core.facts import Fact, JobFinished
from deepband.core.strategies import StrategyName
from driving import SPACE, finish, noisy

Loss = Callable[[Path], None]


def move_the_file(path: Path) -> None:
    path.rename(path.with_name("moved.study"))


def delete_the_file(path: Path) -> None:
    path.unlink()


def move_the_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def replace_the_file(path: Path) -> None:
    other = path.with_name("other.study")
    deepband.open_study(other, space=SPACE, max_budget=3).close()
    other.replace(path)


LOSSES = [move_the_file, delete_the_file, move_the_folder, replace_the_file]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "studies"
    folder.mkdir()
    return folder / "mlp.study"


def make(path: Path) -> Study:
    return deepband.open_study(path, space=SPACE, max_budget=9)


def losing(path: Path, lose: Loss, after: int) -> Callable[[dict[str, Any], float], float]:
    """An objective that loses the file in its evaluation number `after`."""
    calls = iter(range(1000))

    def train(config: dict[str, Any], budget: float) -> float:
        if next(calls) == after:
            lose(path)
        return float(config["x"])

    return train


@pytest.mark.parametrize("lose", LOSSES)
def test_a_run_whose_file_is_lost_keeps_its_results(path: Path, tmp_path: Path, lose: Loss) -> None:
    with make(path) as study:
        with pytest.raises(GoneError, match=r"mlp\.study: was .*save_as\(path\)"):
            study.optimize(losing(path, lose, after=5))
        assert len(study.evaluations) == 6  # the sixth was reported after the file was gone
        assert study.best is not None
        assert len(list(jsonl(study.session.state))) == 6
        assert study.copy().evaluations == study.evaluations
        with pytest.raises(GoneError):
            study.ask()
        study.save_as(tmp_path / "saved.study")
        assert study.session.name == "saved.study"
        study.optimize(lambda config, budget: config["x"])
    with make(tmp_path / "straight.study") as straight:
        straight.optimize(lambda config, budget: config["x"])
    with deepband.open_study(tmp_path / "saved.study") as saved:
        assert saved.done
        assert [each.loss for each in saved.evaluations] == [
            each.loss for each in straight.evaluations
        ]


def test_results_of_workers_are_kept_when_the_folder_is_moved(path: Path, tmp_path: Path) -> None:
    study = make(path)
    recorded: list[int] = []

    class Mover:
        def observe(self, facts: Sequence[Fact]) -> None:
            recorded.extend(0 for fact in facts if isinstance(fact, JobFinished))
            if len(recorded) >= 3 and path.exists():
                move_the_folder(path)

    study.observe(Mover())
    with pytest.raises(GoneError):
        study.optimize(lambda config, budget: config["x"], workers=2)
    assert len(study.evaluations) >= len(recorded)
    study.save_as(tmp_path / "saved.study")
    study.optimize(lambda config, budget: config["x"], workers=2)
    assert study.done
    study.close()


@pytest.mark.parametrize("lose", LOSSES)
def test_what_is_told_when_the_file_is_gone_is_in_memory(
    path: Path, tmp_path: Path, lose: Loss
) -> None:
    with make(path) as study:
        first, second, third = study.ask_all()[:3]
        study.tell(first, 0.25)
        lose(path)
        with pytest.raises(GoneError):
            study.tell(second, 0.5)
        with pytest.raises(GoneError):
            study.tell_all([(third, 0.75)])
        assert [each.loss for each in study.evaluations] == [0.25, 0.5, 0.75]
    study.save_as(tmp_path / "saved.study")  # a `with` block has closed it by then
    with deepband.open_study(tmp_path / "saved.study") as saved:
        assert [each.loss for each in saved.evaluations] == [0.25, 0.5, 0.75]
    with pytest.raises(deepband.ClosedError):
        study.ask()


def test_a_file_that_is_put_back_gets_what_came_meanwhile(path: Path) -> None:
    with make(path) as study:
        jobs = study.ask_all()
        move_the_file(path)
        with pytest.raises(GoneError):
            study.tell(jobs[0], 0.5)
        path.with_name("moved.study").rename(path)
        study.tell(jobs[1], 0.75)
    with deepband.open_study(path) as again:
        assert [each.loss for each in again.evaluations] == [0.5, 0.75]


def test_a_file_that_went_on_while_it_was_away_is_not_overwritten(path: Path) -> None:
    study = make(path)
    jobs = study.ask_all()
    move_the_file(path)
    with pytest.raises(GoneError):
        study.tell(jobs[0], 0.5)
    moved = path.with_name("moved.study")
    with deepband.open_study(moved) as other:
        other.tell(jobs[1], 0.25)
    moved.rename(path)
    for _ in range(2):
        with pytest.raises(StorageError, match="changed"):
            study.tell(jobs[2], 0.75)
    assert [each.loss for each in study.evaluations] == [0.5]
    study.close()
    with deepband.open_study(path) as again:
        assert [each.loss for each in again.evaluations] == [0.25]


def test_what_does_not_bring_results_changes_nothing_when_the_file_is_gone(path: Path) -> None:
    with make(path) as study:
        finish(study, noisy(1))
        before = list(jsonl(study.session.state))
        path.unlink()
        for action in (
            lambda: study.deepen("efficient"),
            lambda: study.enqueue({"x": 0.5}),
            lambda: study.session.name_objective("train.py:train"),
        ):
            with pytest.raises(GoneError):
                action()
        assert list(jsonl(study.session.state)) == before
        assert len(study.runs) == 1
        assert study.session.state.objective is None
        assert not path.exists()


def test_a_study_that_was_only_read_is_not_made_again(path: Path) -> None:
    make(path).close()
    reader = deepband.open_study(path)
    path.unlink()
    with pytest.raises(GoneError, match="was moved or deleted"):
        reader.ask()
    assert not path.exists()
    assert reader.evaluations == []


def test_another_study_under_the_path_is_not_written_to(path: Path) -> None:
    make(path).close()
    reader = deepband.open_study(path)
    replace_the_file(path)
    before = path.read_bytes()
    with pytest.raises(GoneError, match="was replaced by another study"):
        reader.ask()
    assert path.read_bytes() == before


def test_observers_learn_what_was_saved_elsewhere(path: Path, tmp_path: Path) -> None:
    observed: list[Fact] = []

    class Note:
        def observe(self, facts: Any) -> None:
            observed.extend(facts)

    with make(path) as study:
        jobs = study.ask_all()
        study.observe(Note())
        observed.clear()
        path.unlink()
        with pytest.raises(GoneError):
            study.tell(jobs[0], 0.5)
        assert observed == []
        study.save_as(tmp_path / "saved.study")
        assert [type(fact) for fact in observed] == [JobFinished]


@pytest.mark.parametrize("strategies", [["preserving"], ["frugal", "discarding"], ["efficient"]])
def test_a_study_in_memory_becomes_a_file(tmp_path: Path, strategies: list[StrategyName]) -> None:
    with deepband.open_study(space={"x": (0.0, 1.0), "y": ["a", None]}, max_budget=9) as study:
        study.session.name_objective("train.py:train")
        study.enqueue({"x": 0.5, "y": None})
        study.add_evaluations({"x": 0.25, "y": "a"}, [(1, 0.5), (3, 0.25)], "a paper")
        finish(study, noisy(1, failures=0.3), random.Random(1))
        for strategy in strategies:
            study.deepen(strategy, to=27)
            jobs = study.ask_all()
            study.tell_all([(job, noisy(1)(job)) for job in jobs[::2]])
            study.retry_failed()
            for job in jobs:
                if study.session.expects(job):
                    study.release(job)
            if strategy != strategies[-1]:
                finish(study, noisy(1))
        study.optimize(lambda config, budget: config["x"], workers=2, ahead=True, max_cost=20)
        before, runs = list(jsonl(study.session.state)), study.runs
        study.save_as(tmp_path / "a.study")
        assert study.session.persistent
        finish(study, noisy(2))
        after = list(jsonl(study.session.state))
    with deepband.open_study(tmp_path / "a.study") as saved:
        assert list(jsonl(saved.session.state)) == after
        assert set(before) <= set(after)
        assert saved.runs[:-1] == runs[:-1]
        assert saved.session.state.objective == "train.py:train"


def test_checkpoints_come_along(tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        trained = 0
        if context.previous is not None:
            trained = int((context.previous / "state").read_text())
        assert trained == context.previous_budget
        (context.path / "state").write_text(str(budget))
        return float(config["x"])

    with deepband.open_study(space=SPACE, max_budget=9) as study:
        study.optimize(train)
        study.save_as(tmp_path / "a.study")
        study.deepen("efficient")
        study.optimize(train)
        assert all(run.trained == run.cost_resumed for run in study.runs)
        study.save_as(tmp_path / "b.study")
        study.deepen("efficient")
        study.optimize(train)
        assert all(run.trained == run.cost_resumed for run in study.runs)
    with deepband.open_study(tmp_path / "a.study") as first:
        assert len(first.runs) == 2


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    taken = tmp_path / "a.study"
    make(taken).close()
    before = taken.read_bytes()
    with deepband.open_study(space=SPACE, max_budget=9) as study:
        with pytest.raises(InputError, match="exists already"):
            study.save_as(taken)
        with pytest.raises(StorageError, match="does not exist"):
            study.save_as(tmp_path / "no" / "folder.study")
        assert not study.session.persistent
        finish(study, noisy(1))
    assert taken.read_bytes() == before


def test_choices_that_a_file_cannot_keep_are_not_saved(tmp_path: Path) -> None:
    study = deepband.open_study(space={"x": [len, "b"]}, max_budget=9)
    with pytest.raises(deepband.SpaceError, match="parameter 'x' has the value"):
        study.save_as(tmp_path / "a.study")
    assert list(tmp_path.iterdir()) == []


TRAIN = """
import os
space = {"x": (0.0, 1.0)}
done = 0

def train(config, budget):
    global done
    done += 1
    if done == 5:
        os.rename(os.environ["FROM"], os.environ["TO"])
    return config["x"]
"""


@pytest.mark.parametrize("whole_folder", [True, False])
def test_the_command_saves_what_is_in_memory(tmp_path: Path, whole_folder: bool) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "studies").mkdir()
    command = ["-m", "deepband", "run", "studies/mlp.study"]
    moved = ("studies", "moved") if whole_folder else ("studies/mlp.study", "studies/moved.study")
    paths = {name: str(tmp_path / place) for name, place in zip(("FROM", "TO"), moved, strict=True)}
    arguments = [*command, "train.py:train", "--max-budget", "9"]
    done = preloaded.run(arguments, tmp_path, env={**os.environ, **paths})
    assert done.returncode == 1
    saved = tmp_path / ("" if whole_folder else "studies") / "mlp.rescued.study"
    assert "was moved or deleted" in done.stderr
    assert f"deepband run {saved}" in done.stderr
    with deepband.open_study(saved) as study:
        assert len(study.evaluations) == 5
        where = "train.py" if whole_folder else "../train.py"
        assert study.session.state.objective == f"{where}:train"
    command[-1] = str(saved)
    assert preloaded.run(command, tmp_path).returncode == 0
    shutil.rmtree(tmp_path / "moved", ignore_errors=True)
