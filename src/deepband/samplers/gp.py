"""A Gaussian process over (config, rung) with expected improvement.

The process (`gp_regression`) learns from observations of all rungs and predicts losses on the
highest one. Candidates are sampled at random and around the best configs, and a local search
improves on the best of them. The one with the largest expected improvement is proposed. Pending
configs, and those chosen before in the same group, count as if what the process predicts for them
had been observed, so that proposals are spread out; none is proposed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.special import ndtr
from threadpoolctl import ThreadpoolController

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.samplers.gp_regression import Regression, fitted
from deepband.samplers.model_based import is_random
from deepband.samplers.observations import ENOUGH, is_finite
from deepband.samplers.training_data import Inputs, milestone, training_data, training_set
from deepband.space.search_space import Space
from deepband.space.unit_cube import Floats, Points

EVERY = 5
"""One of this many configs is random."""
CAUTION = 2.0
"""Standard deviations are multiplied by this. The process takes its fitted parameters for certain,
and results on high rungs are those of promoted configs, so its predictions are too confident."""
MOST = 200
"""How many observations the process is conditioned on at most."""
MOST_FITTED = 100
"""How many observations its parameters are fitted to at most."""
RANDOM = 500
"""How many candidates for a config are sampled at random."""
NEAR = 500
"""How many candidates for a config are neighbours of the best configs."""
PARENTS = 5
"""How many of the best configs have neighbours."""
WIDTHS = 0.2, 0.1, 0.05, 0.02
"""The standard deviations of steps to neighbours, as shares of the range."""
CHANCE = 0.5
"""The probability that a neighbour differs in a parameter."""
STARTS = 5
"""How many candidates a local search starts from."""
NEIGHBOURS = 20
"""How many neighbours of each it tries per round."""
ROUNDS = 0.1, 0.05, 0.02
"""The standard deviations of steps in the rounds of a local search."""


def propose(
    space: Space,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    indices: Sequence[int],
    random: RandomState,
) -> list[Config | None]:
    points = Points(space)
    wanted = [place for place, index in enumerate(indices) if not is_random(index, EVERY)]
    proposed: list[Config | None] = [None] * len(indices)
    if wanted and not points.is_constant.all() and is_ready(observations):
        # Sums of floats depend on how many threads share them.
        with _libraries().limit(limits=1):
            found = _best(points, observations, pending, len(wanted), random)
            for place, config in zip(wanted, found, strict=True):
                proposed[place] = config
    return proposed


def is_ready(observations: Sequence[Evaluation]) -> bool:
    """Whether there is enough to learn from: seven configs with finite losses above the lowest rung
    or, for studies with a single rung, of a finished run. Inside the first bracket of a study only
    losses on the lowest rung are known, and learning from them alone was worse than chance."""
    last = max((each.run for each in observations), default=0)
    useful = {
        (each.bracket, each.index)
        for each in observations
        if is_finite(each) and (each.rung > 0 or each.run < last)
    }
    return len(useful) >= ENOUGH


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of linear algebra that this module uses."""
    return ThreadpoolController()


def _best(
    points: Points,
    observations: Sequence[Evaluation],
    pending: Sequence[Config],
    count: int,
    random: RandomState,
) -> Iterator[Config | None]:
    """`count` configs, each the best of its own candidates; None if all have been tried."""
    inputs = Inputs(points)
    used = training_set(observations, MOST)
    oldest = training_set(milestone(observations), MOST_FITTED)
    model = Regression(training_data(inputs, used), fitted(training_data(inputs, oldest)))
    search = Search(inputs, observations, used, random)
    for place in points.of(pending):
        model = search.believed(model, place)
    for _ in range(count):
        place = search.best(model)
        if place is None:
            yield None
            continue
        model = search.believed(model, place)
        yield points.configs(place[None, :])[0]


class Search:
    """A search for the point with the largest expected improvement on the highest rung."""

    def __init__(
        self,
        inputs: Inputs,
        observations: Sequence[Evaluation],
        used: Sequence[Evaluation],
        random: RandomState,
    ) -> None:
        """`used` are the observations that the process is conditioned on."""
        self.inputs = inputs
        self.points = inputs.points
        self.random = random
        self.rung = max(each.rung for each in observations if is_finite(each))
        self._known = _places(self.points, used)
        self._taken = set(_keys(_places(self.points, observations)))

    def believed(self, model: Regression, place: Floats) -> Regression:
        """The process as if what it predicts for a point had been observed. The point is not
        proposed again."""
        self._known = np.vstack([self._known, place])
        self._taken.update(_keys(place[None, :]))
        return model.with_one(self.inputs.of(place[None, :])[0], self.rung)

    def best(self, model: Regression) -> Floats | None:
        """The best point that has not been tried, or None if there is none."""
        mean, _ = model.predict(self.inputs.of(self._known), self.rung)
        parents = self._known[np.argsort(mean, kind="stable")[:PARENTS]]
        places, gain = self._scored(model, self._candidates(parents), mean.min())
        for width in ROUNDS:
            order = _descending(gain)[:STARTS]
            around = self._near(np.repeat(places[order], NEIGHBOURS, axis=0), width)
            found, gains = self._scored(model, around, mean.min())
            places = np.concatenate([places, found])
            gain = np.concatenate([gain, gains])
        return self._new(places[_descending(gain)])

    def _candidates(self, parents: Floats) -> Floats:
        anywhere = self.random.uniform(size=(RANDOM, parents.shape[1]))
        around = parents[self.random.randint(len(parents), size=NEAR)]
        parts = np.array_split(around, len(WIDTHS))
        near = [self._near(part, width) for part, width in zip(parts, WIDTHS, strict=True)]
        return np.concatenate([anywhere, *near])

    def _near(self, places: Floats, width: float) -> Floats:
        filled = self.points.filled(places, self.random)
        return self.points.near(filled, width, CHANCE, self.random)

    def _scored(self, model: Regression, candidates: Floats, least: float) -> tuple[Floats, Floats]:
        """Candidates that no clause forbids, rounded, and their expected improvements."""
        places, legal = self.points.settled(candidates)
        places = places[legal]
        mean, spread = model.predict(self.inputs.of(places), self.rung)
        return places, improvement(mean, CAUTION * spread, least)

    def _new(self, places: Floats) -> Floats | None:
        """The first of these points that has not been tried."""
        keys = enumerate(_keys(places))
        number = next((number for number, key in keys if key not in self._taken), None)
        return None if number is None else np.asarray(places[number])


def improvement(mean: Floats, spread: Floats, least: float) -> Floats:
    """The expected improvement of normal variables on a value."""
    ahead = (least - mean) / spread
    density = np.exp(-0.5 * ahead**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(spread * (ahead * ndtr(ahead) + density))


def _descending(gain: Floats) -> NDArray[np.intp]:
    return np.argsort(-gain, kind="stable")


def _places(points: Points, observations: Sequence[Evaluation]) -> Floats:
    """The points of the configs that were observed, each once."""
    configs = {(each.bracket, each.index): each.config for each in observations}
    return points.of(list(configs.values()))


def _keys(places: Floats) -> Iterator[bytes]:
    """Points as bytes, which are equal for equal configs."""
    return (place.tobytes() for place in np.nan_to_num(places, nan=-1.0))
