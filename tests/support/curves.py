"""Objectives whose learning curves are known."""

from __future__ import annotations

from typing import Any

from deepband import Study
from deepband.analysis.export import canonical


def falling(config: dict[str, Any], budget: float) -> float:
    """More training always improves the loss."""
    return float(config["x"] + 10 / budget)


def settling(config: dict[str, Any], budget: float) -> float:
    """A budget above 27 does not improve the loss."""
    return float(config["x"] + 10 / min(budget, 27))


def told(study: Study) -> tuple[list[str], list[tuple[int | float, str | None]]]:
    """The evaluations of a study, and its runs."""
    runs = [(run.max_budget, run.strategy) for run in study.runs]
    return list(canonical(study.session.state)), runs
