"""Part of the data as the budget: begin with a ninth of it, end with all.

Budgets are exact. The first max_budget is a ninth, so that deepening arrives at the whole: from
0.1 one would come to 0.9. An objective is given the nearest float, 0.1111111111111111, and on the
highest rung the int 1, which is all rows and not one row: say so to libraries that tell the two
apart by their type. A smaller part lies within every larger one, so rungs compare like with like.

    pip install 'deepband[demo]'
    python examples/data_fraction.py
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import deepband

space: dict[str, Any] = {
    "C": (1e-2, 1e3, "log"),
    "kernel": ["rbf", "poly", "linear"],
    "gamma": (1e-3, 1e1, "log"),
}


def data() -> Any:
    """Digits to train on and to choose by, and the labels of both. They are shuffled: the first
    rows are a fair part."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16, labels, test_size=500, random_state=0, stratify=labels)


def train(config: dict[str, Any], budget: float) -> dict[str, float]:
    """Fit with this part of the rows and return the error on those to choose by."""
    inputs, choose, labels, choose_labels = data()
    rows = round(budget * len(inputs))
    model = SVC(**config).fit(inputs[:rows], labels[:rows])
    return {"loss": 1 - model.score(choose, choose_labels), "rows": rows}


def main() -> None:
    with deepband.open_study(
        "data_fraction.study",
        space=space,
        min_budget=Fraction(1, 27),
        max_budget=Fraction(1, 9),
    ) as study:
        for part in (Fraction(1, 9), Fraction(1, 3), 1):  # where the study has been, nothing
            study.deepen("preserving", to=part)
            study.optimize(train)
        tell_what_was_found(study)


def tell_what_was_found(study: deepband.Study) -> None:
    for run in study.runs:
        best = study.best_at(run.run + 1)  # a ninth is rung 1
        print(
            f"{best.metrics['rows']:4} rows: {run.evaluations} evaluations, together "
            f"{float(run.cost):.1f} times all rows; error {best.loss:.3f} with {best.config}"
        )


if __name__ == "__main__":
    main()
