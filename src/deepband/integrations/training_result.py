"""What the objectives for training frameworks share: metrics as the result of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from deepband.errors import InputError, shown

RESERVED = {"loss", "value"}
"""The names under which a result has the number to optimise."""

Monitor: TypeAlias = str | Sequence[str]
"""The name of the metric to optimise, or of several."""


def read_monitor(given: Any) -> Monitor:
    """A metric, or several as a tuple."""
    if isinstance(given, str) and given:
        return given
    names = tuple(given) if isinstance(given, list | tuple) else ()
    texts = all(isinstance(name, str) for name in names)
    if len(names) < 2 or not texts or len(set(names)) < len(names) or RESERVED & set(names):
        raise InputError(
            f"monitor is {shown(given)}: give the name of a metric or, for several objectives, a "
            "list of different names other than 'loss' and 'value'."
        )
    return names


def main_metric(monitor: Monitor) -> str:
    """The metric of the learning curve: with several, the first one."""
    return monitor if isinstance(monitor, str) else monitor[0]


def training_result(metrics: Mapping[str, Any], monitor: Monitor) -> dict[str, float]:
    """The monitored metric as the loss, or several under their names, and all finite numbers as
    metrics: the monitored one last, because the first is shown next to the loss."""
    names = (monitor,) if isinstance(monitor, str) else tuple(monitor)
    optimised = {name: _monitored(metrics, name) for name in names}
    ordered = sorted(set(metrics) - RESERVED, key=lambda name: (name == monitor, name))
    numbers = {name: _number(metrics[name]) for name in ordered}
    finite = {name: n for name, n in numbers.items() if n is not None and math.isfinite(n)}
    if isinstance(monitor, str):
        return {"loss": optimised[monitor], **finite}
    return {**optimised, **{name: n for name, n in finite.items() if name not in optimised}}


def _monitored(metrics: Mapping[str, Any], monitor: str) -> float:
    if monitor not in metrics:
        raise InputError(
            f"monitor is {monitor!r}, but training logged {', '.join(sorted(metrics)) or 'nothing'}"
            ": log this metric, or give monitor the name of another one."
        )
    if (number := _number(metrics[monitor])) is None:
        raise InputError(
            f"monitor is {monitor!r}, but its value is {shown(metrics[monitor])}: give monitor the "
            "name of a metric that is a number."
        )
    return number


def _number(value: Any) -> float | None:
    """A metric as a float, also a tensor of one number; None if it is something else, such as a
    confusion matrix."""
    try:
        return None if isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
