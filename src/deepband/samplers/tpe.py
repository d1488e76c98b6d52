"""Proposals by Optuna's multivariate TPE, fed as BOHB does (Falkner, Klein and Hutter, 2018).

It is shown every config on its highest rung, as far as rungs tell something; a config on a higher
rung counts as better than one on a lower, as Optuna itself ranks trials that were pruned. Of more
than 300 (fewer in spaces of hundreds of parameters) it sees the best half of 300 and as many of the
others, evenly from the better to the worse. It is told ranks, not losses: TPE looks at nothing
else, and failures and infinite losses are then simply the last on their rung.

What it has proposed in a group counts as bad until the group is evaluated (a constant liar), so
that it does not propose the same again. Parameters that depend on others are asked for as the
conditions say, and Optuna groups those that occur together. Priors of the space count as their
ranges.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from numpy.random import RandomState
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.model_based import is_by_chance
from deepband.samplers.observations import pool
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points

MOST = 300
"""Observations shown, at most."""
MOST_VALUES = 20_000
"""Of all parameters of all observations shown: Optuna's time grows with both. This leaves 300
observations to spaces of 66 parameters, and 90 to one of 222."""
LEAST = 25
"""Observations shown, however many parameters there are."""
TRIES = 5
"""For a config that no clause forbids, before a place is left to chance."""


def propose(
    space: Space, observations: Sequence[Evaluation], indices: Sequence[int], random: RandomState
) -> list[Config | None]:
    points = Points(space)
    ranked = thinned(pool(observations), most_shown(len(points.parameters)))
    if not ranked or points.is_constant.all():
        return [None] * len(indices)
    with _quiet():
        study = _study(points, ranked, int(random.randint(2**31)))
        return [None if is_by_chance(index) else _ask(study, points) for index in indices]


def most_shown(parameters: int) -> int:
    """How many observations are shown of a space with so many parameters."""
    return max(LEAST, min(MOST, MOST_VALUES // max(1, parameters)))


def thinned(ranked: Sequence[Evaluation], most: int = MOST) -> Sequence[Evaluation]:
    """At most so many: the better half, and the others evenly from the better to the worse."""
    if len(ranked) <= most:
        return ranked
    best, others = ranked[: most // 2], ranked[most // 2 :]
    wanted = np.linspace(0, len(others) - 1, most - len(best)).round().astype(int)
    return [*best, *(others[number] for number in wanted)]


def _study(points: Points, ranked: Sequence[Evaluation], seed: int) -> optuna.Study:
    """A study of Optuna's that knows what is ranked."""
    sampler = TPESampler(
        n_startup_trials=0,
        multivariate=True,
        group=True,
        constant_liar=True,
        seed=seed,
    )
    study = optuna.create_study(sampler=sampler)
    places = points.of([each.config for each in ranked])
    by_age = sorted(range(len(ranked)), key=lambda rank: _age(ranked[rank]))
    study.add_trials(_trial(points, places[rank], rank) for rank in by_age)
    return study


def _age(evaluation: Evaluation) -> tuple[int, int, int]:
    """The older come first: to Optuna, many old ones count less than the last 25."""
    return evaluation.run, evaluation.bracket, evaluation.index


def _trial(points: Points, place: Floats, rank: int) -> FrozenTrial:
    active = [
        number
        for number in np.flatnonzero(~np.isnan(place)).tolist()
        if not points.is_constant[number]
    ]
    return create_trial(
        value=float(rank),
        params={str(number): _shown(points, number, place[number]) for number in active},
        distributions={str(number): _distribution(points, number) for number in active},
    )


def _ask(study: optuna.Study, points: Points) -> Config | None:
    """One proposal, or None if clauses forbid what is proposed."""
    for _ in range(TRIES):
        trial = study.ask()
        (config,) = points.configs(_suggested(trial, points))
        if config is not None:
            return config
        study.tell(trial, state=TrialState.FAIL)
    return None


def _suggested(trial: Trial, points: Points) -> Floats:
    """A point whose parameters are asked for as far as the conditions make them active."""
    place = np.full((1, len(points.parameters)), 0.5)
    matrix = points.matrix(place)
    for number in range(len(points.parameters)):  # parents stand before their children
        points.space.settle_row(number, matrix)
        if not (np.isnan(matrix[number, 0]) or points.is_constant[number]):
            value = _suggest(trial, str(number), _distribution(points, number))
            place[0, number] = _place(points, number, value)
            matrix[number] = points.row(number, place[:, number])
    return place


def _suggest(trial: Trial, name: str, wanted: Any) -> float:
    if isinstance(wanted, CategoricalDistribution):
        return float(wanted.choices.index(trial.suggest_categorical(name, wanted.choices)))
    if isinstance(wanted, IntDistribution):
        return float(trial.suggest_int(name, wanted.low, wanted.high))
    return float(trial.suggest_float(name, wanted.low, wanted.high))


def _distribution(points: Points, number: int) -> BaseDistribution:
    """A parameter as Optuna knows it: positions of choices, or a coordinate of the cube."""
    last = int(points.sizes[number]) - 1
    if not points.is_listed[number]:
        return FloatDistribution(0.0, 1.0)
    if points.has_no_order[number]:
        return CategoricalDistribution(range(last + 1))
    return IntDistribution(0, last)


def _shown(points: Points, number: int, place: float) -> float | int:
    return int(place * points.sizes[number]) if points.is_listed[number] else float(place)


def _place(points: Points, number: int, value: float) -> float:
    return (value + 0.5) / float(points.sizes[number]) if points.is_listed[number] else value


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's reports of a study that is nobody's, and of what it calls experimental."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
