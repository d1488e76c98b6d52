"""When training ends early: `optimize(stop_training=)`.

Brackets run one after another, so that the results of earlier brackets are fixed when one starts.
The limits of a config follow from them and are not recorded: computed again after an interruption,
they are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepband.core.facts import JobKey
from deepband.core.state import State
from deepband.study.stops import first_open

if TYPE_CHECKING:
    from deepband.execution.training_watch import TrainingLimits


class TrainingStops:
    """The limits of training while `optimize(stop_training=)` runs."""

    def __init__(self, risk: float) -> None:
        self._risk = risk

    def held(self, state: State) -> set[int]:
        """The brackets that wait until an earlier one is complete."""
        bracket = first_open(state)
        return set() if bracket is None else set(range(bracket + 1, len(state.progress)))

    def limits(self, state: State, key: JobKey) -> TrainingLimits:
        """Budgets on the way to that of a job, each with the loss above which it should stop. Only
        the first evaluation of a config has any."""
        bracket, index, rung = key
        if rung != bracket or rung == 0 or state.is_ahead(bracket, index):
            return ()
        from deepband.analysis.learning_curves.training_limits import training_limits

        return training_limits(state, bracket, index, self._risk)
