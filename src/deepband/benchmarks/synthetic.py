"""Learning curves made up from a formula: instant, repeatable, and hard in the way real ones are.

A config has a limit, the loss it would reach with infinite budget, and a speed at which it
falls towards it. Good limits tend to come with slow starts, so low budgets mislead: what looks
best after one unit is often overtaken later, which is why the maximum budget matters.
"""

from __future__ import annotations

import math
from typing import Any

SPACE: dict[str, Any] = {
    "learning_rate": (1e-4, 1.0, "log"),
    "momentum": (0.0, 0.99),
    "weight_decay": (1e-6, 1e-1, "log"),
    "layers": (1, 8),
    "units": (16, 1024, "log"),
    "activation": ["relu", "tanh", "gelu"],
}
_ACTIVATION = {"relu": 0.02, "tanh": 0.05, "gelu": 0.0}


def learning_curve(config: dict[str, Any], budget: float) -> float:
    """The validation loss of a config after training with a budget.

    >>> config = dict(learning_rate=0.01, momentum=0.9, weight_decay=1e-4,
    ...               layers=4, units=256, activation="gelu")
    >>> round(learning_curve(config, 1), 3), round(learning_curve(config, 81), 3)
    (0.779, 0.136)
    """
    rate = math.log10(config["learning_rate"])
    decay = math.log10(config["weight_decay"])
    size = math.log2(config["units"]) * config["layers"]
    limit = (
        0.05
        + 0.04 * (rate + 2) ** 2
        + 0.01 * (decay + 4) ** 2
        + 0.1 * (config["momentum"] - 0.9) ** 2
        + 0.6 * math.exp(-size / 16)
        + _ACTIVATION[config["activation"]]
    )
    # Larger models and smaller learning rates end lower and take longer to get there.
    halving_budget = 0.3 * 2 ** (size / 16) * 10 ** (-0.35 * (rate + 1))
    return float(limit + 0.95 * 2 ** -((budget / halving_budget) ** 0.6))
