"""Workers in processes: evaluations a second with an objective that does nothing, and how busy
sleeping workers are, beside Optuna's threads in the same run.

    python bench/workers.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import optuna

import deepband
from deepband.report import table

SPACE = {"x": (0.0, 1.0)}


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def rate(folder: Path) -> float:
    """Evaluations a second through two workers, after they have started."""
    with deepband.open_study(folder / "rate.study", space=SPACE, max_budget=729) as study:
        times: list[float] = []
        study.optimize(nothing, workers=2, on_record=lambda: times.append(time.perf_counter()))
        return (len(study.evaluations) - 2) / (times[-1] - times[0])


def busy(folder: Path, workers: int, max_budget: int, seconds: float) -> float:
    """Busy worker seconds over workers times wall, with sleeps in proportion to the budget."""
    total = float(deepband.Schedule.of(3, 1, max_budget).cost)
    unit = seconds * workers / total

    def sleep(config: dict[str, Any], budget: float) -> float:
        time.sleep(unit * budget)
        return float(config["x"])

    with deepband.open_study(
        folder / f"{max_budget}.study", space=SPACE, max_budget=max_budget
    ) as study:
        start = time.perf_counter()
        study.optimize(sleep, workers=workers)
        return total * unit / (workers * (time.perf_counter() - start))


def busy_optuna(workers: int, max_budget: int, seconds: float) -> float:
    """The same for Optuna: a step a unit of budget, pruned by its Hyperband."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(pruner=optuna.pruners.HyperbandPruner(1, max_budget, 3))
    total = float(deepband.Schedule.of(3, 1, max_budget).cost)
    unit = seconds * workers / total
    slept: list[float] = []

    def objective(trial: optuna.Trial) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        for step in range(1, max_budget + 1):
            time.sleep(unit)
            slept.append(unit)
            trial.report(x, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    start = time.perf_counter()
    study.optimize(objective, n_jobs=workers, n_trials=round(1.5 * max_budget))
    return sum(slept) / (workers * (time.perf_counter() - start))


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        print(f"2 workers, nothing to do: {rate(folder):,.0f} evaluations a second")
        rows = [["utilisation of 8 sleeping workers", "27", "81"]]
        rows.append(["deepband"] + [f"{busy(folder, 8, top, 4):.2f}" for top in (27, 81)])
        rows.append(["Optuna, n_jobs=8"] + [f"{busy_optuna(8, top, 4):.2f}" for top in (27, 81)])
        print(table(rows))


if __name__ == "__main__":
    main()
