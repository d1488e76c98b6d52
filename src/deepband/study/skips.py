"""Which promotions are not evaluated: `optimize(skip=)`, and those of configs that
`optimize(stop_training=)` has stopped.

The promotions of a rung are decided together and once, before any of them is evaluated: when the
rung below is complete, and all earlier brackets of the run are. Until then, they wait. A decision
that skips nothing is not recorded: taken again after an interruption, it is the same.
"""

from __future__ import annotations

import time
from itertools import accumulate
from operator import itemgetter

from deepband.core.facts import JobSkipped
from deepband.core.state import State


class Skips:
    """The decisions about promotions while `optimize` runs with `skip` or `stop_training`."""

    def __init__(self, risk: float | None = None, stop_training: float | None = None) -> None:
        self._risk = risk
        self._stop_training = stop_training
        self._decided: set[tuple[int, int, int]] = set()
        """The run, bracket and rung of promotions that need no decision any more."""

    def due(self, state: State) -> list[JobSkipped]:
        """The skips that can be recorded now. More may follow once they are."""
        for bracket, progress in enumerate(state.progress):
            if self._awaits(state, bracket) and (found := self._decide(state, bracket)):
                return found
            if progress.open:  # later brackets wait for this one
                return []
        return []

    def held(self, state: State) -> set[int]:
        """The brackets whose promotions are not decided yet. None of these can start."""
        return {each for each in range(len(state.progress)) if self._awaits(state, each)}

    def _awaits(self, state: State, bracket: int) -> bool:
        run, progress = state.run, state.progress[bracket]
        key = run.number, bracket, progress.rung
        if progress.rung == bracket or run.frugal or not progress.waiting or key in self._decided:
            return False
        if _is_begun(state, bracket, progress.rung):
            self._decided.add(key)
            return False
        return True

    def _decide(self, state: State, bracket: int) -> list[JobSkipped]:
        progress, run, now = state.progress[bracket], state.run.number, time.time()
        rung = progress.rung
        risks = self._unlikely(state, bracket) | self._hopeless(state, bracket)
        found = [
            JobSkipped(bracket, index, rung, run, risk)
            for index, risk in sorted(risks.items())
            if progress.is_waiting(index) and not state.is_leased((bracket, index, rung), now)
        ]
        if not found:
            self._decided.add((run, bracket, rung))
        return found

    def _unlikely(self, state: State, bracket: int) -> dict[int, float]:
        """By index: the probability to become the best of the promoted configs that are least
        likely to, as long as the sum of these is below the risk."""
        if self._risk is None:
            return {}
        from deepband.analysis.learning_curves.promotion_risk import promotion_risks

        order = sorted(promotion_risks(state, bracket).items(), key=itemgetter(1, 0))
        totals = accumulate(risk for _, risk in order)
        return dict(each for each, total in zip(order, totals, strict=True) if total < self._risk)

    def _hopeless(self, state: State, bracket: int) -> dict[int, float]:
        """By index: the risk for the promoted configs whose training was stopped. There were not
        enough others for all slots."""
        risk, rung = self._stop_training, state.progress[bracket].rung
        arrived = state.run.arrived[bracket, rung]
        if risk is None:
            return {}
        return {
            index: risk
            for index in arrived
            if (bracket, index, rung - 1) in state.standings.stopped
        }


def _is_begun(state: State, bracket: int, rung: int) -> bool:
    """Whether the promotions to a rung were decided, or evaluated without a decision."""
    return bool(state.run.skipped.get((bracket, rung))) or has_own_results(state, bracket, rung)


def has_own_results(state: State, bracket: int, rung: int) -> bool:
    """Whether the current run has evaluated anything on a rung of a bracket."""
    results, number = state.results[bracket, rung], state.run.number
    own = (results[index] for index in state.run.arrived[bracket, rung] if index in results)
    return any(each.run == number and not each.imported for each in own)
