"""What the objectives for training frameworks share: metrics as the result of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deepband.errors import InputError, shown

RESERVED = {"loss", "value"}
"""The names under which a result has the number to optimise."""


def training_result(metrics: Mapping[str, Any], monitor: str) -> dict[str, float]:
    """The monitored metric as the loss, and all finite numbers as metrics: the monitored one last,
    because the first is shown next to the loss."""
    if monitor not in metrics:
        raise InputError(
            f"monitor is {monitor!r}, but training logged {', '.join(sorted(metrics)) or 'nothing'}"
            ": log this metric, or give monitor the name of another one."
        )
    if (loss := _number(metrics[monitor])) is None:
        raise InputError(
            f"monitor is {monitor!r}, but its value is {shown(metrics[monitor])}: give monitor the "
            "name of a metric that is a number."
        )
    ordered = sorted(set(metrics) - RESERVED, key=lambda name: (name == monitor, name))
    numbers = {name: _number(metrics[name]) for name in ordered}
    finite = {name: n for name, n in numbers.items() if n is not None and math.isfinite(n)}
    return {"loss": loss, **finite}


def _number(value: Any) -> float | None:
    """A metric as a float, also a tensor of one number; None if it is something else, such as a
    confusion matrix."""
    try:
        return None if isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
