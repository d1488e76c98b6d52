"""The losses above which a config is hopeless while it is trained: what
`optimize(stop_training=)` decides by.

A config that starts on a higher rung passes the budgets of lower rungs while it is trained. Each of
them has a limit, so that the probability is small that the config exceeds it and still becomes the
best on the top rung. The limits depend only on results that are fixed when a bracket starts: those
of earlier runs and of earlier brackets, which are complete.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deepband.analysis.chart_data import is_drawable
from deepband.analysis.learning_curves.curve_data import curves_are_comparable
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.analysis.learning_curves.promotion_risk import known_results
from deepband.core.facts import JobFinished
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.core.strategies import EMPTY
from deepband.space.unit_cube import Floats

SAMPLES = 8000
"""How many learning curves are sampled for each config."""
MOST_RIVALS = 30
"""How many configs that have not reached the top rung a config is compared with."""


def training_limits(
    state: State, bracket: int, index: int, risk: float
) -> tuple[tuple[float, float], ...]:
    """Budgets of lower rungs, each with the loss above which a config that starts in a bracket is
    hopeless. `risk` is shared by all configs that start there and by all limits: it is the
    probability that any of them exceeds a limit and becomes the best. Empty if there is nothing to
    predict from, or if what is reported during training is not the loss at that budget."""
    fixed = list(known_results(state, bracket, bracket))
    known = [each for each in fixed if is_drawable(each.number)]
    if not bracket or not known or not curves_are_comparable(state, known):
        return ()
    samples = _samples(state, (bracket, index), CurveModel(state, results=fixed), known)
    allowed = int(risk / (_starting(state, bracket) * bracket) * len(samples))
    wins = samples[samples[:, -2] < samples[:, -1]]
    budgets = map(float, state.run.budgets[:bracket])
    return tuple(
        (budget, exceeded_by(wins[:, rung], allowed)) for rung, budget in enumerate(budgets)
    )


def _starting(state: State, bracket: int) -> int:
    """How many configs the current run evaluates on the starting rung of a bracket."""
    old = state.run.before.get((bracket, bracket), EMPTY)
    return max(1, len(state.run.arrived[bracket, bracket].difference(old)))


def _samples(state: State, place: Place, model: CurveModel, known: Sequence[JobFinished]) -> Floats:
    """Samples of a config's losses at the budgets of the rungs below its own, of its loss on the
    top rung and, in the last column, of the best loss of other configs there."""
    top, below = state.schedule.top, place[0]
    on_top = {each[:2]: each.number for each in known if each.rung == top}
    rivals = [each for each in _by_rank(known) if each not in on_top][:MOST_RIVALS]
    jobs = [(place, rung) for rung in (*range(below), top)]
    losses = model.samples(jobs + [(rival, top) for rival in rivals], SAMPLES)
    own, others = losses[:, : below + 1], losses[:, below + 1 :]
    best = min((each for each in on_top.values() if each is not None), default=math.inf)
    return np.column_stack([own, others.min(axis=1, initial=best)])


def _by_rank(known: Sequence[JobFinished]) -> list[Place]:
    """The configs of results, those on the highest rungs first, and of these the best."""
    highest: dict[Place, tuple[int, float]] = {}
    for each in known:
        found = -each.rung, each.number or 0.0
        highest[each[:2]] = min(found, highest.get(each[:2], found))
    return sorted(highest, key=lambda place: (highest[place], place))


def exceeded_by(losses: Floats, count: int) -> float:
    """The smallest loss that at most this many exceed."""
    return float(np.sort(losses)[-1 - count]) if len(losses) > count else -math.inf
