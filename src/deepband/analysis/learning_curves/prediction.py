"""Predicted losses as records that users see, and as the rows of a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deepband.analysis.chart_data import curves
from deepband.analysis.learning_curves.curve_model import CurveModel, LossDistribution
from deepband.core.exact_numbers import Budget, as_number, is_finite, read_budget, read_exactly
from deepband.core.rank_order import Place
from deepband.core.record_text import record_repr
from deepband.core.state import State
from deepband.errors import BudgetError, InputError, SeveralObjectivesError, read_index, shown

SHARE = 0.95
"""The probability of an interval, by default."""
DEVIATION = 0.6826894921370859
"""The probability of the interval of one standard deviation around the mean of a normal
distribution."""
BANDS = 0.5, 0.95
"""The probabilities of the bands in a plot."""


@dataclass(frozen=True, slots=True, repr=False)
class Prediction:
    """The predicted result of a config with a budget, in the user's direction. Printed, it is a
    sentence.

    The prediction is about an evaluation that succeeds: it does not say how likely a failure is.
    """

    bracket: int
    index: int
    rung: int
    """The rung that has the budget. It may be above the current top rung."""
    budget: int | float
    value: float
    """The median of the prediction, or the result if the config was evaluated with the budget."""
    deviation: float
    """Half the width of the interval with 68 % probability: the standard deviation, if the
    prediction were a normal distribution. 0 for a result."""
    evaluated: bool
    """Whether this is a result."""
    maximize: bool = False
    """Whether the larger of two values is better."""
    distribution: LossDistribution | None = field(default=None, repr=False, compare=False)
    """Internal: the distribution of the loss; None for a result."""

    def quantile(self, share: float) -> float:
        """The value that the result is below with this probability, between 0 and 1."""
        share = _read_share(share)
        if self.distribution is None:
            return self.value
        if self.maximize:
            return 0.0 - self.distribution.quantile(1.0 - share)
        return self.distribution.quantile(share)

    def interval(self, share: float = SHARE) -> tuple[float, float]:
        """The central interval that contains the result with this probability, between 0 and 1."""
        half = 0.5 * _read_share(share)
        return self.quantile(0.5 - half), self.quantile(0.5 + half)

    def __str__(self) -> str:
        where = f"bracket {self.bracket}, index {self.index}, budget {self.budget:.10g}"
        if self.distribution is None:
            return f"{where}: {self.value:.6g} (evaluated)"
        low, high = self.interval()
        return f"{where}: {self.value:.4g} (95 %: {low:.4g} to {high:.4g})"

    __repr__ = record_repr


def _read_share(given: float) -> float:
    if not is_finite(given) or not 0 < given < 1:
        raise InputError(f"share is {shown(given)}: give a number between 0 and 1, such as 0.95.")
    return float(given)


def predict(state: State, bracket: int, index: int, budget: Budget | None = None) -> Prediction:
    """The result of a config with a budget, by default the max_budget. Raises an InputError if the
    config is not sampled or failed with this budget, a BudgetError if no rung of its bracket has
    the budget, and NoResultError if the study has no finite loss."""
    check_single_objective(state)
    bracket = read_index("bracket", bracket, len(state.configs))
    count = len(state.configs[bracket])
    if not count:
        raise InputError(f"bracket {bracket} has no config yet: run the study first.")
    index = read_index(f"sampled config in bracket {bracket} with index", index, count)
    return _predicted(state, (bracket, index), _read_rung(state, bracket, budget))


def check_single_objective(state: State) -> None:
    """Raise SeveralObjectivesError unless there is one number to predict."""
    if state.criteria.several:
        raise SeveralObjectivesError(
            state.criteria.names,
            "nothing can be predicted",
            "Predictions are about the learning curve of a single objective.",
        )


def _read_rung(state: State, bracket: int, budget: Budget | None) -> int:
    """The rung of a budget, which may be above the top."""
    schedule = state.schedule
    if budget is None:
        return schedule.top
    carried = [read_exactly(each) for each in state.run.budgets]
    wanted = read_budget("budget", budget)
    rung = carried.index(wanted) if wanted in carried else schedule.rung_of(budget)
    if rung is not None and rung >= bracket:
        return rung
    valid = ", ".join(f"{each:.10g}" for each in state.run.budgets[bracket:])
    why = f"no rung of bracket {bracket} has this budget. Give one of {valid}, or"
    more = as_number(schedule.budget(schedule.top + 1))
    raise BudgetError("budget", budget, f"{why} {more:.10g} and further by factors of eta.")


def _predicted(state: State, place: Place, rung: int) -> Prediction:
    bracket, index = place
    result = state.result(bracket, index, rung)
    if result is not None and result.loss is None:
        raise InputError(
            f"bracket {bracket}, index {index} failed on rung {rung}, so that there is nothing to "
            "predict. See why with `study.failures()`."
        )
    if result is not None and result.number is not None and result.stopped_after is None:
        return _record(state, place, rung, state.criteria.value(result.number), None)
    distribution = CurveModel(state, [place]).distribution(place, rung)
    return _record(
        state, place, rung, state.criteria.value(distribution.quantile(0.5)), distribution
    )


def _record(
    state: State, place: Place, rung: int, value: float, distribution: LossDistribution | None
) -> Prediction:
    deviation = 0.0
    if distribution is not None:
        low, high = (distribution.quantile(0.5 + 0.5 * side * DEVIATION) for side in (-1, 1))
        deviation = 0.5 * (high - low)
    return Prediction(
        *place,
        rung=rung,
        budget=_budget(state, rung),
        value=value,
        deviation=deviation,
        evaluated=distribution is None,
        maximize=state.created.maximize,
        distribution=distribution,
    )


def _budget(state: State, rung: int) -> int | float:
    """The budget of a rung, as jobs have it or would have it."""
    exact = state.schedule.budget(rung)
    return math.floor(exact) if state.created.integer_budgets else as_number(exact)


class BandRow(NamedTuple):
    """The losses of a config and what is predicted for larger budgets, in the user's direction."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    points: tuple[tuple[int | float, float], ...]
    """The (budget, value) on each rung, where the loss is finite."""
    predicted: tuple[Prediction, ...]
    """On the rungs above, up to one above the top rung."""


def bands(state: State, most: int) -> list[BandRow]:
    """At most `most` configs: those that reached the highest rungs, and of these the best."""
    check_single_objective(state)
    rows = [row for row in curves(state, most) if row.points]
    return [_band(state, (row.bracket, row.index), row.points) for row in rows]


def _band(state: State, place: Place, points: Sequence[tuple[int | float, float]]) -> BandRow:
    bracket, index = place
    top = state.schedule.top + 1
    highest = max(r for r in range(bracket, top) if state.result(bracket, index, r) is not None)
    predicted = tuple(_predicted(state, place, rung) for rung in range(highest + 1, top + 1))
    own = tuple((budget, state.criteria.value(loss)) for budget, loss in points)
    return BandRow(bracket, index, own, predicted)
