"""The durable records of a study. A study is its facts; everything else is derived from them.

Facts are named tuples: immutable, and created three times as fast as frozen dataclasses. Many jobs
or configs recorded at once are one fact, because every object that stays alive is one more for the
garbage collector to visit. (A field `index` hides the method of tuples, which mypy reports.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

Config: TypeAlias = dict[str, Any]
"""A configuration: a plain dict of Python values."""

JobKey: TypeAlias = tuple[int, int, int]
"""A (bracket, index, rung)."""

Loss: TypeAlias = float | tuple[float, ...]
"""What is minimised: a number or, with several objectives, one number for each."""

_IMMUTABLE = frozenset({int, float, str, bool, type(None)})


def own_copy(values: Mapping[str, Any], leaf: Callable[[Any], Any] = lambda leaf: leaf) -> Config:
    """A copy of a config, or of metrics, that shares no list, dict or set with the original. Other
    values, such as a function among the choices, are passed through `leaf`, which by default
    returns them unchanged."""
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
    """The settings that never change. `max_budget` is that of the first run."""

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
    """How many configs of a bracket a sampler that does not learn samples together. A different
    number gives different configs."""
    whole_costs: bool = False
    """Whether costs count the whole budgets that jobs carry. Older studies count exact ones."""
    reuse_identical: bool = False
    """Whether equal configs share one result per rung."""
    parallel: int = 1
    """The number of virtual workers that decides which results a sampler that learns may use."""
    objectives: tuple[tuple[str, str], ...] = ()
    """The name and the direction of each; empty for a single objective without a name."""
    constraints: tuple[tuple[str, tuple[float | None, float | None]], ...] = ()
    """The name of each metric that has bounds, the lower one and the upper one."""


class SpaceChange(NamedTuple):
    """Another search space, for configs that are sampled from now on."""

    space: Mapping[str, Any]
    added: Config
    """The values of new parameters that existing configs are taken to have."""
    firsts: tuple[int, ...]
    """By bracket: the first index that is sampled from this space. In later brackets it is 0."""

    def applies_to(self, bracket: int, index: int) -> bool:
        """Whether a config is sampled from this space, or from a later one."""
        return bracket >= len(self.firsts) or index >= self.firsts[bracket]


class RunStarted(NamedTuple):
    """A run started: the first one, which has no strategy, or an extension of the one before."""

    run: int
    max_budget: Fraction
    strategy: str | None
    width: int = 1
    brackets: int | None = None
    """The number of brackets that the run is limited to; None for all."""
    change: SpaceChange | None = None


class ObjectiveNamed(NamedTuple):
    """What is evaluated, as text such as `train.py:objective`. Opening a study never runs it."""

    objective: str


class ConfigsDrawn(NamedTuple):
    """The next configs of a bracket, from index `first` on. They are never removed."""

    bracket: int
    first: int
    configs: tuple[Config, ...]
    origin: str | None = None
    """Where they come from, if not from the sampler."""


class JobsStarted(NamedTuple):
    """Jobs were handed out."""

    jobs: tuple[JobKey, ...]


class JobReleased(NamedTuple):
    """A job that was handed out became available again."""

    job: JobKey


class Outcome(NamedTuple):
    """The outcome of an evaluation: the part of a `JobFinished` that the worker reports."""

    loss: Loss | None
    """To be minimised; None for a failure."""
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    resumed_from: int | None = None
    curve: tuple[tuple[float, float], ...] | None = None
    stopped_after: float | None = None

    @property
    def failed(self) -> bool:
        return self.loss is None

    @property
    def succeeded(self) -> bool:
        """Whether it neither failed nor diverged."""
        return self.loss is not None and not _has_diverged(self)

    def timed(self, seconds: float) -> Outcome:
        """The same outcome of an evaluation that took this long."""
        return Outcome(*self[:3], seconds, *self[4:])  # half the time of `_replace`


class JobFinished(NamedTuple):
    """A config was evaluated on a rung, in the current run or ahead of the next one. A loss of None
    is a failure."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    rung: int
    run: int
    loss: Loss | None
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    """How long the evaluation took."""
    resumed_from: int | None = None
    """The rung whose checkpoint training continued from; None if it started from scratch."""
    curve: tuple[tuple[float, float], ...] | None = None
    """The (step, loss) pairs reported during training."""
    stopped_after: float | None = None
    """The budget after which training was stopped early. Its loss is then +inf: it was not
    evaluated with the budget of the rung, so it ranks behind all configs that were."""
    origin: str | None = None
    """Where the result comes from, if it was imported."""

    @property
    def number(self) -> float | None:
        """The loss if there is a single objective; None for a failure, and with several."""
        return None if isinstance(self.loss, tuple) else self.loss

    @property
    def succeeded(self) -> bool:
        """Whether the evaluation neither failed nor diverged."""
        return self.loss is not None and not _has_diverged(self)

    @property
    def imported(self) -> bool:
        """Whether the result was imported instead of evaluated by this study, which then paid
        nothing for it."""
        return self.origin is not None


def _has_diverged(result: Outcome | JobFinished) -> bool:
    """Whether training was stopped because a reported loss was infinite or NaN."""
    after, curve = result.stopped_after, result.curve
    return bool(after and curve and not math.isfinite(curve[-1][1]))


PRECHECK = "precheck"
"""The origin of a result that stands for a config that was rejected before it was trained. Its loss
is +inf."""
SAME = "same as"
"""The start of the origin of a result that was taken from an equal config. The (bracket, index) of
that config follows."""
_SHARED = re.compile(SAME + r" \(([0-9]{1,9}), ([0-9]{1,9})\)", re.ASCII)


def is_shared(origin: str | None) -> bool:
    """Whether the origin of a result says that it was taken from an equal config."""
    return origin is not None and _SHARED.fullmatch(origin) is not None


def evaluated_job(key: JobKey, origin: str | None) -> JobKey:
    """The job that was evaluated for a result: its own, or that of the equal config."""
    shared = _SHARED.fullmatch(origin) if origin else None
    return (int(shared[1]), int(shared[2]), key[2]) if shared else key


def fact_of(key: JobKey, run: int, outcome: Outcome, origin: str | None = None) -> JobFinished:
    """The outcome of a job in a run."""
    # Every evaluation comes here: this takes half the time of a call with unpacked arguments.
    return tuple.__new__(JobFinished, key + (run,) + outcome + (origin,))  # noqa: RUF005


class Confirmed(NamedTuple):
    """A config was evaluated once more on a rung, from scratch and with another seed. No decision
    depends on it. A loss of None is a failure."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    rung: int
    repetition: int
    """From 1; each has its own seed."""
    loss: Loss | None
    error: str | None = None
    metrics: Mapping[str, Any] | None = None
    seconds: float | None = None
    """How long it took."""

    @property
    def key(self) -> tuple[int, int, int, int]:
        return self[:4]


class JobSkipped(NamedTuple):
    """A promoted config is not evaluated on a rung in a run: it does not arrive there, and its slot
    lapses."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    rung: int
    run: int
    risk: float
    """The estimated probability that it would have become the best."""


class RunStopped(NamedTuple):
    """A run ends early: its open jobs are not handed out. The last fact about a run counts."""

    run: int
    risk: float | None
    """The estimated probability that a config that could still be evaluated is notably better than
    the best one; None if the run continues after all."""


class JobsReopened(NamedTuple):
    """Failed evaluations on undecided rungs were withdrawn, to be repeated."""

    jobs: tuple[JobKey, ...]


class Owner(NamedTuple):
    """The process that leased jobs. A process id of 0 stands for none: such a lease does not end
    with any process."""

    host: str
    pid: int
    started: str
    """When it started, as its host says: another process may get the same id later."""


class JobsLeased(NamedTuple):
    """Jobs were leased, or an existing lease of them was renewed or released. The last fact with
    the same job and token counts."""

    jobs: tuple[JobKey, ...]
    token: str
    owner: Owner
    until: float
    """When the lease ends, in seconds since 1970; 0 if it was released."""


Note: TypeAlias = JobsStarted | JobReleased
"""Informative only: reopening a study makes every job without a JobFinished available again."""

Fact: TypeAlias = (
    StudyCreated
    | ObjectiveNamed
    | RunStarted
    | ConfigsDrawn
    | JobFinished
    | JobSkipped
    | RunStopped
    | JobsReopened
    | Confirmed
    | JobsLeased
    | Note
)
