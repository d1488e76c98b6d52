"""Writes study files in the format of the deepband that runs this, and what they hold.

    python tests/formats/make.py

Run it before the number of the format changes, and keep what it made: `test_storage.py` opens and
continues every file in this folder. The files `objectives_*` have two objectives and constraints,
which came with format 6. `format_1` and `format_2_without_origins` were written by the
deepband of that time, which could neither enqueue configs nor import results.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import deepband
from deepband.analysis.export import jsonl
from deepband.core.facts import RunStopped
from deepband.storage.schema import FORMAT

HERE = Path(__file__).parent


def train(config: dict[str, Any], budget: float, context: deepband.Context) -> object:
    """A result with everything that a file can keep."""
    context.report(1, 0.5)
    if 0.55 < config["x"] < 0.65:
        context.report(budget / 2, float("inf"))
        if context.should_stop():
            return {"loss": 1.0, "name": "ü"}
    context.report(budget, float("inf"))
    if config["x"] > 0.65:
        return ValueError("too large: ü\0")
    return {"loss": config["x"] / budget, "accuracy": 1 - config["x"], "name": "ü"}


def fragile(config: dict[str, Any], budget: float, context: deepband.Context) -> object:
    """The same with results that depend on the seed, some of them failures."""
    if context.seed % 3 == 0:
        return ValueError("unlucky: ü\0")
    return {"loss": context.seed / 2**32, "name": "ü"}


def train_both(config: dict[str, Any], budget: float, context: deepband.Context) -> object:
    """A result with two objectives, one of them sometimes infinite, and a metric with bounds."""
    x = config["x"]
    if x > 0.9:
        return ValueError("too large: ü")
    error = float("inf") if 0.4 < x < 0.5 else x / budget
    return {"error": error, "accuracy ü": 1 - x, "memory": 10 * x, "name": "ü"}


def main() -> None:
    make_single()
    make_objectives()


def make_objectives() -> None:
    """A study with two objectives, constraints and rejected configs, which was deepened."""
    place = HERE / f"objectives_{FORMAT}.sqlite"
    with deepband.open_study(
        place,
        space={"x": (0.0, 1.0)},
        max_budget=9,
        seed=3,
        objectives={"error": "minimize", "accuracy ü": "maximize"},
        constraints={"memory": (None, 7.0), "error": (0.001, None)},
    ) as study:
        study.session.name_objective("train.py:train_both")
        result = {"error": 0.25, "accuracy ü": 0.5, "memory": 5}
        study.add_evaluation({"x": 0.5}, 1, result, "a paper")
        for _ in range(2):
            study.optimize(train_both, precheck=lambda config, budget: config["x"] > 0.1)
            if len(study.runs) == 1:
                study.deepen("preserving")
        lines = list(jsonl(study.session.state))
        rmtree(study.session.files)
    place.with_suffix(".jsonl").write_text("".join(f"{line}\n" for line in lines))


def make_single() -> None:
    """A study that was deepened and widened with another space, with configs and results from
    elsewhere, equal configs, skipped promotions, training that was stopped early, a stopped run,
    another one that was continued, confirmations and two leased jobs."""
    place = HERE / f"format_{FORMAT}.sqlite"
    space = {"x": (0.0, 1.0), "kind": ["a", None, 3]}
    settings: dict[str, Any] = {
        "max_budget": 3,
        "seed": 2**70,
        "reuse_identical": True,
        "parallel": 2,
    }
    with deepband.open_study(place, space=space, **settings) as study:
        study.session.name_objective("train.py:train")
        study.enqueue({"x": 0.25, "kind": None})
        study.add_evaluations({"x": 0.5, "kind": 3}, [(1, 0.5), (3, 0.0)], "a paper")
        study.optimize(train)
        study.session.record([RunStopped(0, 0.125)])
        study.deepen("preserving")
        study.session.record([RunStopped(1, 0.25)])  # which the next call takes back
        study.enqueue({"x": 0.25, "kind": None})  # takes the result of the first one
        study.optimize(train, skip=0.4)
        new = {"x": (0.0, 0.5), "kind": ["a", None], "extra": [1, 2]}
        study.widen(space=new, added={"extra": 1})
        study.optimize(train, max_cost=8)
        study.confirm(fragile, top=2, seeds=3)
        study.ask_all(limit=2, lease=0.001, detached=True)
        lines = list(jsonl(study.session.state))
        rmtree(study.session.files)
    place.with_suffix(".jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
