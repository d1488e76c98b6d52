"""Measured durations: seconds per unit of budget, and the time that evaluations took in all."""

from __future__ import annotations

from itertools import chain

from deepband.core.costs import costs, paid
from deepband.core.state import State

WORTH_SHOWING = 60.0
"""Texts leave out times below this many seconds."""


def seconds_per_unit(state: State) -> float | None:
    """The measured seconds per unit of budget that was trained, over all evaluations that the
    study paid for and that did not fail. None if no time was recorded."""
    timed = [each for each in paid(state) if each.seconds and each.loss is not None]
    units = costs(state.schedule, timed).trained
    return sum(each.seconds or 0.0 for each in timed) / float(units) if units else None


def resumes(state: State) -> bool:
    """Whether training continues from checkpoints: whether any evaluation did."""
    return any(each.resumed_from is not None for each in paid(state))


def seconds_spent(state: State) -> float:
    """The recorded seconds of all evaluations that the study paid for, failed ones and those ahead
    of the next run included."""
    ahead = (each for each in state.ahead.results.values() if not each.imported)
    return sum(each.seconds or 0.0 for each in chain(paid(state), ahead))
