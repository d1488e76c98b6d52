"""Objectives whose learning curves are known."""

from __future__ import annotations

from typing import Any

from deepband import Study
from deepband.analysis.export import canonical


def falling(config: dict[str, Any], budget: float) -> float:
    """Training always goes on to pay."""
    return float(config["x"] + 10 / budget)


def settling(config: dict[str, Any], budget: float) -> float:
    """More than 27 bring nothing."""
    return float(config["x"] + 10 / min(budget, 27))


def told(study: Study) -> tuple[list[str], list[tuple[int | float, str | None]]]:
    """All that was decided from, and the runs that were decided on."""
    runs = [(run.max_budget, run.strategy) for run in study.runs]
    return list(canonical(study.session.state)), runs
