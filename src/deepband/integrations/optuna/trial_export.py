"""A study as Optuna trials: one per config, with its rungs as intermediate values.

Optuna has no intermediate values if there are several objectives: then the rungs are only in the
user attribute `evaluations`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from deepband.core.facts import PRECHECK, Config, JobFinished
from deepband.core.state import State
from deepband.errors import SpaceError, shown
from deepband.integrations.optuna.trial_values import (
    constraint_attributes,
    criteria_attributes,
    objective_details,
    values_of,
)
from deepband.space.choices import choices, position
from deepband.space.search_space import Space
from deepband.space.space_change import combined
from deepband.storage.storable_values import check_storable
from deepband.storage.tagged_json import to_text

if TYPE_CHECKING:
    from ConfigSpace.hyperparameters import Hyperparameter
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState

LARGEST_EXACT = 2**53
"""Optuna stores every number as a float."""
MOST_TEXT = 2000
"""Characters of an error that are exported."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One config and its results, from its starting rung up."""

    bracket: int
    index: int
    config: Config
    results: tuple[JobFinished, ...]

    @property
    def last(self) -> JobFinished:
        return self.results[-1]


def trajectories(state: State) -> list[Trajectory]:
    """Every config with a result, sorted by its first run, bracket and index."""
    found: dict[tuple[int, int], list[JobFinished]] = defaultdict(list)
    for result in _evaluations(state):
        found[result.bracket, result.index].append(result)
    paths = [
        Trajectory(
            *place,
            state.config(*place),
            tuple(sorted(results, key=attrgetter("rung"))),
        )
        for place, results in found.items()
    ]
    return sorted(paths, key=lambda each: (each.results[0].run, each.bracket, each.index))


def _evaluations(state: State) -> Iterable[JobFinished]:
    for results in state.results.values():
        yield from results.values()
    yield from state.ahead.results.values()


def budgets(state: State) -> tuple[int | float, ...]:
    """The budgets of jobs by rung, up to the highest rung with a result."""
    schedule = state.coming if state.ahead.results else state.schedule
    return schedule.job_budgets(state.created.integer_budgets)


def steps_are(state: State) -> str:
    """Whether steps are budgets or rungs: Optuna's steps are whole numbers."""
    return "budget" if all(isinstance(each, int) for each in budgets(state)) else "rung"


def study_attributes(state: State) -> dict[str, Any]:
    """The user attributes of the Optuna study, from which the study can be restored."""
    created = state.created
    return {
        "deepband": created.study,
        "eta": created.eta,
        "budgets": list(budgets(state)),
        "steps": steps_are(state),
        "max_budgets": [str(run.schedule.max_budget) for run in state.runs],
        "strategies": [run.strategy for run in state.runs],
        "widths": [run.schedule.width for run in state.runs],
        "brackets": [run.schedule.bracket_limit for run in state.runs],
        "unfinished": [run.left_open > 0 for run in state.runs],
        "min_budget": str(created.min_budget),
        "seed": created.seed,
        "integer_budgets": created.integer_budgets,
        "space": _space_text(state),
        **criteria_attributes(state.criteria),
    }


def _space_text(state: State) -> str | None:
    """The space with its conditions as JSON; None if its choices are not plain values."""
    try:
        check_storable(combined(state))
    except SpaceError:
        return None
    return to_text(combined(state))


def trials(state: State, space: Space) -> list[FrozenTrial]:
    """One trial per evaluated config."""
    shown_as = {name: Shown.of(parameter) for name, parameter in space.configspace.items()}
    steps = budgets(state) if steps_are(state) == "budget" else range(state.schedule.top + 2)
    return [_trial(state, each, shown_as, steps) for each in trajectories(state)]


def _trial(
    state: State, path: Trajectory, shown_as: dict[str, Shown], steps: Sequence[int | float]
) -> FrozenTrial:
    from optuna.trial import create_trial

    several = state.criteria.several
    trial = create_trial(
        state=_outcome(state, path),
        values=None if path.last.loss is None else values_of(state, path.last),
        params={name: shown_as[name].value(value) for name, value in path.config.items()},
        distributions={name: shown_as[name].distribution for name in path.config},
        user_attrs=_trial_attributes(state, path, steps),
        system_attrs=constraint_attributes(state, path.last),
        intermediate_values={
            int(steps[each.rung]): values_of(state, each)[0] for each in path.results if not several
        },
    )
    if trial.datetime_start:
        seconds = sum(result.seconds or 0 for result in path.results)
        trial.datetime_start -= timedelta(seconds=seconds)
    return trial


def _outcome(state: State, path: Trajectory) -> TrialState:
    from optuna.trial import TrialState

    if path.last.loss is None:
        return TrialState.FAIL
    complete = path.last.rung >= state.schedule.top and path.last.origin != PRECHECK
    complete = complete and path.last.stopped_after is None
    return TrialState.COMPLETE if complete else TrialState.PRUNED


def _trial_attributes(
    state: State, path: Trajectory, steps: Sequence[int | float]
) -> dict[str, Any]:
    limited = state.criteria.constraints or path.last.origin == PRECHECK
    return {
        "bracket": path.bracket,
        "index": path.index,
        "rung": path.last.rung,
        "run": path.last.run,
        "origin": path.last.origin,
        **({"feasible": state.standings.is_feasible(path.last)} if limited else {}),
        "evaluations": [
            _details(result) | objective_details(state, result, int(steps[result.rung]))
            for result in path.results
        ],
    }


def _details(result: JobFinished) -> dict[str, Any]:
    """What is known of an evaluation besides its value."""
    known = {
        "rung": result.rung,
        "run": result.run,
        "error": result.error and result.error[:MOST_TEXT],
        "metrics": dict(result.metrics) if result.metrics else None,
        "seconds": result.seconds,
        "origin": result.origin,
        "stopped_after": result.stopped_after,
    }
    return {key: value for key, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Shown:
    """A parameter as Optuna sees it: choices that it cannot store become strings."""

    distribution: BaseDistribution
    own_choices: tuple[Any, ...] = ()
    choices: tuple[Any, ...] = ()

    @classmethod
    def of(cls, parameter: Hyperparameter[Any, Any]) -> Shown:
        own = choices(parameter)
        plain = plain_choices(own)
        return cls(_distribution(parameter, plain), tuple(own), tuple(plain))

    def value(self, own: Any) -> Any:
        """The value that Optuna stores for one of deepband's."""
        return self.choices[position(self.own_choices, own)] if self.own_choices else own

    def own(self, value: Any) -> Any:
        """The value of deepband for one of Optuna's, which may have sampled it from a range with a
        step."""
        if value in self.choices:
            return self.own_choices[self.choices.index(value)]
        near = [each for each in self.own_choices if _is_near(each, value)]
        return near[0] if near else value


def _is_near(one: Any, other: Any) -> bool:
    numbers = all(isinstance(each, int | float) for each in (one, other))
    return numbers and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def _distribution(parameter: Any, listed: Sequence[Any]) -> BaseDistribution:
    from ConfigSpace.hyperparameters import OrdinalHyperparameter
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not listed:
        return _range(parameter)
    step = _step(listed) if isinstance(parameter, OrdinalHyperparameter) else None
    if step is None:
        return CategoricalDistribution(listed)
    if isinstance(listed[0], float):
        return FloatDistribution(listed[0], listed[-1], step=float(step))
    return IntDistribution(listed[0], listed[-1], step=int(step))


def _range(parameter: Any) -> BaseDistribution:
    from ConfigSpace.hyperparameters import IntegerHyperparameter
    from optuna.distributions import FloatDistribution, IntDistribution

    low, high = parameter.lower, parameter.upper
    exact = max(abs(low), abs(high)) <= LARGEST_EXACT
    if isinstance(parameter, IntegerHyperparameter) and exact:
        return IntDistribution(int(low), int(high), log=parameter.log)
    return FloatDistribution(float(low), float(high), log=parameter.log)


def _step(listed: Sequence[Any]) -> Decimal | None:
    """The step of evenly spaced numbers; None for other values."""
    kinds = {type(each) for each in listed}
    if kinds not in ({int}, {float}) or len(listed) < 2:
        return None
    exact = [Decimal(str(each)) for each in listed]
    steps = {after - before for before, after in pairwise(exact)}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else None


def plain_choices(choices: Iterable[Any]) -> list[Any]:
    """Choices that Optuna and JSON can store, all different."""
    found: list[Any] = []
    for number, choice in enumerate(choices):
        plain = choice if _is_plain(choice) else shown(choice, 200)
        found.append(f"{plain} ({number})" if plain in found else plain)
    return found


def _is_plain(choice: Any) -> bool:
    if isinstance(choice, float):
        return math.isfinite(choice)
    return choice is None or isinstance(choice, bool | int | str)
