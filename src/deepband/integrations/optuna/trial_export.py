"""A study as trials of Optuna: one a config, with its rungs as intermediate values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.errors import SpaceError, shown
from deepband.space.choices import position
from deepband.space.search_space import Space, choices
from deepband.storage.codec import check_storable
from deepband.storage.tagged_json import to_text

if TYPE_CHECKING:
    from ConfigSpace.hyperparameters import Hyperparameter
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

LARGEST_EXACT = 2**53
"""Optuna keeps every number as a float."""
MOST_TEXT = 2000
"""How much of an error travels: a traceback is for the study's own pages."""


@dataclass(frozen=True, slots=True)
class Way:
    """One config and its evaluations, from its starting rung up."""

    bracket: int
    index: int
    config: Config
    told: tuple[JobFinished, ...]

    @property
    def last(self) -> JobFinished:
        return self.told[-1]


def ways(state: State) -> list[Way]:
    """Every config that was evaluated, in the order of the runs, so that later ones come last."""
    found: dict[tuple[int, int], list[JobFinished]] = defaultdict(list)
    for told in _evaluations(state):
        found[told.bracket, told.index].append(told)
    made = [
        Way(*place, state.configs[place[0]][place[1]], tuple(sorted(told, key=lambda t: t.rung)))
        for place, told in found.items()
    ]
    return sorted(made, key=lambda way: (way.told[0].run, way.bracket, way.index))


def _evaluations(state: State) -> Iterable[JobFinished]:
    for results in state.results.values():
        yield from results.values()
    yield from state.ahead.results.values()


def budgets(state: State) -> tuple[int | float, ...]:
    """By rung, as jobs carry them, up to the highest that anything was evaluated on."""
    schedule = state.coming if state.ahead.results else state.schedule
    return schedule.job_budgets(state.created.integer_budgets)


def steps_are(state: State) -> str:
    """What the steps of intermediate values are: Optuna's are whole numbers."""
    return "budget" if all(isinstance(each, int) for each in budgets(state)) else "rung"


def study_attributes(state: State) -> dict[str, Any]:
    """What Optuna's study should tell of ours, and what is needed to make it again."""
    created = state.created
    return {
        "deepband": created.study,
        "eta": created.eta,
        "budgets": list(budgets(state)),
        "steps": steps_are(state),
        "max_budgets": [str(run.schedule.max_budget) for run in state.runs],
        "strategies": [run.strategy for run in state.runs],
        "min_budget": str(created.min_budget),
        "seed": created.seed,
        "integer_budgets": created.integer_budgets,
        "space": _space_text(state),
    }


def _space_text(state: State) -> str | None:
    """The space as JSON, conditions and all; None if its choices are no plain values."""
    try:
        check_storable(state.created.space)
    except SpaceError:
        return None
    return to_text(state.created.space)


def trials(state: State, space: Space) -> list[FrozenTrial]:
    """All trials, in order."""
    shown_as = {name: Shown.of(parameter) for name, parameter in space.configspace.items()}
    steps = budgets(state) if steps_are(state) == "budget" else range(state.schedule.top + 2)
    return [_trial(state, way, shown_as, steps) for way in ways(state)]


def _trial(
    state: State, way: Way, shown_as: dict[str, Shown], steps: Sequence[int | float]
) -> FrozenTrial:
    from optuna.trial import create_trial

    values = {told.rung: _value(state, told) for told in way.told}
    failed = way.last.loss is None
    trial = create_trial(
        state=_outcome(state, way),
        value=None if failed else values[way.last.rung],
        params={name: shown_as[name].value(value) for name, value in way.config.items()},
        distributions={name: shown_as[name].distribution for name in way.config},
        user_attrs=_trial_attributes(way),
        intermediate_values={int(steps[rung]): value for rung, value in values.items()},
    )
    if trial.datetime_start:
        trial.datetime_start -= timedelta(seconds=sum(told.seconds or 0 for told in way.told))
    return trial


def _value(state: State, told: JobFinished) -> float:
    """In the user's sign; a failure is NaN, as Optuna has it."""
    return math.nan if told.loss is None else state.value(told.loss)


def _outcome(state: State, way: Way) -> TrialState:
    from optuna.trial import TrialState

    if way.last.loss is None:
        return TrialState.FAIL
    return TrialState.COMPLETE if way.last.rung >= state.schedule.top else TrialState.PRUNED


def _trial_attributes(way: Way) -> dict[str, Any]:
    return {
        "bracket": way.bracket,
        "index": way.index,
        "rung": way.last.rung,
        "run": way.last.run,
        "origin": way.last.origin,
        "evaluations": [_details(told) for told in way.told],
    }


def _details(told: JobFinished) -> dict[str, Any]:
    """What a value alone does not tell, as far as there is anything."""
    known = {
        "rung": told.rung,
        "run": told.run,
        "error": told.error and told.error[:MOST_TEXT],
        "metrics": dict(told.metrics) if told.metrics else None,
        "seconds": told.seconds,
        "origin": told.origin,
    }
    return {key: value for key, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Shown:
    """How Optuna is shown a parameter: choices that it cannot keep are texts there."""

    distribution: BaseDistribution
    mine: tuple[Any, ...] = ()
    theirs: tuple[Any, ...] = ()

    @classmethod
    def of(cls, parameter: Hyperparameter[Any, Any]) -> Shown:
        mine = choices(parameter)
        theirs = plain_choices(mine)
        return cls(_distribution(parameter, theirs), tuple(mine), tuple(theirs))

    def value(self, own: Any) -> Any:
        """What Optuna is given for a value of ours."""
        return self.theirs[position(self.mine, own)] if self.mine else own

    def own(self, value: Any) -> Any:
        """The value of ours that Optuna was given, or gave itself for a range with a step."""
        if value in self.theirs:
            return self.mine[self.theirs.index(value)]
        near = [each for each in self.mine if _is_near(each, value)]
        return near[0] if near else value


def _is_near(mine: Any, value: Any) -> bool:
    numbers = all(isinstance(each, int | float) for each in (mine, value))
    return numbers and math.isclose(mine, value, rel_tol=1e-9, abs_tol=1e-12)


def _distribution(parameter: Any, listed: Sequence[Any]) -> BaseDistribution:
    from ConfigSpace.hyperparameters import OrdinalHyperparameter
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if not listed:
        return _range(parameter)
    step = _step(listed) if isinstance(parameter, OrdinalHyperparameter) else None
    if step is None:
        return CategoricalDistribution(listed)
    if isinstance(listed[0], float):
        return FloatDistribution(listed[0], listed[-1], step=float(step))
    return _whole(listed[0], listed[-1], step=int(step))


def _range(parameter: Any) -> BaseDistribution:
    from ConfigSpace.hyperparameters import IntegerHyperparameter
    from optuna.distributions import FloatDistribution

    low, high = parameter.lower, parameter.upper
    exact = max(abs(low), abs(high)) <= LARGEST_EXACT
    if isinstance(parameter, IntegerHyperparameter) and exact:
        return _whole(int(low), int(high), log=parameter.log)
    return FloatDistribution(float(low), float(high), log=parameter.log)


def _whole(low: int, high: int, *, log: bool = False, step: int = 1) -> BaseDistribution:
    from optuna.distributions import IntDistribution

    return IntDistribution(low, high, log=log, step=step)


def _step(listed: Sequence[Any]) -> Decimal | None:
    """The step of numbers that go up evenly; None for any other values."""
    kinds = {type(each) for each in listed}
    if kinds not in ({int}, {float}) or len(listed) < 2:
        return None
    exact = [Decimal(str(each)) for each in listed]
    steps = {after - before for before, after in pairwise(exact)}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else None


def plain_choices(mine: Iterable[Any]) -> list[Any]:
    """Choices as Optuna and JSON can keep them and tell them apart."""
    theirs: list[Any] = []
    for number, choice in enumerate(mine):
        plain = choice if _is_plain(choice) else shown(choice, 200)
        theirs.append(f"{plain} ({number})" if plain in theirs else plain)
    return theirs


def _is_plain(choice: Any) -> bool:
    if isinstance(choice, float):
        return math.isfinite(choice)
    return choice is None or isinstance(choice, bool | int | str)
