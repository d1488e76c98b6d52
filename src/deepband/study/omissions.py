"""What is not evaluated, or not to the end, while `optimize(skip=, stop=, stop_training=)` runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from deepband.core.criteria import Criteria
from deepband.core.exact_numbers import is_finite
from deepband.core.facts import JobKey, JobSkipped, RunStopped
from deepband.core.state import State
from deepband.errors import InputError, SeveralObjectivesError, shown
from deepband.samplers.source import ConfigSource
from deepband.study.skips import Skips
from deepband.study.stops import Stops
from deepband.study.training_stops import TrainingStops

if TYPE_CHECKING:
    from deepband.execution.training_watch import TrainingLimits

EFFECTS = {
    "skip": "no promotion can be skipped",
    "stop": "the run cannot be stopped early",
    "stop_training": "training cannot be stopped early",
}
"""What a study with several objectives cannot do, by the name of the argument."""
EXAMPLES = {"skip": "0.01", "stop": "0.05", "stop_training": "0.02"}


class Omissions:
    """The decisions of one call of `optimize`. A risk of None or 0 decides nothing."""

    def __init__(
        self,
        state: State,
        source: ConfigSource,
        skip: float | None = None,
        stop: float | None = None,
        stop_training: float | None = None,
    ) -> None:
        skip, stop, stop_training = read_risks(state.criteria, skip, stop, stop_training)
        self._skips = Skips(skip, stop_training) if skip or stop_training else None
        self._stops = None if stop is None else Stops(stop, source.expected)
        self._training = None if stop_training is None else TrainingStops(stop_training, source)

    def due(self, state: State) -> Sequence[JobSkipped | RunStopped]:
        """What can be recorded now: skipped promotions first, then the end of the run."""
        skipped = self._skips.due(state) if self._skips else ()
        return skipped or (self._stops.due(state) if self._stops else ())

    def keeps(self, stopped: float) -> bool:
        """Whether a run that was stopped with this probability stays so."""
        return self._stops is not None and self._stops.keeps(stopped)

    def undecided(self, state: State) -> Collection[int]:
        """The brackets whose promotions wait for a decision whether they are skipped."""
        return self._skips.held(state) if self._skips else ()

    def held(self, state: State) -> Collection[int]:
        """The brackets of which no job can start: those above, and all that come after the first
        one that is not complete if what follows depends on it."""
        waiting: Iterable[int] = ()
        if self._stops:
            waiting = self._stops.held(state)
        elif self._training:
            waiting = self._training.held(state)
        return {*self.undecided(state), *waiting}

    @property
    def lacks_curves(self) -> bool:
        """Whether training could not be stopped because what was reported is not comparable."""
        return self._training is not None and self._training.lacks_curves

    def limits(self, state: State, key: JobKey) -> TrainingLimits:
        """The losses above which the training of a job should stop."""
        return self._training.limits(state, key) if self._training else ()


def check_stop_training(given: float | None, ahead: bool, takes_context: bool) -> None:
    """Raise if training cannot be stopped early."""
    if not given:
        return
    if ahead:  # how much work is done ahead depends on the workers
        raise InputError(
            "`ahead` would train configs to the end that `stop_training` may stop in the next run: "
            "leave out one of them."
        )
    if not takes_context:
        raise InputError(
            "`stop_training` is given, but the objective takes no context: let it take one, call "
            "context.report(step, loss) during training, and return if context.should_stop()."
        )


def read_risks(
    criteria: Criteria,
    skip: float | None = None,
    stop: float | None = None,
    stop_training: float | None = None,
) -> tuple[float | None, float | None, float | None]:
    """The risks that a user gave; None where nothing is predicted. Raises if a study with these
    criteria cannot have them."""
    return (
        _read_risk("skip", criteria, skip),
        _read_risk("stop", criteria, stop),
        _read_risk("stop_training", criteria, stop_training),
    )


def _read_risk(name: str, criteria: Criteria, given: float | None) -> float | None:
    if given is None:
        return None
    if not is_finite(given) or not 0 <= given < 1:
        raise InputError(
            f"{name} is {shown(given)}: give a probability below 1, such as {EXAMPLES[name]}."
        )
    if given and criteria.several:
        raise SeveralObjectivesError(criteria.names, EFFECTS[name], f"Leave out `{name}`.")
    if given and criteria.constraints:
        raise InputError(
            f"{name} is given, but the study has constraints, and whether a config will violate "
            f"one is not predicted: leave out `{name}`."
        )
    return float(given) or None
