"""Results as Optuna stores them: values, and constraints as numbers that must not be positive."""

from __future__ import annotations

import math
from typing import Any

from deepband.core.criteria import Criteria
from deepband.core.facts import PRECHECK, JobFinished
from deepband.core.state import State

LARGEST_VIOLATION = 1e300
"""In place of an infinite one, which JSON does not have: for example that of a config that was
rejected before it was trained."""


def criteria_attributes(criteria: Criteria) -> dict[str, Any]:
    """The objectives and the constraints, where a study has them."""
    found = {"objectives": criteria.objectives, "constraints": criteria.constraints}
    return {name: [list(pair) for pair in pairs] for name, pairs in found.items() if pairs}


def values_of(state: State, result: JobFinished) -> list[float]:
    """The value of each objective in the user's sign; NaN for a failure, as in Optuna."""
    if result.loss is None:
        return [math.nan]
    if isinstance(result.loss, tuple):
        return list(state.criteria.values(result.loss).values())
    return [state.criteria.value(result.loss)]


def constraint_attributes(state: State, result: JobFinished) -> dict[str, list[float]]:
    """How far each metric is outside its bounds, as Optuna's samplers store it: a trial is feasible
    if no number is positive."""
    bounds = state.criteria.constraints
    if not bounds or result.loss is None:
        return {}
    named = {**(result.metrics or {}), **state.criteria.values(result.loss)}
    if result.origin == PRECHECK:
        named = {}
    return {"constraints": [_violation(named.get(name), *each) for name, each in bounds]}


def _violation(value: Any, lower: float | None, upper: float | None) -> float:
    if value is None:
        return LARGEST_VIOLATION
    below = -math.inf if lower is None else lower - float(value)
    above = -math.inf if upper is None else float(value) - upper
    return min(max(below, above, -LARGEST_VIOLATION), LARGEST_VIOLATION)


def objective_details(state: State, result: JobFinished, step: int) -> dict[str, Any]:
    """The values of several objectives, and the step that an intermediate value would have. JSON
    does not have infinity, so that it is a text."""
    if not state.criteria.several:
        return {}
    values = state.criteria.values(result.loss)
    shown_as = {name: each if math.isfinite(each) else str(each) for name, each in values.items()}
    return {"step": step, **({"objectives": shown_as} if values else {})}
