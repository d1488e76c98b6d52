"""Trees of LightGBM that are added to those of the rung below.

A budget is a number of trees. A booster that was saved goes on as it was: 27 trees are the 9 of the
rung below and 18 more. That holds because nothing here is drawn by chance and the learning rate is
constant; with bagging, LightGBM would begin its draws anew in each piece.

    pip install 'deepband[demo]' lightgbm
    python examples/boosting.py
"""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
from sklearn.datasets import make_friedman1

import deepband

space: dict[str, Any] = {
    "learning_rate": (0.01, 1.0, "log"),
    "num_leaves": (2, 64, "log"),
    "min_data_in_leaf": (1, 100, "log"),
    "lambda_l2": (1e-3, 100.0, "log"),
}

fixed = {"objective": "regression", "num_threads": 1, "deterministic": True, "verbosity": -1}


def data() -> tuple[Any, Any, Any, Any]:
    """4,000 rows to train on and 2,000 to choose by, of a function with ten inputs and noise."""
    inputs, targets = make_friedman1(n_samples=6000, noise=1.0, random_state=0)
    return inputs[:4000], targets[:4000], inputs[4000:], targets[4000:]


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
    """Grow up to `budget` trees and return the mean squared error on the rows to choose by."""
    inputs, targets, choose, choose_targets = data()
    booster = lightgbm.train(
        fixed | config,
        lightgbm.Dataset(inputs, targets),
        num_boost_round=budget - int(context.previous_budget),
        init_model=context.previous / "trees.txt" if context.previous else None,
    )
    assert booster.num_trees() == budget
    booster.save_model(context.path / "trees.txt")
    return float(np.mean((booster.predict(choose) - choose_targets) ** 2))


def main() -> None:
    with deepband.open_study("boosting.study", space=space, max_budget=9) as study:
        for max_budget in (9, 27, 81):  # where the study has been, `deepen` does nothing
            study.deepen("efficient", to=max_budget)
            study.optimize(train)
        for run in study.runs:
            best = study.best_at(run.run + 2)  # 9 trees are rung 2
            print(
                f"max_budget {run.max_budget}: {run.evaluations} evaluations, {run.trained} trees "
                f"grown, error {best.loss:.3f}"
            )
            print(f"  {best.config}")


if __name__ == "__main__":
    main()
