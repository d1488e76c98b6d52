"""What the project declares that it needs, and the tools that test it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import interpreters
import lowest

ROOT = Path(__file__).parents[2]


def test_every_package_that_the_tests_need_has_one_lower_bound() -> None:
    """Two bounds of one package cannot both be tested: the higher one wins."""
    found = lowest.bounds(lowest.declared(["test"]))
    assert {"numpy", "click", "optuna", "scikit-learn", "starlette", "pytest"} <= set(found)
    assert {name: len(bounds) for name, bounds in found.items() if len(bounds) != 1} == {}


def test_the_constraints_pin_what_is_declared() -> None:
    command = [sys.executable, str(ROOT / "tools" / "lowest.py"), "test"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "click==8.2\n" in printed
    assert "numpy==1.26\n" in printed
    assert "torch" not in printed


def test_interpreters_are_those_that_start() -> None:
    """In order, one of each version, and among them the one that runs this."""
    found = interpreters.interpreters()
    code = "import sys; print(*sys.version_info[:2])"
    versions = [
        subprocess.run([each, "-c", code], capture_output=True, text=True, check=True).stdout
        for each in found
    ]
    assert versions == sorted(set(versions))
    assert sys.executable in found
