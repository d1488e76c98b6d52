"""What users are handed: jobs to run and evaluations that were made."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import Any, NamedTuple

from deepband.core.facts import Config, JobKey, Outcome
from deepband.errors import InputError, shown


class Job(NamedTuple):
    """One config on one rung of one bracket, to be evaluated with the budget.

    `study` tells jobs of different studies apart; a service that rebuilds a job from what it
    noted of it may leave it empty. The config is the job's own copy.
    """

    bracket: int
    index: int  # type: ignore[assignment] # hides the method of tuples, which nobody calls
    rung: int
    budget: int | float
    config: Config
    study: str = ""

    @property
    def key(self) -> JobKey:
        """What tells the jobs of a study apart: (bracket, index, rung)."""
        return self.bracket, self.index, self.rung

    def __hash__(self) -> int:
        return hash((self.study, self.key))


def whole_key(job: Job) -> JobKey:
    """The key of a job whose numbers came by another way, such as NumPy."""
    try:
        return index(job.bracket), index(job.index), index(job.rung)
    except TypeError:
        raise InputError(f"{shown(job)} is not a job: its numbers are not whole.") from None


class Attempt(NamedTuple):
    """What came of running a job once: the outcome that was read, and how it went."""

    job: Job
    loss: float | None
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    resumed_from: int | None = None
    curve: tuple[tuple[float, float], ...] | None = None
    saved: str | None = None
    """The name of the folder that the attempt saved into and sealed, if it did."""
    environment: bool = False
    """Whether it failed because of the machine, such as a full disk: no verdict on the config."""

    @property
    def failed(self) -> bool:
        return self.loss is None

    @property
    def outcome(self) -> Outcome:
        """What a study records of it."""
        return Outcome(*self[1:7])


class Evaluation(NamedTuple):
    """One config that was evaluated on one rung of its bracket.

    `loss` is minimised; `value` is the same in the user's sign. Both are None when the
    evaluation failed, and `error` then says why: its kind, a colon, and the rest.
    `resumed_from` is the rung whose checkpoint training went on from, None when it began at
    the start.
    """

    bracket: int
    index: int  # type: ignore[assignment] # hides the method of tuples, which nobody calls
    rung: int
    budget: int | float
    config: Config
    loss: float | None
    value: float | None
    run: int
    error: str | None
    metrics: Mapping[str, Any]
    seconds: float | None
    resumed_from: int | None
    curve: tuple[tuple[float, float], ...]
    origin: str | None = None
    """Where the result comes from, if this study did not evaluate it."""
