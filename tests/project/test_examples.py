"""The examples run, and run again; training in pieces is the same as training at once."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

import deepband

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

QUIET = ["-W", "ignore"]
"""For programs with libraries that warn of each other."""
FAILING = ["-W", "default::UserWarning"]
"""For programs whose evaluations fail on purpose."""

heavy = [pytest.mark.heavy, pytest.mark.timeout(1200)]


@pytest.mark.parametrize(
    "path", [pytest.param(each, id=each.stem, marks=heavy) for each in EXAMPLES]
)
def test_an_example_deepens_its_study_and_repeats_nothing(path: Path, tmp_path: Path) -> None:
    options = FAILING if path.stem == "shell_command" else []
    printed = run(path, tmp_path, *options)
    (place,) = tmp_path.glob("*.study")
    assert place.stem == path.stem
    found = facts_of(place)
    assert run(path, tmp_path).splitlines()[-1] == printed.splitlines()[-1]
    assert facts_of(place) == found


def run(path: Path, folder: Path, *options: str) -> str:
    """What an example prints. Whatever warns, fails, unless options say otherwise."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *options, str(path)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},  # models this small have nothing to share
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def run_here(path: Path) -> str:
    """The same in this process, for programs that take no time."""
    output = io.StringIO()
    with contextlib.chdir(path.parent), contextlib.redirect_stdout(output):
        runpy.run_path(str(path), run_name="__main__")
    return output.getvalue()


def facts_of(place: Path) -> list[Any]:
    """Every evaluation of a study that is done, with the time that it took."""
    with deepband.open_study(place) as study:
        assert study.done
        assert len(study.runs) >= 2
        assert all(run.evaluations for run in study.runs)
        return study.evaluations


def test_the_table_of_the_examples_names_them_all() -> None:
    table = (ROOT / "examples" / "README.md").read_text()
    named = set(re.findall(r"^\| \[(\w+\.py)\]\(\1\)", table, re.MULTILINE))
    assert named == {str(path.relative_to(ROOT / "examples")) for path in EXAMPLES}


def load(path: Path) -> Any:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_pieces(train: Any, config: dict[str, Any], budgets: list[int], folder: Path) -> float:
    """The loss of training up the rungs, each with a seed of its own, as a study has it."""
    previous: Path | None = None
    before, result = 0, cast(Any, None)
    for budget in budgets:
        context = deepband.Context(
            seed=7 + before,
            path=folder / f"{len(budgets)} {budget}",
            previous=previous,
            previous_budget=before,
        )
        context.path.mkdir()
        result = train(config, budget, context)
        previous, before = context.path, budget
    return float(result["loss"] if isinstance(result, dict) else result)


def drawn(space: dict[str, Any]) -> list[dict[str, Any]]:
    """The first configs that a study would try."""
    return [job.config for job in deepband.open_study(space=space, max_budget=27).ask_all()[:3]]


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["mlp_checkpoints", "pytorch_model", "boosting"])
def test_training_in_pieces_is_the_same_as_training_at_once(name: str, tmp_path: Path) -> None:
    example = load(ROOT / "examples" / f"{name}.py")
    for number, config in enumerate(drawn(example.space)):
        check_pieces(example.train, config, [1, 3, 9], tmp_path / str(number))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["batch_pytorch", "batch_jax"])
def test_the_loss_of_a_config_does_not_depend_on_its_batch(name: str) -> None:
    """Including those that resume beside those that start from scratch."""
    example, losses = load(ROOT / "examples" / f"{name}.py"), []
    for batch in (1, 5, True):
        study = deepband.open_study(space=example.space, max_budget=3)
        study.optimize(example.train_batch, batch=batch)
        losses.append({(e.bracket, e.index, e.rung): e.loss for e in study.evaluations})
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=1e-4)


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_the_page_on_batches_turns_an_objective_into_one_for_batches(tmp_path: Path) -> None:
    """Its program runs, and both objectives have the same losses up to rounding."""
    page = (ROOT / "docs" / "how-to" / "batches.md").read_text()
    program = tmp_path / "program.py"
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program.write_text("\n".join(blocks))
    printed = run(program, tmp_path)
    assert printed == run(program, tmp_path)
    with contextlib.chdir(tmp_path):
        code = load(program)
    losses = []
    for train, batch in ((code.train, None), (code.train_batch, True)):
        study = deepband.open_study(space=code.space, max_budget=9)
        study.optimize(train, batch=batch)
        losses.append({(e.bracket, e.index, e.rung): e.loss for e in study.evaluations})
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def recipes() -> list[Any]:
    """The programs on the page of recipes, by the name of their section."""
    page = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
    found = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
        marks = heavy if any("torch" in block for block in blocks) else []
        found.append(pytest.param("\n".join(blocks), id=section.splitlines()[0], marks=marks))
    return found


@pytest.mark.parametrize("code", recipes())
def test_a_recipe_is_a_program_that_repeats_nothing(code: str, tmp_path: Path) -> None:
    program = tmp_path / "recipe.py"
    program.write_text(code)
    is_slow = "import torch" in code
    start = partial(run, program, tmp_path, *QUIET) if is_slow else partial(run_here, program)
    printed = start()
    (place,) = tmp_path.glob("*.study")
    with deepband.open_study(place) as study:
        assert study.done
        found = study.evaluations
        assert not [each.error for each in found if each.error]
        if any(each.resumed_from is not None for each in found):
            assert [each.trained for each in study.runs] == [
                each.cost_resumed for each in study.runs
            ]
    assert start() == printed
    assert deepband.open_study(place).evaluations == found


RESUMED = {
    "PyTorch": ({"units": 8, "lr": 0.01}, [1, 3, 9]),
    "PyTorch Lightning": ({"units": 8, "lr": 0.01}, [2, 6]),
    "Hugging Face Trainer": ({"lr": 0.003, "weight_decay": 0.01}, [8, 32]),
}


@pytest.mark.heavy
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # Lightning and PyTorch warn of each other
@pytest.mark.parametrize("name", RESUMED)
def test_the_recipes_go_on_from_the_rung_below(name: str, tmp_path: Path) -> None:
    (code,) = (each.values[0] for each in recipes() if each.id == name)
    program = tmp_path / "recipe.py"
    program.write_text(code)
    check_pieces(load(program).train, *RESUMED[name], tmp_path / "pieces")


def check_pieces(train: Any, config: dict[str, Any], budgets: list[int], folder: Path) -> None:
    """Without a tolerance: a step is the same whoever made the one before."""
    folder.mkdir()
    at_once = in_pieces(train, config, budgets[-1:], folder)
    assert in_pieces(train, config, budgets, folder) == at_once
