"""Repetitions of the best configs: which ones are needed, and the jobs that stand for them.

A repetition is a job whose bracket also encodes the number of the repetition, so that the files of
two repetitions never have the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from deepband.analysis.confirmations import winners
from deepband.core.evaluations import no_result
from deepband.core.exact_numbers import check_count
from deepband.core.facts import JobKey
from deepband.core.state import State
from deepband.errors import InputError, SeveralObjectivesError

PER_REPETITION = 1000
"""More than any study has brackets: bracket 0 alone would need 2**1000 configs."""
MOST_SEEDS = 10_000

Repetition: TypeAlias = tuple[int, int, int, int]
"""A (bracket, index, rung, repetition)."""


def check_seeds(given: int) -> int:
    """The number of repetitions as an int. Raises an InputError if it is not positive or too
    large for the names of files."""
    if check_count("seeds", given) > MOST_SEEDS:
        raise InputError(f"seeds is {given}: give at most {MOST_SEEDS:,}.")
    return int(given)


def selected(state: State, top: int) -> list[JobKey]:
    """The results to confirm, or a NoResultError if there is none. Several objectives are refused:
    means and intervals would not decide which config is better."""
    if state.criteria.several:
        raise SeveralObjectivesError(
            state.criteria.names,
            "nothing can be confirmed",
            "Evaluate the configs of `study.front()` with other seeds in your own loop.",
        )
    found = winners(state, top)
    if not found:
        raise no_result(state)
    return found


def repetitions(keys: Sequence[JobKey], seeds: int) -> list[Repetition]:
    """All repetitions of these results: first one of each config, then the next."""
    return [(*key, repetition) for repetition in range(1, seeds + 1) for key in keys]


def missing(state: State, wanted: Iterable[Repetition]) -> list[Repetition]:
    """The repetitions that are not recorded."""
    return [each for each in wanted if each not in state.confirmations]


def cost_of(state: State, keys: Iterable[Repetition]) -> Fraction:
    """What repetitions cost, each at its full budget."""
    rungs = Counter(rung for _, _, rung, _ in keys)
    costs = (count * state.schedule.charge(rung) for rung, count in rungs.items())
    return sum(costs, Fraction(0))


def job_bracket(found: Repetition) -> int:
    """The bracket of the job that runs a repetition."""
    return found[0] + PER_REPETITION * found[3]


def repetition_of(key: JobKey) -> Repetition:
    """The repetition that a job stands for."""
    repetition, bracket = divmod(key[0], PER_REPETITION)
    return bracket, key[1], key[2], repetition
