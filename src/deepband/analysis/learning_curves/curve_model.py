"""A model of learning curves: the distribution of a config's loss with a larger budget.

It learns from all finite losses of a study, of all runs, and from reported learning curves. It is a
function of the recorded results alone, and does not depend on the order in which they arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from deepband.analysis.learning_curves.curve_data import Inputs, LossScale, observations, selected
from deepband.analysis.learning_curves.curve_process import Points, conditioned
from deepband.core.evaluations import count_evaluations
from deepband.core.facts import Config, JobFinished
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.errors import NoResultError
from deepband.space.unit_cube import Floats

SMALLEST_SHARE = 1e-12
"""Quantiles of smaller shares are taken to be this one: those of a Student t distribution cannot be
computed for much smaller ones."""
ITERATIONS = 60
"""How often the interval that contains a quantile is halved."""


@dataclass(frozen=True, slots=True)
class LossDistribution:
    """A mixture of Student t distributions on the scale of a study's losses."""

    scale: LossScale
    degrees: float
    weights: Floats
    means: Floats
    spreads: Floats

    def below(self, loss: float) -> float:
        """The probability of a loss of at most this."""
        target = self.scale.targets(np.array([loss], dtype=np.float64))
        return self._below(float(target[0]))

    def quantile(self, share: float) -> float:
        """The loss below which this share of the distribution is, from 0 to 1, both excluded."""
        share = min(max(share, SMALLEST_SHARE), 1.0 - SMALLEST_SHARE)
        ends = self.means + self.spreads * stdtrit(self.degrees, share)
        low, high = float(ends.min()), float(ends.max())
        for _ in range(ITERATIONS):
            middle = 0.5 * (low + high)
            if self._below(middle) < share:
                low = middle
            else:
                high = middle
        return float(self.scale.losses(np.array([high]))[0])

    def _below(self, target: float) -> float:
        return float(self.weights @ stdtr(self.degrees, (target - self.means) / self.spreads))


class CurveModel:
    """What is known about the losses of a study's configs with budgets they have not had.

    It learns from `results`, by default all of the study. If these are very many, it uses some of
    them, always including those of `places`. Raises NoResultError if there is no finite loss.
    """

    def __init__(
        self,
        state: State,
        places: Sequence[Place] = (),
        results: Iterable[JobFinished] | None = None,
    ) -> None:
        found = selected(observations(state, results), places)
        if not found:
            raise NoResultError(count_evaluations(state))
        losses = [each.loss for each in found]
        used = dict.fromkeys([*(each.place for each in found), *places])
        known = None if results is None else [state.config(*place) for place in used]
        self._state = state
        self._inputs = Inputs(state, known)
        self.scale = LossScale(losses)
        points = self._points([(each.place, each.rung) for each in found])
        self._process = conditioned(points, self.scale.observed(np.array(losses)))

    def distribution(self, place: Place, rung: int) -> LossDistribution:
        """The loss of a config on a rung on which it has not been evaluated."""
        return self.distributions([(place, rung)])[0]

    def distributions(self, jobs: Sequence[tuple[Place, int]]) -> list[LossDistribution]:
        """The losses of several configs on rungs, each by itself."""
        predicted = self._process.predict(self._points(jobs))
        weights = np.array([each.weight for each in predicted])
        means = np.array([each.means for each in predicted]).T
        spreads = np.array([each.spreads for each in predicted]).T
        return [
            LossDistribution(self.scale, self._process.degrees, weights, *each)
            for each in zip(means, spreads, strict=True)
        ]

    def samples(self, jobs: Sequence[tuple[Place, int]], count: int) -> Floats:
        """Losses of several configs on rungs, sampled together: one row for each of about `count`
        samples. They are the same whenever the same is asked."""
        return self._samples(self._points(jobs), count)

    def new_samples(self, configs: Sequence[Config], rungs: range, count: int) -> Floats:
        """The same for configs that have not been evaluated, on all of these rungs: an array with
        the axes sample, config and rung."""
        inputs = np.repeat(self._inputs.of(configs), len(rungs), axis=0)
        numbers = -1 - np.repeat(np.arange(len(configs), dtype=np.int64), len(rungs))
        points = Points(inputs, numbers, np.tile(np.array(rungs, dtype=np.float64), len(configs)))
        return self._samples(points, count).reshape(-1, len(configs), len(rungs))

    def _samples(self, points: Points, count: int) -> Floats:
        random, degrees = np.random.default_rng(0), self._process.degrees
        parts = []
        for each in self._process.predict(points):
            normal = random.standard_normal((round(each.weight * count), len(points.rungs)))
            width = np.sqrt(random.chisquare(degrees, size=(len(normal), 1)) / degrees)
            parts.append(each.means + normal @ each.factor.T / width)
        return self.scale.losses(np.concatenate(parts))

    def _points(self, jobs: Sequence[tuple[Place, int]]) -> Points:
        configs = [self._state.config(*place) for place, _ in jobs]
        numbers = [bracket << 32 | index for (bracket, index), _ in jobs]
        rungs = np.array([rung for _, rung in jobs], dtype=np.float64)
        return Points(self._inputs.of(configs), np.array(numbers, dtype=np.int64), rungs)
