"""Workers in processes: evaluations a second with an objective that does nothing.

python bench/workers.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import deepband

SPACE = {"x": (0.0, 1.0)}


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def rate(folder: Path) -> float:
    """Evaluations a second through two workers, after they have started."""
    with deepband.open_study(folder / "rate.study", space=SPACE, max_budget=729) as study:
        times: list[float] = []
        study.optimize(nothing, workers=2, on_record=lambda: times.append(time.perf_counter()))
        return (len(study.evaluations) - 2) / (times[-1] - times[0])


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        print(f"2 workers, nothing to do: {rate(Path(name)):,.0f} evaluations a second")


if __name__ == "__main__":
    main()
