"""Rejecting configs before they are trained."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from deepband.core.criteria import Criteria
from deepband.core.facts import Config, Outcome
from deepband.core.records import Job
from deepband.errors import InputError, shown
from deepband.execution.objective import copied_config

Precheck: TypeAlias = Callable[[Config, float], object]
"""A function of a config and a budget that returns whether the config may be trained."""


def check_precheck(given: Any) -> None:
    """Raise an InputError if it cannot be called with a config and a budget."""
    wanted = "give a function (config, budget) that returns whether the config may be trained."
    if not callable(given):
        raise InputError(f"precheck is {shown(given)}: {wanted}")
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind({}, 1)
    except TypeError:
        raise InputError(f"precheck has the signature {signature}: {wanted}") from None


def rejected(precheck: Precheck, jobs: Sequence[Job]) -> list[Job]:
    """The jobs that a precheck rejects."""
    return [job for job in jobs if not _passes(precheck, job)]


def rejection(criteria: Criteria) -> Outcome:
    """The outcome of a config that is not trained: every loss is +inf."""
    return Outcome((math.inf,) * len(criteria.objectives) if criteria.several else math.inf)


def _passes(precheck: Precheck, job: Job) -> bool:
    answer: Any = precheck(copied_config(job), job.budget)
    found = answer.item() if getattr(answer, "shape", None) == () else answer  # NumPy's bool
    if not isinstance(found, bool):
        raise InputError(
            f"precheck returned {shown(answer)} for bracket {job.bracket}, index {job.index}, "
            f"budget {job.budget:.6g}: return True if the config may be trained, otherwise False."
        )
    return found
