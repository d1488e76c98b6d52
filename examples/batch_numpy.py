"""Batches with NumPy: all configs of a rung are trained in one call, on arrays with an axis of
configs.

The model is softmax regression on the digits of scikit-learn, fitted by gradient descent with
momentum. A budget is a number of tens of steps: budget 27 is 270 steps. `train_batch` receives a
list of configs and returns one loss per config, in the same order. Its weights have the shape
(configs, inputs, classes), so one expression makes a step for every config. Each config is trained
from the first step on every rung. To resume from the rung below instead, see batch_pytorch.py.

    pip install 'deepband[demo]'
    python examples/batch_numpy.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import deepband

STEPS = 10  # per unit of budget

space: dict[str, Any] = {
    "learning_rate": (1e-3, 3.0, "log"),
    "momentum": (0.0, 0.95),
    "penalty": (1e-6, 1e-1, "log"),
}


def data() -> tuple[Any, Any]:
    """1,797 digits in random order: (images with a column of ones, labels as rows of 0 and 1)."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs = np.column_stack([images / 16, np.ones(len(images))])
    return inputs[order].astype(np.float32), np.eye(10, dtype=np.float32)[labels[order]]


def train_batch(configs: list[dict[str, Any]], budget: int) -> list[dict[str, float]]:
    """Train all configs for 10 * budget steps, and return the loss and accuracy of each."""
    inputs, targets = data()
    digits, choose = inputs[500:], inputs[:500]
    rate, momentum, penalty = (column(configs, name) for name in space)
    weights = np.zeros((len(configs), inputs.shape[1], 10), dtype=np.float32)
    velocity = np.zeros_like(weights)
    for _ in range(STEPS * budget):
        error = np.exp(log_softmax(digits @ weights)) - targets[500:]
        gradient = digits.T @ error / len(digits) + penalty * weights
        velocity = momentum * velocity - rate * gradient
        weights += velocity
    return evaluate(choose @ weights, targets[:500])


def column(configs: list[dict[str, Any]], name: str) -> Any:
    """One value per config, in a shape that applies each value to the weights of its config."""
    return np.array([config[name] for config in configs], dtype=np.float32)[:, None, None]


def log_softmax(scores: Any) -> Any:
    scores = scores - scores.max(axis=-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))


def evaluate(scores: Any, targets: Any) -> list[dict[str, float]]:
    losses = -(log_softmax(scores) * targets).sum(axis=-1).mean(axis=-1)
    right = (scores.argmax(axis=-1) == targets.argmax(axis=-1)).mean(axis=-1)
    return [{"loss": float(a), "accuracy": float(b)} for a, b in zip(losses, right, strict=True)]


def main() -> None:
    with deepband.open_study("batch_numpy.study", space=space, max_budget=27) as study:
        study.optimize(train_batch, batch=True)
        study.deepen("preserving", to=81)
        study.optimize(train_batch, batch=True)
        for run in study.runs:
            print(f"max_budget {run.max_budget}: {run.evaluations} evaluations")
        best = study.best
        print(
            f"best after {STEPS * best.budget} steps: loss {best.loss:.4f}, "
            f"accuracy {best.metrics['accuracy']:.3f}, {best.config}"
        )


if __name__ == "__main__":
    main()
