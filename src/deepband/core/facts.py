"""What is durable. A study is its facts and nothing else; all the rest is derived from them.

Facts are named tuples: immutable, and made three times as fast as frozen dataclasses. What is
told of many jobs or configs at once is one fact, because every object that lives on is one more
for the garbage collector to visit. (A field `index` hides the method of tuples, which mypy notes.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

Config: TypeAlias = dict[str, Any]
"""A configuration: a plain dict of Python values."""

JobKey: TypeAlias = tuple[int, int, int]
"""A (bracket, index, rung)."""

_IMMUTABLE = frozenset({int, float, str, bool, type(None)})


def own_copy(values: Mapping[str, Any], leaf: Callable[[Any], Any] = lambda leaf: leaf) -> Config:
    """A copy of a config, or of metrics, that shares no list and no dict with it. Other things,
    such as a function among the choices, are what `leaf` makes of them: by default themselves."""
    if _IMMUTABLE.issuperset(map(type, values.values())):  # nearly always
        return dict(values)
    return {name: _own(value, leaf) for name, value in values.items()}


def _own(value: Any, leaf: Callable[[Any], Any]) -> Any:
    if type(value) is dict:
        return {name: _own(inner, leaf) for name, inner in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_own(inner, leaf) for inner in value)
    return value if type(value) in _IMMUTABLE else leaf(value)


class StudyCreated(NamedTuple):
    """The settings that never change. max_budget is that of the first run."""

    study: str
    space: Mapping[str, Any]
    eta: int
    min_budget: Fraction
    max_budget: Fraction
    seed: int
    maximize: bool
    integer_budgets: bool
    sampler: str
    chunk: int
    """How many configs of a bracket are drawn together; another number draws other values."""


class RunStarted(NamedTuple):
    """A run began: the first one, without a strategy, or a deepening."""

    run: int
    max_budget: Fraction
    strategy: str | None


class ObjectiveNamed(NamedTuple):
    """What is evaluated, as text such as `train.py:objective`. It is never run on opening."""

    objective: str


class ConfigsDrawn(NamedTuple):
    """The next configs of a bracket, from index `first` on. They exist for ever."""

    bracket: int
    first: int
    configs: tuple[Config, ...]
    origin: str | None = None
    """Where they come from, if the sampler did not draw them."""


class JobsStarted(NamedTuple):
    """Jobs were handed out."""

    jobs: tuple[JobKey, ...]


class JobReleased(NamedTuple):
    """A job that was handed out is offered again."""

    job: JobKey


class Outcome(NamedTuple):
    """What came of an evaluation: the part of a `JobFinished` that the worker reports."""

    loss: float | None
    """To be minimised; None for a failure."""
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    resumed_from: int | None = None
    curve: tuple[tuple[float, float], ...] | None = None


class JobFinished(NamedTuple):
    """A config was evaluated on a rung, in a run: the current one, or ahead of the next one. A
    loss of None is a failure."""

    bracket: int
    index: int  # type: ignore[assignment] # hides the method of tuples, which nobody calls
    rung: int
    run: int
    loss: float | None
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    """How long it took."""
    resumed_from: int | None = None
    """The rung whose checkpoint training went on from; None when it began at the start."""
    curve: tuple[tuple[float, float], ...] | None = None
    """The (step, loss) that were reported on the way."""
    origin: str | None = None
    """Where the result comes from, if this study did not evaluate it."""

    @classmethod
    def of(cls, key: JobKey, run: int, outcome: Outcome, origin: str | None = None) -> JobFinished:
        """The outcome of a job in a run."""
        return cls._make((*key, run, *outcome, origin))


class JobsReopened(NamedTuple):
    """Failed evaluations on rungs that are not decided were taken back, to be made again."""

    jobs: tuple[JobKey, ...]


Note: TypeAlias = JobsStarted | JobReleased
"""For the eyes only: who opens a study anew offers every job without a JobFinished again."""

Fact: TypeAlias = (
    StudyCreated | ObjectiveNamed | RunStarted | ConfigsDrawn | JobFinished | JobsReopened | Note
)
