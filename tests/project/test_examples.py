"""The examples run, and run again; training in pieces is the same as training at once."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import deepband

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

heavy = [pytest.mark.heavy, pytest.mark.timeout(1200)]


@pytest.mark.parametrize(
    "path", [pytest.param(each, id=each.stem, marks=heavy) for each in EXAMPLES]
)
def test_an_example_deepens_its_study_and_repeats_nothing(path: Path, tmp_path: Path) -> None:
    printed = run(path, tmp_path)
    (place,) = tmp_path.glob("*.study")
    assert place.stem == path.stem
    found = facts_of(place)
    assert run(path, tmp_path).splitlines()[-1] == printed.splitlines()[-1]
    assert facts_of(place) == found


def run(path: Path, folder: Path) -> str:
    """What an example prints. Whatever warns, fails."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


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
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # Lightning and PyTorch warn of each other
def test_the_recipes_go_on_from_the_rung_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code of the page as one program, run, and run again; then its objectives by hand."""
    page = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    program = tmp_path / "recipes.py"
    program.write_text("\n".join(blocks))
    subprocess.run([sys.executable, program], cwd=tmp_path, check=True)
    found = {place: facts_of(place) for place in tmp_path.glob("*.study")}
    assert len(found) == 2
    monkeypatch.chdir(tmp_path)
    recipes = load(program)
    assert {place: facts_of(place) for place in found} == found
    check_pieces(recipes.train_lightning, {"units": 8, "lr": 0.01}, [2, 6], tmp_path / "lightning")
    config = {"lr": 0.003, "weight_decay": 0.01}
    check_pieces(recipes.train_transformer, config, [8, 32], tmp_path / "transformer")


@pytest.mark.heavy
def test_the_page_on_gpus_runs_without_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "gpus.md").read_text()
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block.count('devices="auto"') == 1
    program = tmp_path / "gpus.py"
    program.write_text(block.replace('devices="auto"', 'devices=["cpu"]'))
    assert "'lr': " in run(program, tmp_path)


def check_pieces(train: Any, config: dict[str, Any], budgets: list[int], folder: Path) -> None:
    """Without a tolerance: a step is the same whoever made the one before."""
    folder.mkdir()
    at_once = in_pieces(train, config, budgets[-1:], folder)
    assert in_pieces(train, config, budgets, folder) == at_once
