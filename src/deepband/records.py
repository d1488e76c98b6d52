"""What users are handed: jobs to run and evaluations that were made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deepband.facts import Config


class Job(NamedTuple):
    """One config on one rung of one bracket, to be evaluated with the budget.

    `study` tells jobs of different studies apart; a service that rebuilds a job from what it
    noted of it may leave it empty. The config is the job's own copy.
    """

    bracket: int
    index: int  # type: ignore[assignment]
    rung: int
    budget: int | float
    config: Config
    study: str = ""


class Evaluation(NamedTuple):
    """One config that was evaluated on one rung of its bracket.

    `loss` is minimised; `value` is the same in the user's sign. Both are None when the
    evaluation failed, and `error` then says why.
    """

    bracket: int
    index: int  # type: ignore[assignment]
    rung: int
    budget: int | float
    config: Config
    loss: float | None
    value: float | None
    run: int
    error: str | None
    metrics: Mapping[str, Any]
