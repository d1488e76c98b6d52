"""A network of scikit-learn that goes on from its checkpoint.

A budget is a number of epochs. Each rung loads the model that the rung below saved and trains only
the epochs that are missing, before deepening and after it.

    pip install 'deepband[demo]'
    python examples/mlp_checkpoints.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import deepband

space: dict[str, Any] = {
    "units": (8, 128, "log"),
    "activation": ["relu", "tanh"],
    "learning_rate": (1e-4, 1e-1, "log"),
    "alpha": (1e-6, 1.0, "log"),
}


def data() -> Any:
    """Digits to train on and to choose by, and the labels of both."""
    images, labels = load_digits(return_X_y=True)
    return train_test_split(images / 16, labels, test_size=500, random_state=0, stratify=labels)


def new_model(config: dict[str, Any], seed: int) -> Any:
    return MLPClassifier(
        hidden_layer_sizes=(config["units"],),
        activation=config["activation"],
        learning_rate_init=config["learning_rate"],
        alpha=config["alpha"],
        shuffle=False,  # `train` shuffles
        random_state=seed,
    )


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, float]:
    """Train up to `budget` epochs. The order of an epoch follows from the model's first seed and
    the epoch's number, so that training in pieces is the same as training at once."""
    inputs, choose, labels, choose_labels = data()
    model = new_model(config, context.seed)
    state = context.restore(model=model, step=0, unpickle=True)  # a pickle, but one of our own
    model = state["model"]
    for epoch in range(state["step"], budget):
        order = np.random.default_rng((model.random_state, epoch)).permutation(len(inputs))
        model.partial_fit(inputs[order], labels[order], classes=range(10))
        context.report(epoch + 1, model.loss_)
    context.save(model=model, step=budget)
    return {
        "loss": log_loss(choose_labels, model.predict_proba(choose)),
        "accuracy": model.score(choose, choose_labels),
    }


def main() -> None:
    with deepband.open_study("mlp_checkpoints.study", space=space, max_budget=9) as study:
        study.optimize(train)
        if study.max_budget == 9:
            print(study.quote("preserving", to=27))
        study.deepen("preserving", to=27)
        study.optimize(train)
        tell_what_was_found(study)


def tell_what_was_found(study: deepband.Study) -> None:
    for run in study.runs:
        print(
            f"max_budget {run.max_budget}: {run.evaluations} evaluations, "
            f"{run.trained} epochs trained where {run.cost} would be from the start"
        )
    best = study.best
    accuracy = best.metrics["accuracy"]
    print(f"best after {best.budget} epochs: log loss {best.loss:.4f}, accuracy {accuracy:.3f}")
    print(best.config)


if __name__ == "__main__":
    main()
