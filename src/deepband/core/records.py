"""The records that users receive: jobs to run, and evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deepband.core.facts import PRECHECK, Config, JobKey, Outcome, evaluated_job
from deepband.core.record_text import html_table, printable, record_repr
from deepband.errors import InputError, shown

if TYPE_CHECKING:
    from pathlib import Path

    Finder: TypeAlias = Callable[[JobKey], Path | None]


class Job(NamedTuple):
    """One config on one rung of one bracket, to be evaluated with `budget`.

    `study` identifies the study that the job belongs to; a service that rebuilds jobs may leave it
    empty. The config is a copy that the job owns. `token` identifies the lease of a leased job.
    """

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    rung: int
    budget: int | float
    config: Config
    study: str = ""
    token: str = ""

    def __repr__(self) -> str:
        names = self._fields if self.token else self._fields[:-1]
        return f"Job({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def key(self) -> JobKey:
        """The (bracket, index, rung), which identifies a job within its study."""
        return self.bracket, self.index, self.rung

    def __hash__(self) -> int:
        return hash((self.study, self.key))


def whole_key(job: Job) -> JobKey:
    """The key of a job as plain ints, where a job was built with those of NumPy, for example."""
    try:
        return index(job.bracket), index(job.index), index(job.rung)
    except TypeError:
        raise InputError(
            f"{shown(job)} is not a job: its bracket, index and rung must be whole numbers."
        ) from None


class Attempt(NamedTuple):
    """What a worker reports after running a job once."""

    job: Job
    outcome: Outcome
    """The part that a study records."""
    saved: str | None = None
    """The name of the folder with the checkpoint of this attempt, if it saved one."""
    environment: bool = False
    """Whether it failed because of the machine, such as a full disk, not because of the config."""


class EvaluationFields(NamedTuple):
    """The recorded part of an evaluation: what is compared and exported."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
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
    """Where the result comes from, if it was imported."""
    objectives: Mapping[str, float] = MappingProxyType({})
    """The values of objectives that have names, in the user's direction."""
    feasible: bool = True
    """Whether it did not fail and violates no constraint."""
    stopped_after: float | None = None
    """The budget after which training was stopped early, or None."""


class Evaluation(EvaluationFields):
    """One config evaluated on one rung of its bracket.

    `loss` is minimised; `value` is the same number in the user's direction. Both are None if the
    evaluation failed, and `error` then says why: the type of the error, a colon, and its message.
    With several objectives both are always None, and `objectives` has the values by name.
    If training was stopped early (`Context.should_stop`), `loss` is infinite, and `stopped_after`
    is the budget that was used.
    `resumed_from` is the rung whose checkpoint training continued from, or None if it started from
    scratch.
    """

    _find: Finder | None = None
    """Finds the checkpoint of a job. An attribute and not a field: evaluations are equal wherever
    their checkpoints are."""

    @property
    def checkpoint(self) -> Path | None:
        """The folder that the objective saved, or None if it saved nothing, the folder was not
        kept, or it is damaged.

        A result that was taken from an equal config has the checkpoint of that config.

        Each access looks again and reads the files to verify them. Evaluations that do not come
        from a study, such as those that a sampler receives, have none.
        """
        key = evaluated_job((self.bracket, self.index, self.rung), self.origin)
        return self._find(key) if self._find else None

    def __repr__(self) -> str:
        return record_repr(self, omitted=() if self.objectives else ("objectives",))

    def __str__(self) -> str:
        pairs = [f"  {name} = {value!r}" for name, value in self.config.items()]
        pairs += [f"  {name}: {_brief(value)}" for name, value in self._results()]
        return "\n".join(map(printable, [self._title(), *pairs]))

    def _repr_html_(self) -> str:
        rows = [*self.config.items(), *((name, _brief(each)) for name, each in self._numbers())]
        return html_table(self._title(), (), rows)

    def _numbers(self) -> list[tuple[str, Any]]:
        seconds = [] if self.seconds is None else [("seconds", self.seconds)]
        return [*self._results(), *seconds]

    def _results(self) -> list[tuple[str, Any]]:
        named = self.objectives.items() if self.loss is None else ()
        return [*named, *self.metrics.items()]

    def _title(self) -> str:
        """What came out with which budget, and where in the schedule."""
        found = "failed"
        if self.origin == PRECHECK:
            found = "rejected before training"
        elif self.stopped_after is not None:
            found = f"stopped after {self.stopped_after:.6g}"
        elif self.objectives and self.value is None:
            found = ", ".join(f"{name} {each:.6g}" for name, each in self.objectives.items())
        elif self.value is not None:
            found = f"{'loss' if self.value == self.loss else 'value'} {self.value:.6g}"
        if self.error is None and not self.feasible and self.origin != PRECHECK:
            found += ", infeasible,"
        place = f"bracket {self.bracket}, index {self.index}, rung {self.rung}"
        error = f": {self.error.splitlines()[0]}" if self.error else ""
        return f"{found} with budget {self.budget:.6g} ({place}){error}"


def with_checkpoint(
    evaluation: Evaluation, find: Callable[[JobKey], Path | None] | None
) -> Evaluation:
    """The evaluation, whose checkpoint this function finds from now on."""
    evaluation._find = find
    return evaluation


def _brief(value: object) -> str:
    """A metric in one line. Floats have six digits."""
    return f"{value:.6g}" if isinstance(value, float) else shown(value)
