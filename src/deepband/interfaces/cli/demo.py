"""The demonstration: a real model, tuned by real training, deepened, and gone on with.

An MLP learns the digits that ship with scikit-learn. A budget is a number of epochs; training goes
on from the checkpoint of the rung below.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from functools import cache
from typing import Any

import deepband
from deepband.analysis.formatting import table
from deepband.core.schedule import as_number

space: dict[str, Any] = {
    "layers": (1, 3),
    "units": (16, 256, "log"),
    "activation": ["relu", "tanh", "logistic"],
    "learning_rate": (1e-4, 1e-1, "log"),
    "alpha": (1e-6, 1e-1, "log"),
    "batch_size": (16, 256, "log"),
    "beta_1": (0.5, 0.99),
}


@cache
def data() -> dict[str, Any]:
    """The digits in three parts: to train on, to choose by, and to check at the end."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise deepband.InputError(
            "the demo needs scikit-learn: pip install 'deepband[demo]'."
        ) from error
    inputs, labels = load_digits(return_X_y=True)
    rest, held_out, rest_labels, held_out_labels = train_test_split(
        inputs / 16.0, labels, test_size=400, random_state=0, stratify=labels
    )
    train, choose, train_labels, choose_labels = train_test_split(
        rest, rest_labels, test_size=400, random_state=0, stratify=rest_labels
    )
    return {
        "train": (train, train_labels),
        "choose": (choose, choose_labels),
        "held out": (held_out, held_out_labels),
    }


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, float]:
    """Train up to `budget` epochs and return the error on the part to choose by."""
    parts = data()
    if context.previous is None:
        model = new_model(config, context.seed)
    else:
        model = pickle.loads((context.previous / "model.pickle").read_bytes())
    for epoch in range(int(context.previous_budget), budget):
        model.partial_fit(*parts["train"], classes=range(10))
        context.report(epoch + 1, 1 - model.score(*parts["choose"]))
    (context.path / "model.pickle").write_bytes(pickle.dumps(model))
    return {
        "loss": 1 - model.score(*parts["choose"]),
        "held_out_accuracy": model.score(*parts["held out"]),
    }


def new_model(config: dict[str, Any], seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        hidden_layer_sizes=(config["units"],) * config["layers"],
        activation=config["activation"],
        learning_rate_init=config["learning_rate"],
        alpha=config["alpha"],
        batch_size=config["batch_size"],
        beta_1=config["beta_1"],
        random_state=seed,
    )


def comparison(study: deepband.Study) -> str:
    """What each run re-used, made and found, and the budget against both runs from scratch."""
    rows = [["", "re-used", "new", "epochs trained", "best error", "held-out accuracy"]]
    known, trained = 0, Fraction(0)
    for run in study.runs:
        best = best_after(study, run.run)
        rows.append(
            [
                f"max_budget {run.max_budget}",
                str(known),
                str(run.evaluations),
                str(run.trained),
                f"{best.loss:.4f}",
                f"{best.metrics['held_out_accuracy']:.4f}",
            ]
        )
        known += run.evaluations
        trained += run.trained
    schedules = [run.schedule for run in study.state.runs]
    whole = sum((schedule.cost for schedule in schedules), Fraction(0))
    resumed = sum((schedule.cost_resumed for schedule in schedules), Fraction(0))
    return (
        f"{table(rows)}\n\n{as_number(trained)} epochs trained in all. Both runs from scratch: "
        f"{as_number(resumed)} with checkpoints ({_percent(trained, resumed)}), "
        f"{as_number(whole)} without ({_percent(trained, whole)})."
    )


def _percent(part: Fraction, whole: Fraction) -> str:
    return f"{100 * float(part / whole):.0f} %"


def best_after(study: deepband.Study, run: int) -> deepband.Evaluation:
    """The best that was known when a run ended: on the highest budget, the smallest loss."""
    known = [each for each in study.evaluations if each.run <= run and each.loss is not None]
    return min(known, key=lambda each: (-each.rung, each.loss, each.bracket, each.index))
