"""When training ends early: `optimize(stop_training=)`.

Brackets run one after another, so that the results of earlier brackets are fixed when one starts.
The limits of a config follow from them and are not recorded: computed again after an interruption,
they are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepband.core.facts import JobKey
from deepband.core.state import State
from deepband.samplers.source import ConfigSource
from deepband.study.stops import first_open

if TYPE_CHECKING:
    from deepband.execution.training_watch import TrainingLimits


class TrainingStops:
    """The limits of training while `optimize(stop_training=)` runs."""

    def __init__(self, risk: float, source: ConfigSource) -> None:
        self._risk = risk
        self._source = source
        self._moment: tuple[int, int] | None = None
        """The run and the bracket that `_limits` are those of."""
        self._limits: TrainingLimits = ()
        self._without: list[bool] = []
        """Whether each bracket had no limits."""

    @property
    def lacks_curves(self) -> bool:
        """Whether no bracket had limits, although some should have had."""
        return bool(self._without) and all(self._without)

    def held(self, state: State) -> set[int]:
        """The brackets that wait until an earlier one is complete."""
        bracket = first_open(state)
        return set() if bracket is None else set(range(bracket + 1, len(state.progress)))

    def limits(self, state: State, key: JobKey) -> TrainingLimits:
        """Budgets on the way to that of a job, each with the loss above which it should stop. Only
        the first evaluation of a config has any."""
        bracket, index, rung = key
        if rung != bracket or rung == 0 or state.run.frugal or state.is_ahead(bracket, index):
            return ()
        moment = state.run.number, bracket
        if self._moment != moment:
            from deepband.analysis.learning_curves.training_limits import training_limits

            self._moment = moment
            self._limits = training_limits(state, bracket, self._risk, self._source.random)
            self._without.append(not self._limits)
        return self._limits
