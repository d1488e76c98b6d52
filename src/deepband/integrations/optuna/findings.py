"""What an Optuna study contains: a search space, and results on the rungs of a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deepband.core.exact_numbers import Budget, as_number, read_budget
from deepband.core.facts import PRECHECK
from deepband.core.schedule import Schedule
from deepband.core.strategies import StrategyName
from deepband.errors import BudgetError, InputError, SpaceError, shown
from deepband.integrations.optuna.study_criteria import constraint_values
from deepband.space.search_space import Space
from deepband.storage.tagged_json import from_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study as OptunaStudy
    from optuna.trial import FrozenTrial

BudgetOf: TypeAlias = Callable[[int], Budget]
"""Converts a step to a budget."""

TRIALS = {"complete and pruned": ("COMPLETE", "PRUNED"), "complete": ("COMPLETE",)}
"""The choices of `trials`, with the states of Optuna that they cover."""


class LeftOut(NamedTuple):
    """A trial or one of its values that was not imported, and why."""

    trial: int
    step: int | None
    """None for the whole trial or its final value."""
    reason: str


class Known(NamedTuple):
    """A trial's result on a rung."""

    rung: int
    step: int | None
    values: tuple[float, ...]
    """One for each objective."""
    details: Mapping[str, Any]
    """What deepband stored with the values if it exported the trial, and metrics."""

    @property
    def failed(self) -> bool:
        return any(map(math.isnan, self.values))

    @property
    def rejected(self) -> bool:
        """Whether the config was rejected before it was trained."""
        return bool(self.details.get("origin") == PRECHECK)


@dataclass(frozen=True, slots=True)
class Finding:
    """One trial and its results on consecutive rungs, the lowest first."""

    trial: int
    origin: str
    params: Mapping[str, Any]
    distributions: Mapping[str, BaseDistribution]
    place: tuple[int, int] | None
    """Its (bracket, index) in deepband, if it was exported from there."""
    known: tuple[Known, ...]


class ExportedRun(NamedTuple):
    """A run of a study that deepband exported."""

    max_budget: Fraction
    strategy: StrategyName | None
    width: int
    brackets: int | None
    unfinished: bool
    """Whether it was extended before it was finished."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The settings and runs of a study that deepband exported."""

    eta: int
    min_budget: Fraction
    runs: tuple[ExportedRun, ...]
    seed: int
    integer_budgets: bool
    space: Space | None
    steps: Mapping[int, Fraction]
    """The exact budget of each step."""
    objectives: Mapping[str, str]
    """The directions of objectives that have names."""
    constraints: Mapping[str, Any]
    """The bounds of metrics."""

    @classmethod
    def of(cls, given: OptunaStudy) -> Exported | None:
        """Read them from an Optuna study; None if it is not from deepband."""
        attributes = given.user_attrs
        if "deepband" not in attributes or "max_budgets" not in attributes:
            return None
        runs, space = _exported_runs(attributes), attributes["space"]
        first = runs[0].max_budget
        schedule = Schedule.of(attributes["eta"], Fraction(attributes["min_budget"]), first)
        return cls(
            eta=attributes["eta"],
            min_budget=Fraction(attributes["min_budget"]),
            runs=runs,
            seed=attributes["seed"],
            integer_budgets=attributes["integer_budgets"],
            space=None if space is None else Space.described(from_text(space)),
            steps={
                int(budget) if attributes["steps"] == "budget" else rung: schedule.budget(rung)
                for rung, budget in enumerate(attributes["budgets"])
            },
            objectives=dict(attributes.get("objectives", ())),
            constraints=dict(attributes.get("constraints", ())),
        )

    @property
    def schedule(self) -> Schedule:
        """The schedule up to the highest rung with a result."""
        first = Schedule.of(self.eta, self.min_budget, self.runs[0].max_budget)
        return first.extended(len(self.steps) - 1 - first.top)

    def budget_of(self, step: int) -> Budget:
        return self.steps.get(step, step)


def _exported_runs(attributes: Mapping[str, Any]) -> tuple[ExportedRun, ...]:
    budgets = map(Fraction, attributes["max_budgets"])
    names = "strategies", "widths", "brackets", "unfinished"
    return tuple(map(ExportedRun, budgets, *(attributes[name] for name in names)))


def findings(
    given: OptunaStudy, schedule: Schedule, budget_of: BudgetOf, trials: str, ours: bool
) -> tuple[list[Finding], list[LeftOut]]:
    """What can be imported of each trial, and what cannot. The rung of a failure is known only if
    deepband exported the trial."""
    states = (*TRIALS[trials], "FAIL") if ours else TRIALS[trials]
    found, left_out = [], []
    for trial in given.get_trials(deepcopy=False):
        if trial.state.name not in states:
            reason = f"its state is {trial.state.name.lower()}"
            left_out.append(LeftOut(trial.number, None, reason))
            continue
        attributes = trial.user_attrs if ours else {}
        finding, rest = _finding(given, trial, schedule, budget_of, attributes)
        left_out += rest
        if finding.known:
            found.append(finding)
    return found, left_out


def _finding(
    given: OptunaStudy,
    trial: FrozenTrial,
    schedule: Schedule,
    budget_of: BudgetOf,
    attributes: Mapping[str, Any],
) -> tuple[Finding, list[LeftOut]]:
    details = {each["rung"]: each for each in attributes.get("evaluations", [])}
    directions = [each.name for each in given.directions]
    several = len(directions) > 1
    values = _values(trial, directions, details.values())
    known: list[Known] = []
    nothing = f"it has no {'' if several else 'intermediate '}values"
    left_out = [] if values else [LeftOut(trial.number, None, nothing)]
    for step, numbers in values.items():
        budget = schedule.max_budget if step is None else budget_of(step)
        rung, reason = _rung(schedule, budget, known[-1].rung if known else None)
        for number, direction in zip(numbers, directions, strict=True):
            if number == (math.inf if direction == "MAXIMIZE" else -math.inf):
                reason = f"{number} cannot be the value of an evaluation"
        if reason:
            left_out.append(LeftOut(trial.number, step, reason))
        else:
            kept = details.get(rung) or {"metrics": constraint_values(trial)}
            known.append(Known(rung, step, numbers, kept))
    finding = Finding(
        trial.number,
        f"Optuna study {given.study_name!r}, trial {trial.number}",
        trial.params,
        trial.distributions,
        (attributes["bracket"], attributes["index"]) if "evaluations" in attributes else None,
        tuple(known),
    )
    return finding, left_out


def _values(
    trial: FrozenTrial, directions: Sequence[str], details: Iterable[Mapping[str, Any]]
) -> dict[int | None, tuple[float, ...]]:
    """The values by step; the step is None for a complete trial without intermediate values. With
    several objectives, only deepband has stored values by step."""
    failure = (math.nan,) * len(directions)
    by_step = {each["step"]: each.get("objectives") for each in details if "step" in each}
    if len(directions) > 1 and by_step:
        return {
            step: tuple(map(float, each.values())) if each else failure
            for step, each in sorted(by_step.items())
        }
    if not trial.intermediate_values and trial.state.name == "COMPLETE":
        return {None: tuple(trial.values)}
    return {step: (value,) for step, value in sorted(trial.intermediate_values.items())}


def _rung(schedule: Schedule, budget: Budget, below: int | None) -> tuple[int, str]:
    """The rung of a budget, or the reason why its result cannot follow the one on rung `below`."""
    try:
        rung = schedule.rung_of(budget)
    except BudgetError as error:
        return -1, str(error)
    if rung is None:
        return -1, f"no rung has the budget {_number(budget)}"
    if rung > schedule.top:
        return -1, f"the budget {_number(budget)} is above max_budget"
    if below is not None and rung != below + 1:
        lower = _number(schedule.budget(rung - 1))
        return -1, f"there is no result on the rung below, with budget {lower}"
    return rung, ""


def _number(budget: Budget) -> str:
    return f"{as_number(read_budget('budget', budget)):.10g}"


def no_match(given: OptunaStudy, schedule: Schedule) -> InputError:
    """The error for a study without any result on a rung."""
    if len(given.directions) > 1:
        return InputError(
            f"Optuna's study {given.study_name!r} has several objectives and no complete trial: "
            "only complete trials can be imported, because others have no values."
        )
    steps = {
        step for trial in given.get_trials(deepcopy=False) for step in trial.intermediate_values
    }
    rungs = ", ".join(_number(schedule.budget(rung)) for rung in range(schedule.top + 1))
    return InputError(
        f"no value of Optuna's study {given.study_name!r} is on a rung: the rungs have the budgets "
        f"{rungs}, and the steps of its trials are {shown(sorted(steps))}. Choose min_budget, "
        "max_budget and eta to match the steps, or convert steps with budget_of, such as "
        "`lambda step: step + 1` if steps count from 0."
    )


def space_of(found: Iterable[Finding]) -> Space:
    """The union of the distributions of all trials that have results."""
    joined: dict[str, Any] = {}
    found = list(found)
    for finding in found:
        for name, distribution in finding.distributions.items():
            joined[name] = _joined(name, joined.get(name, distribution), distribution)
    for name in joined:
        without = [each.trial for each in found if name not in each.params]
        if without:
            raise SpaceError(
                f"the trials {shown(without)} have no parameter {name!r}, but others do. Give "
                "space=, a ConfigSpace.ConfigurationSpace with the condition under which it is "
                "active; trials that do not fit are left out."
            )
    return Space(joined)


def _joined(name: str, one: Any, other: Any) -> Any:
    """A distribution that covers both: in Optuna, a range may change from trial to trial."""
    if one == other:
        return one
    same = type(one) is type(other) and getattr(one, "log", None) == getattr(other, "log", None)
    if not same or not hasattr(one, "low") or one.step != other.step:
        raise SpaceError(
            f"parameter {name!r} is {shown(one)} in one trial and {shown(other)} in another: give "
            "space= to define it."
        )
    low, high = min(one.low, other.low), max(one.high, other.high)
    return type(one)(low, high, log=one.log, step=one.step)


def above(finding: Finding, rung: int) -> Finding:
    """A finding without its results up to a rung, which the study already has."""
    return replace(finding, known=tuple(each for each in finding.known if each.rung > rung))


def below(finding: Finding, rung: int) -> Finding:
    """A finding without its results from a rung on."""
    return replace(finding, known=tuple(each for each in finding.known if each.rung < rung))
