"""Workers in processes: evaluations a second with an objective that does nothing.

python bench/workers.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deepband
from deepband.core.facts import Fact, JobFinished

SPACE = {"x": (0.0, 1.0)}


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


class Clock:
    """Notes when results are recorded."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def observe(self, facts: Sequence[Fact]) -> None:
        if any(isinstance(fact, JobFinished) for fact in facts):
            self.times.append(time.perf_counter())


def rate(folder: Path) -> float:
    """Evaluations a second through two workers, after they have started."""
    with deepband.open_study(folder / "rate.study", space=SPACE, max_budget=729) as study:
        clock = Clock()
        study.observe(clock)
        study.optimize(nothing, workers=2)
        return (len(study.evaluations) - 2) / (clock.times[-1] - clock.times[0])


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        print(f"2 workers, nothing to do: {rate(Path(name)):,.0f} evaluations a second")


if __name__ == "__main__":
    main()
