"""How likely it is that the rest of a run finds a notably better config: what `optimize(stop=)`
decides by.

The probability is that of a config that may still be evaluated in the run, with the budget of the
top rung, and that is better there than the best one by more than a tenth of the unit of losses: the
distance from the best loss of the study to the median. Like decisions about promotions, it depends
only on results that are fixed when a rung is complete and all earlier brackets are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepband.analysis.chart_data import is_drawable
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.analysis.learning_curves.promotion_risk import SAMPLES, known_results
from deepband.core.facts import JobFinished
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.errors import NoResultError

TOLERANCE = 0.1
"""A config is notably better if its loss is smaller by this many units."""
MOST_CANDIDATES = 1000
"""With more configs to come, a run is not stopped: they are sampled together, which takes long."""

MOST_IN_ADVICE = 300
"""With more configs below the top rung, advice does not contain the probability."""


def candidates(state: State, bracket: int) -> list[Place]:
    """The configs that the run may still evaluate on the top rung, if a bracket is the first that
    is not complete."""
    found = [
        (later, index)
        for later in range(bracket, len(state.progress))
        for index in sorted(state.run.arrived[later, state.progress[later].rung])
    ]
    return [place for place in found if state.result(*place, state.schedule.top) is None]


def unfinished_configs(state: State) -> list[Place]:
    """The configs that were evaluated, but not on the top rung."""
    top, results = state.schedule.top, state.all_results()
    places = {(each.bracket, each.index) for each in results}
    return sorted(place for place in places if state.result(*place, top) is None)


def remaining_risk(state: State) -> float | None:
    """The probability that a config of the study that was not evaluated on the top rung is notably
    better there than the best one. None if it is unknown, or takes long to estimate."""
    places = unfinished_configs(state)
    several = state.criteria.several or state.criteria.constraints
    if several or state.standings.rejected or len(places) > MOST_IN_ADVICE:
        return None
    known = list(state.all_results())
    top = state.schedule.top
    if not any(each.rung == top and is_drawable(each.number) for each in known):
        return None
    return chance_of_better(state, places, known)


def stop_risk(state: State, bracket: int, places: Sequence[Place]) -> float:
    """The probability that one of these configs is notably better on the top rung than the best one
    there, from what is known when a bracket has arrived on its rung; 1 if that is unknown. All of
    them must have been sampled."""
    known = list(known_results(state, bracket, state.progress[bracket].rung))
    return chance_of_better(state, places, known)


def chance_of_better(state: State, places: Sequence[Place], known: Sequence[JobFinished]) -> float:
    """The same from these results."""
    top = state.schedule.top
    losses = [each.number for each in known if each.rung == top and each.number is not None]
    best = min(filter(is_drawable, losses), default=None)
    if best is None or len(places) > MOST_CANDIDATES:
        return 1.0
    if not places:
        return 0.0
    try:
        model = CurveModel(state, results=known)
    except NoResultError:  # no loss is finite
        return 1.0
    least = model.samples([(place, top) for place in places], SAMPLES).min(axis=1)
    return float(np.mean(least < best - TOLERANCE * model.scale.unit))
