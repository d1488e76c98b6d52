"""Evaluations a second when every result is on the disk before the next one is asked for.

    python bench/durable.py

Beside Optuna with its SQLite storage, in the same run and the same folder.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import optuna

import deepband
from deepband.analysis.text import table

SPACE = {"x": (0.0, 1.0), "y": (1e-5, 1.0, "log"), "z": (1, 100)}


def one_at_a_time(folder: Path, evaluations: int) -> float:
    study = deepband.open_study(folder / "one.study", space=SPACE, max_budget=6561)
    start = time.perf_counter()
    for _ in range(evaluations):
        job = study.ask()
        assert job is not None
        study.tell(job, job.config["x"])
    elapsed = time.perf_counter() - start
    study.close()
    return evaluations / elapsed


def in_batches(folder: Path, evaluations: int) -> float:
    study = deepband.open_study(folder / "batch.study", space=SPACE, max_budget=6561)
    jobs = study.ask_all()[:evaluations]
    start = time.perf_counter()
    for first in range(0, len(jobs), 64):
        batch = jobs[first : first + 64]
        study.tell_all([(job, job.config["x"]) for job in batch])
    elapsed = time.perf_counter() - start
    study.close()
    return len(jobs) / elapsed


def with_optuna(folder: Path, evaluations: int) -> float:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=f"sqlite:///{folder}/optuna.db",
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=optuna.pruners.HyperbandPruner(1, 81, 3),
    )
    start = time.perf_counter()
    for _ in range(evaluations):
        trial = study.ask()
        trial.suggest_float("x", 0.0, 1.0)
        trial.suggest_float("y", 1e-5, 1.0, log=True)
        trial.suggest_int("z", 1, 100)
        trial.report(trial.params["x"], 1)
        trial.should_prune()
        study.tell(trial, trial.params["x"])
    return evaluations / (time.perf_counter() - start)


def opening(folder: Path) -> tuple[int, float]:
    path = folder / "large.study"
    study = deepband.open_study(path, space=SPACE, max_budget=59049)
    while jobs := study.ask_all():
        study.tell_all([(job, job.config["x"]) for job in jobs])
    count = len(study.evaluations)
    study.close()
    start = time.perf_counter()
    deepband.open_study(path)
    return count, time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        figures: dict[str, Callable[[], float]] = {
            "Optuna, SQLite storage": lambda: with_optuna(folder, 100),
            "deepband, one at a time": lambda: one_at_a_time(folder, 1000),
            "deepband, tell_all of 64": lambda: in_batches(folder, 6400),
        }
        rows = [["durable evaluations a second", "", "ratio to Optuna"]]
        base = 0.0
        for label, measure in figures.items():
            rate = measure()
            base = base or rate
            rows.append([label, f"{rate:,.0f}", f"{rate / base:.0f}"])
        print(table(rows))
        count, seconds = opening(folder)
        print(f"opening a study of {count:,} evaluations: {seconds:.2f} s")


if __name__ == "__main__":
    main()
