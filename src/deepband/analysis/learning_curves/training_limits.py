"""The losses above which a config is hopeless while it is trained: what
`optimize(stop_training=)` decides by.

A config that starts on a higher rung passes the budgets of lower rungs while it is trained. Each of
them has a limit, which is the same for all configs that start in a bracket. The model of learning
curves simulates the bracket many times, with its promotions. The limits are such that the config
that becomes the best of the study exceeds one of them in few of the simulations.

They depend only on results that are fixed when a bracket starts: those of earlier runs and of
earlier brackets, which are complete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from deepband.analysis.chart_data import is_drawable
from deepband.analysis.learning_curves.curve_data import curves_are_comparable
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.analysis.learning_curves.promotion_risk import known_results
from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.core.strategies import EMPTY
from deepband.space.unit_cube import Floats

Sample: TypeAlias = Callable[[State, int, Sequence[int]], Sequence[Config]]
"""Random configs for a bracket and indices."""
SAMPLES = 4000
"""How often a bracket is simulated."""
MOST_CONFIGS = 100
"""How many of its configs are simulated at most. The slots of the rungs are then as many fewer."""


def can_predict(state: State, bracket: int) -> bool:
    """Whether there are limits in a bracket: not in the first one, which is trained budget by
    budget; not if no loss is known; and not if what objectives report during training is not the
    loss that an evaluation with that budget returns."""
    fixed = list(known_results(state, bracket, bracket))
    return bracket > 0 and bool(_finite(fixed)) and curves_are_comparable(state, fixed)


def training_limits(
    state: State, bracket: int, risk: float, sample: Sample
) -> tuple[tuple[float, float], ...]:
    """Budgets of lower rungs, each with the loss above which a config that starts in a bracket is
    hopeless. `risk` is the probability that a config exceeds one of them, and without them would
    become the best on the top rung, of those there before and those of the bracket.

    Random configs represent those of the bracket: which ones a sampler that learns has chosen when
    the first of them starts may depend on the number of workers."""
    starting = _starting(state, bracket)
    if not starting or not can_predict(state, bracket):
        return ()
    fixed, top = list(known_results(state, bracket, bracket)), state.schedule.top
    configs = sample(state, bracket, starting[:MOST_CONFIGS])
    losses = CurveModel(state, results=fixed).new_samples(configs, range(top + 1), SAMPLES)
    arrived = _arrived(state, bracket, losses, len(configs) / len(starting))
    on_top = [each.number for each in _finite(fixed) if each.rung == top]
    best = min((loss for loss in on_top if loss is not None), default=math.inf)
    wins = _winners(losses, arrived, best)
    return _limits(wins, state.run.budgets[:bracket], int(risk / bracket * len(losses)))


def _finite(results: Sequence[JobFinished]) -> list[JobFinished]:
    return [each for each in results if is_drawable(each.number)]


def _starting(state: State, bracket: int) -> list[int]:
    """The configs that the current run evaluates on the starting rung of a bracket."""
    old = state.run.before.get((bracket, bracket), EMPTY)
    return sorted(state.run.arrived[bracket, bracket].difference(old))


def _arrived(state: State, bracket: int, losses: Floats, share: float) -> Floats:
    """Whether each config arrives on the top rung, by simulation. Slots that were taken before the
    current run are not free."""
    arrived = np.ones(losses.shape[:2], dtype=bool)
    for rung in range(bracket, state.schedule.top):
        taken = len(state.run.before.get((bracket, rung + 1), EMPTY))
        slots = math.ceil(share * max(1, state.schedule.slots(bracket, rung + 1) - taken))
        if slots < losses.shape[1]:
            here = np.where(arrived, losses[:, :, rung], math.inf)
            worst = np.partition(here, slots - 1, axis=1)[:, slots - 1 : slots]
            arrived &= here <= worst
    return arrived


def _winners(losses: Floats, arrived: Floats, best: float) -> Floats:
    """The losses, by rung, of the config that becomes the best, in each simulation in which one
    does."""
    final = np.where(arrived, losses[:, :, -1], math.inf)
    rows, winner = np.arange(len(losses)), np.argmin(final, axis=1)
    return np.asarray(losses[rows, winner][final[rows, winner] < best])


def _limits(
    wins: Floats, budgets: Sequence[float], allowed: int
) -> tuple[tuple[float, float], ...]:
    """For each budget, the smallest loss that at most this many of the configs exceed that were not
    stopped before."""
    found: list[tuple[float, float]] = []
    for rung, budget in enumerate(budgets):
        in_order = np.sort(wins[:, rung])
        limit = float(in_order[-1 - allowed]) if len(wins) > allowed else -math.inf
        found.append((float(budget), limit))
        wins = wins[wins[:, rung] <= limit]
    return tuple(found)
