"""Types as a user meets them: what the README shows is accepted, and a misspelt name is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from deepband.core.strategies import FRUGAL, NAMES, STRATEGIES, StrategyName
from deepband.samplers import SAMPLERS, SamplerName

README = Path(__file__).parents[2] / "README.md"

MISSPELT = """
import deepband

study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9, sampler="forrest")
study.deepen("preservin")
study.quote("eficient")
study.auto_extend(max, strategy="frugl", max_cost=9)
deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9, sampler="forest")
study.deepen("preserving")
"""


def test_the_names_of_the_types_are_those_of_the_tables() -> None:
    assert get_args(SamplerName) == tuple(SAMPLERS)
    assert get_args(StrategyName) == NAMES == (*STRATEGIES, FRUGAL)


@pytest.mark.heavy
def test_mypy_accepts_the_readme_and_finds_misspelt_names(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    (tmp_path / "misspelt.py").write_text(MISSPELT)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "readme.py", "misspelt.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(
        r"^(\w+\.py:\d+): error: .*?incompatible type \"([^\"]*)\"", done.stdout, re.M
    )
    assert found == [
        ("misspelt.py:4", "Literal['forrest']"),
        ("misspelt.py:5", "Literal['preservin']"),
        ("misspelt.py:6", "Literal['eficient']"),
        ("misspelt.py:7", "Literal['frugl']"),
    ], done.stdout + done.stderr
    assert done.stdout.count("error:") == len(found), done.stdout
