"""When a run ends early: `optimize(stop=)`.

Brackets run one after another. Whenever a rung is complete, and nothing on the next one has been
evaluated, it is decided whether the run ends. A decision not to end it is not recorded: taken again
after an interruption, it is the same. Nothing is decided before the run has evaluated anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deepband.core.facts import ConfigsDrawn, JobKey, RunStopped
from deepband.core.state import State
from deepband.study.skips import has_own_results

Sample = Callable[[State, Iterable[JobKey]], Iterable[ConfigsDrawn]]
"""Samples the configs of jobs that have none."""


class Stops:
    """The decisions about the end of a run while `optimize(stop=)` runs."""

    def __init__(self, risk: float, sample: Sample) -> None:
        self._risk = risk
        self._sample = sample
        self._decided: set[tuple[int, int, int]] = set()
        """The run, bracket and rung at which nothing has to be decided any more."""

    def keeps(self, stopped: float) -> bool:
        """Whether a run that was stopped with this probability stays so."""
        return stopped < self._risk

    def due(self, state: State) -> list[RunStopped]:
        """The stop that can be recorded now, if there is one."""
        bracket = first_open(state)
        if bracket is None or not self._awaits(state, bracket):
            return []
        risk = self._risk_of(state, bracket)
        if risk < self._risk:
            return [RunStopped(state.run.number, risk)]
        self._decided.add(_moment(state, bracket))
        return []

    def held(self, state: State) -> set[int]:
        """The brackets of which no job can start, since the run may end before."""
        bracket = first_open(state)
        if bracket is None:
            return set()
        first = bracket if self._awaits(state, bracket) else bracket + 1
        return set(range(first, len(state.progress)))

    def _awaits(self, state: State, bracket: int) -> bool:
        """Whether a bracket has arrived on a rung, and nothing was evaluated there."""
        if _moment(state, bracket) in self._decided:
            return False
        begun = has_own_results(state, bracket, state.progress[bracket].rung)
        if begun or not _has_results(state):
            self._decided.add(_moment(state, bracket))
            return False
        return True

    def _risk_of(self, state: State, bracket: int) -> float:
        """The probability by which the end is decided. Configs that have not been sampled are
        represented by those that the sampler would choose now."""
        if not any(bracket_results for bracket_results in _top_results(state)):
            return 1.0  # does not load SciPy
        from deepband.analysis.learning_curves.stop_risk import (
            MOST_CANDIDATES,
            candidates,
            stop_risk,
        )

        places = candidates(state, bracket)
        if len(places) > MOST_CANDIDATES:
            return 1.0
        jobs = [(of, index, of) for of, index in places if index >= len(state.configs[of])]
        expected = state.copy() if jobs else state
        if jobs:
            expected.apply(self._sample(state, jobs))
        return stop_risk(expected, bracket, places)


def _moment(state: State, bracket: int) -> tuple[int, int, int]:
    return state.run.number, bracket, state.progress[bracket].rung


def first_open(state: State) -> int | None:
    """The first bracket of the current run that is not complete; None if there is none, if the run
    was stopped already, and if it is frugal, which evaluates little."""
    if state.run.frugal or state.run.stopped is not None:
        return None
    return next((of for of, progress in enumerate(state.progress) if progress.open), None)


def _top_results(state: State) -> Iterable[object]:
    top = state.schedule.top
    return (state.results[bracket, top] for bracket in state.schedule.brackets)


def _has_results(state: State) -> bool:
    """Whether the current run has evaluated anything."""
    number = state.run.number
    return any(each.run == number and not each.imported for each in state.all_results())
