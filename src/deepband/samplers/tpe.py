"""Proposals by Optuna's multivariate TPE, fed as BOHB does (Falkner, Klein and Hutter, 2018).

It sees the configs in `observations.pool`, where a config on a higher rung ranks above one on a
lower rung, as Optuna itself ranks pruned trials. Of more than 300 configs (fewer in spaces with
hundreds of parameters) it sees the best 150 and as many of the others, evenly from better to worse.
It receives ranks instead of losses: TPE uses nothing else, and failures and infinite losses are
then simply the last on their rung.

Pending configs and proposals of the same group count as bad (a constant liar), so that they are not
repeated. Conditional parameters are suggested as the conditions say, and Optuna groups those
that occur together. Of priors in the space, only the ranges are used.
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
from deepband.samplers.model_based import is_random
from deepband.samplers.observations import pool
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points

MOST = 300
"""How many observations Optuna sees at most."""
MOST_VALUES = 20_000
"""The most parameters times observations, since the time that Optuna needs grows with both. This
allows 300 observations in spaces of 66 parameters, and 90 in one of 222."""
LEAST = 25
"""How many observations Optuna sees at least, however many parameters there are."""
TRIES = 5
"""How many proposals may be forbidden before a random config is used."""


def propose(
    space: Space,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    indices: Sequence[int],
    random: RandomState,
) -> list[Config | None]:
    points = Points(space)
    ranked = thinned(pool(observations), most_shown(len(points.parameters)))
    if not ranked or points.is_constant.all():
        return [None] * len(indices)
    with quiet_optuna():
        study = _study(points, ranked, int(random.randint(2**31)))
        study.add_trials(_running_trial(points, place) for place in points.of(list(pending)))
        return [None if is_random(index) else _ask(study, points) for index in indices]


def most_shown(parameters: int) -> int:
    """How many observations Optuna sees in a space with this many parameters."""
    return max(LEAST, min(MOST, MOST_VALUES // max(1, parameters)))


def thinned(ranked: Sequence[Evaluation], most: int = MOST) -> Sequence[Evaluation]:
    """At most `most` of them: the best `most // 2`, and others evenly from better to worse."""
    if len(ranked) <= most:
        return ranked
    best, others = ranked[: most // 2], ranked[most // 2 :]
    wanted = np.linspace(0, len(others) - 1, most - len(best)).round().astype(int)
    return [*best, *(others[number] for number in wanted)]


def _study(points: Points, ranked: Sequence[Evaluation], seed: int) -> optuna.Study:
    """An Optuna study with the ranked observations as trials."""
    sampler = TPESampler(
        n_startup_trials=0,
        multivariate=True,
        group=True,
        constant_liar=True,
        seed=seed,
    )
    values = _values(ranked)
    study = optuna.create_study(sampler=sampler, directions=["minimize"] * len(values[0]))
    places = points.of([each.config for each in ranked])
    by_age = sorted(range(len(ranked)), key=lambda rank: _age(ranked[rank]))
    study.add_trials(_trial(points, places[rank], values[rank]) for rank in by_age)
    return study


def _values(ranked: Sequence[Evaluation]) -> list[tuple[float, ...]]:
    """What Optuna minimises: ranks or, with several objectives, vectors in which every result
    dominates those on lower rungs, and all feasible ones dominate the others, which are ranked."""
    count = max(len(each.objectives) for each in ranked)
    if count < 2:
        return [(float(rank),) for rank in range(len(ranked))]
    top = max(each.rung for each in ranked)
    return [
        tuple(2.0 * (top - each.rung) + loss for loss in each.objectives.values())
        or (2.0 * (top + 1) + rank,) * count
        for rank, each in enumerate(ranked)
    ]


def _age(evaluation: Evaluation) -> tuple[int, int, int]:
    """Sorts older evaluations first: Optuna gives the last 25 trials the largest weight."""
    return evaluation.run, evaluation.bracket, evaluation.index


def _trial(points: Points, place: Floats, values: Sequence[float]) -> FrozenTrial:
    active = [
        number
        for number in np.flatnonzero(~np.isnan(place)).tolist()
        if not points.is_constant[number]
    ]
    return create_trial(
        values=list(values),
        params={str(number): _shown(points, number, place[number]) for number in active},
        distributions={str(number): _distribution(points, number) for number in active},
    )


def _running_trial(points: Points, place: Floats) -> FrozenTrial:
    """A pending config."""
    trial = _trial(points, place, [0.0])
    return create_trial(
        state=TrialState.RUNNING, params=trial.params, distributions=trial.distributions
    )


def _ask(study: optuna.Study, points: Points) -> Config | None:
    """One proposal, or None if clauses forbid all that are tried."""
    for _ in range(TRIES):
        trial = study.ask()
        (config,) = points.configs(_suggested(trial, points))
        if config is not None:
            return config
        study.tell(trial, state=TrialState.FAIL)
    return None


def _suggested(trial: Trial, points: Points) -> Floats:
    """A point with suggestions for all parameters that the conditions make active."""
    place = np.full((1, len(points.parameters)), 0.5)
    matrix = points.matrix(place)
    for number in range(len(points.parameters)):  # parents come before their children
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
    """A parameter as an Optuna distribution: positions of choices, or a coordinate of the cube."""
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
def quiet_optuna() -> Iterator[None]:
    """Silence Optuna's messages about an internal study and about experimental features."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
