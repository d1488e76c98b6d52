"""A release as its users get it: the wheel, alone in a new environment, and the tutorial."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import deepband

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)


def call(*command: object, folder: Path) -> str:
    """Run a command as if this project were not there."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**environment, "PATH": f"{Path(str(command[0])).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    (found,) = built.glob("*.tar.gz")
    return found


def new_environment(folder: Path, distribution: Path) -> Path:
    """The interpreter of a new environment with a distribution and what it needs, no more."""
    venv.create(folder, with_pip=True)
    program = folder / "bin" / "python"
    call(program, "-m", "pip", "install", "--quiet", distribution, folder=folder)
    return program


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_environment(tmp_path_factory.mktemp("new") / "environment", wheel)


@pytest.mark.heavy
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    information = f"deepband-{deepband.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(("deepband/", information))} == set()
    assert "deepband/py.typed" in names
    assert any(name.startswith("deepband/interfaces/dashboard/templates/") for name in names)


@pytest.mark.heavy
def test_the_sdist_installs_and_runs_alone(sdist: Path, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "environment", sdist)
    (tmp_path / "wave.py").write_text(BLOCKS[0] + BLOCKS[1])
    assert call(python, "wave.py", folder=tmp_path)


@pytest.mark.heavy
def test_the_tutorial_works_with_the_wheel_alone(python: Path, tmp_path: Path) -> None:
    objective, search, quote, deepen, explain, widen, saving, load = BLOCKS
    wave = tmp_path / "wave.py"
    wave.write_text(objective + search)
    first = call(python, "wave.py", folder=tmp_path)
    assert call(python, "wave.py", folder=tmp_path) == first
    assert "345 to 372" in call(python, "-c", quote, folder=tmp_path)
    wave.write_text(objective + deepen)
    deepened = call(python, "wave.py", folder=tmp_path)
    assert "27 preserving" in deepened
    claimed = re.search(r"falls from ([\d.]+) to ([\d.]+)", TUTORIAL)
    assert claimed
    losses = [f"{float(printed.split()[0]):.3f}" for printed in (first, deepened)]
    assert losses == [*claimed.groups()]
    assert "on the top rung" in call(python, "-c", explain, folder=tmp_path)
    wave.write_text(objective + widen)
    assert "width 2" in call(python, "wave.py", folder=tmp_path)
    (tmp_path / "saved_wave.py").write_text(saving + load)
    assert "trained with budget 9" in call(python, "saved_wave.py", folder=tmp_path)


@pytest.mark.heavy
def test_its_commands_work_with_the_wheel_alone(python: Path, tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text(BLOCKS[0] + BLOCKS[1])
    commands = re.findall(r"^    deepband (.*?)(?:  #.*)?$", TUTORIAL, re.MULTILINE)
    assert len(commands) >= 5
    outputs = [
        call(python.with_name("deepband"), *command.split(), folder=tmp_path)
        for command in commands
    ]
    assert "on the top rung" in outputs[-1]
    assert deepband.open_study(tmp_path / "wave.study").max_budget == 27


def test_the_version_stands_in_one_place() -> None:
    tracked = subprocess.run(
        [
            "git",
            "-C",
            str(ROOT),
            "grep",
            "-lF",
            deepband.__version__,
            "--",
            "*.toml",
            "*.cff",
            "*.py",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert tracked.stdout.split() == ["src/deepband/__init__.py"]


def test_the_citation_names_the_software_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["license"] == "Apache-2.0"
    paper = citation["preferred-citation"]
    assert paper["title"] == "Iterative Deepening Hyperband"
    assert paper["authors"][0] == {"family-names": "Brandt", "given-names": "Jasmin"}
