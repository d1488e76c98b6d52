"""What the objectives for training frameworks share: metrics as the result of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deepband.errors import InputError

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
    ordered = sorted(set(metrics) - RESERVED, key=lambda name: (name == monitor, name))
    finite = {name: n for name in ordered if math.isfinite(n := float(metrics[name]))}
    return {"loss": float(metrics[monitor]), **finite}
