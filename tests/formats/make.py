"""Writes a study file in the format of the deepband that runs this, and what it holds.

    python tests/formats/make.py

Run it before the number of the format changes, and keep what it made: `test_storage.py` opens and
continues every file in this folder. `format_1` and `format_2_without_origins` were written by the
deepband of that time, which could neither enqueue configs nor import results.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import Any

import deepband
from deepband.analysis.export import jsonl
from deepband.storage.schema import FORMAT

HERE = Path(__file__).parent


def train(config: dict[str, Any], budget: float, context: deepband.Context) -> object:
    """A result with everything that a file can keep."""
    context.report(1, 0.5)
    context.report(budget, float("inf"))
    if config["x"] > 0.65:
        return ValueError("too large: ü\0")
    return {"loss": config["x"] / budget, "accuracy": 1 - config["x"], "name": "ü"}


def fragile(config: dict[str, Any], budget: float, context: deepband.Context) -> object:
    """The same with results that depend on the seed, some of them failures."""
    if context.seed % 3 == 0:
        return ValueError("unlucky: ü\0")
    return {"loss": context.seed / 2**32, "name": "ü"}


def main() -> None:
    """A study that was deepened and widened with another space, with configs and results from
    elsewhere, equal configs, confirmations and a job left open."""
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
        study.deepen("preserving")
        study.enqueue({"x": 0.25, "kind": None})  # takes the result of the first one
        study.optimize(train)
        new = {"x": (0.0, 0.5), "kind": ["a", None], "extra": [1, 2]}
        study.widen(space=new, added={"extra": 1})
        study.optimize(train, max_cost=8)
        study.confirm(fragile, top=2, seeds=3)
        lines = list(jsonl(study.session.state))
        rmtree(study.session.files)
    place.with_suffix(".jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
