"""Metrics: what objectives return alongside the loss. Interfaces show those that are numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from deepband.core.evaluations import best_result
from deepband.core.state import State


def numeric(metrics: Mapping[str, Any] | None) -> dict[str, int | float]:
    """The metrics that are finite numbers, in the order in which the objective returned them."""
    return {name: value for name, value in (metrics or {}).items() if number(value) is not None}


def main_metric(state: State) -> str | None:
    """The first metric that is a number in the best evaluation; None if there is none."""
    best = best_result(state)
    return None if best is None else next(iter(numeric(best.metrics)), None)


def metric_names(state: State) -> list[str]:
    """The metrics that are a number in any evaluation, in the order in which they first appear,
    after the names of several objectives. Reads all evaluations."""
    found: dict[str, None] = {}
    if state.criteria.several:
        found.update(dict.fromkeys(state.criteria.names))
    for result in state.all_results():
        if result.metrics and not result.metrics.keys() <= found.keys():
            found.update(dict.fromkeys(numeric(result.metrics)))
    return list(found)


def number(value: object) -> float | None:
    """A value as a float; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond the range of floats
        return None
