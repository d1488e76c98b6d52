"""Studies with several objectives and with constraints, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepband import Job, Study, open_study
from driving import finish

TWO = {"error": "minimize", "speed": "maximize"}
THREE = {**TWO, "size": "minimize"}
SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
FAILING, SLOW = 4, 5
"""The index of the config that fails, and of the one with an infinite error."""


def evaluate(job: Job) -> Any:
    """A trade-off: a larger x is faster and has a larger error, which a larger budget lowers."""
    x, y = job.config["x"], job.config["y"]
    if job.index == FAILING:
        return ValueError("no")
    error = float("inf") if job.index == SLOW else (1.0 - y) / job.budget + x
    return {"error": error, "speed": 10.0 * x, "size": y, "memory_mb": 1000.0 * x}


def finished(
    objectives: dict[str, str] | None = TWO,
    constraints: Mapping[str, tuple[float | None, float | None]] | None = None,
    path: Path | None = None,
    **settings: Any,
) -> Study:
    """A finished study of the trade-off."""
    given: dict[str, Any] = {"space": SPACE, "max_budget": 9, "seed": 1, **settings}
    study = open_study(path, objectives=objectives, constraints=constraints, **given)
    finish(study, evaluate)
    return study
