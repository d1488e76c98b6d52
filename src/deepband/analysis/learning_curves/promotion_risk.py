"""How likely it is that a promoted config becomes the best one: what `optimize(skip=)` decides by.

The promotions of a rung are decided together, when the rung below and all earlier brackets are
complete. What they are decided by is fixed then, whatever later brackets have done in the meantime:
the results of earlier runs and, in the current run, those of earlier brackets and those of the same
bracket on the rungs below. So a decision is the same for any number of workers, and after any
interruption.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from deepband.analysis.chart_data import is_drawable
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.core.facts import JobFinished
from deepband.core.state import State
from deepband.core.strategies import EMPTY
from deepband.errors import NoResultError
from deepband.space.unit_cube import Floats

SAMPLES = 4000
"""How many outcomes of the run are sampled for a decision."""


def promotion_risks(state: State, bracket: int) -> dict[int, float]:
    """By index: the probability that a config that was promoted to the rung that a bracket is on,
    and has no result there, becomes the best on the top rung. It competes with the configs that
    were promoted with it, and with those that earlier runs and brackets evaluated on the top rung.
    Empty if there is nothing to predict from."""
    rung = state.progress[bracket].rung
    skipped = state.run.skipped.get((bracket, rung), ())
    promoted = sorted(state.run.arrived[bracket, rung].union(skipped))
    known = list(known_results(state, bracket, rung))
    try:
        chances = _chances(state, bracket, promoted, known)
    except NoResultError:
        return {}
    evaluated = state.results[bracket, rung]
    return {
        index: float(chance)
        for index, chance in zip(promoted, chances, strict=True)
        if index not in evaluated
    }


def known_results(state: State, bracket: int, rung: int) -> Iterator[JobFinished]:
    """The results that are fixed when the first configs arrive on a rung: those of earlier runs, of
    earlier brackets, and of the rungs below."""
    run = state.run
    for (of, on), results in state.results.items():
        indices = run.before.get((of, on), EMPTY)
        if of < bracket or (of == bracket and on < rung):
            indices = indices.union(run.arrived.get((of, on), EMPTY))
        yield from (results[index] for index in indices)


def _chances(state: State, bracket: int, promoted: list[int], known: list[JobFinished]) -> Floats:
    """The probability of each promoted config to be better on the top rung than all others."""
    top = state.schedule.top
    places = [(bracket, index) for index in promoted]
    model = CurveModel(state, places, known)
    losses = model.samples([(place, top) for place in places], SAMPLES)
    on_top = {(each.bracket, each.index): each.number for each in known if each.rung == top}
    for column, place in enumerate(places):
        number = on_top.pop(place, None)
        if number is not None:
            losses[:, column] = number
    best = min(filter(is_drawable, on_top.values()), default=np.inf)
    return np.asarray(np.mean(losses < np.minimum(_best_others(losses), best), axis=0))


def _best_others(losses: Floats) -> Floats:
    """For each sample and config, the smallest loss of the other configs."""
    if losses.shape[1] < 2:
        return np.full_like(losses, np.inf)
    first, second = np.partition(losses, 1, axis=1)[:, :2].T
    return np.asarray(np.where(losses == first[:, None], second[:, None], first[:, None]))
