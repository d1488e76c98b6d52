"""What charts draw of an evaluation: the number that is optimised, or one of its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from deepband.analysis import chart_data
from deepband.analysis.metrics import metric_names, number
from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.errors import InputError, UnknownNameError, shown


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that evaluations of a study have, in the direction of the user."""

    state: State
    metric: str | None = None
    """None for the number that is optimised."""

    @property
    def name(self) -> str:
        """What an axis is called."""
        if self.metric is not None:
            return f"{self.metric}{self._direction}"
        return "value (larger is better)" if self.state.created.maximize else "loss"

    @property
    def _direction(self) -> str:
        """Which values of one of several objectives are better."""
        if not self.state.criteria.several or self.metric not in self.state.criteria.names:
            return ""
        return f" ({'larger' if self.larger_is_better else 'smaller'} is better)"

    @property
    def larger_is_better(self) -> bool:
        """Whether this number is maximised. Nobody knows that of a metric."""
        directions = dict(self.state.criteria.objectives)
        if self.metric is not None:
            return directions.get(self.metric) == "maximize"
        return self.state.created.maximize

    @property
    def short_name(self) -> str:
        """What a sentence calls it."""
        return self.state.criteria.value_name if self.metric is None else self.metric

    def of(self, result: JobFinished) -> float | None:
        """The number of a result; None if it failed, does not have it, or cannot be drawn."""
        if not chart_data.has_drawable_loss(result):
            return None
        if self.metric is None:
            return None if result.number is None else self.state.criteria.value(result.number)
        named = {**(result.metrics or {}), **self.state.criteria.values(result.loss)}
        found = number(named.get(self.metric))
        return found if chart_data.is_drawable(found) else None


def measure(state: State, metric: str | None = None) -> Measure:
    """The measure with the name of a metric. Raises an InputError with the names that exist."""
    objectives = state.criteria.names
    if metric is None:
        return Measure(state, objectives[0] if state.criteria.several else None)
    if metric in objectives:
        return Measure(state, metric)
    names = metric_names(state)
    if metric not in names and _has(state, metric):
        raise InputError(
            f"the metric {shown(metric)} has no finite number in any evaluation, so it cannot be "
            "drawn."
        )
    if not names:
        raise InputError(
            f"there is no metric {shown(metric)}: no evaluation has one. Return a mapping with the "
            f"{state.criteria.value_name} and other numbers, such as "
            f'{{"{state.criteria.value_name}": 0.1, "accuracy": 0.9}}.'
        )
    if metric not in names:
        raise UnknownNameError("metric", metric, names)
    return Measure(state, metric)


def _has(state: State, metric: object) -> bool:
    """Whether any evaluation has a metric of this name, of any type."""
    return any(metric in each.metrics for each in state.all_results() if each.metrics)


def on_rung(chosen: Measure, rung: int) -> list[tuple[float, Config]]:
    """The number and the config of each evaluation on a rung that has it, the best loss first."""
    found = ((chosen.of(each), config) for each, config in chart_data.on_rung(chosen.state, rung))
    return [(number, config) for number, config in found if number is not None]


def curves(chosen: Measure, most: int = 200) -> list[chart_data.CurveRow]:
    """The rows of `chart_data.curves`, with the numbers of a measure instead of losses. What an
    objective reports during training is its loss or value, recorded as it was reported, so there is
    none of a metric."""
    rows = chart_data.curves(chosen.state, most)
    if chosen.metric is not None:
        rows = [row._replace(curve=()) for row in rows]
    return [row._replace(points=_points(chosen, row)) for row in rows]


def _points(chosen: Measure, row: chart_data.CurveRow) -> tuple[tuple[int | float, float], ...]:
    state = chosen.state
    rungs = range(row.bracket, state.schedule.top + 1)
    results = (state.results[row.bracket, rung].get(row.index) for rung in rungs)
    found = ((each.rung, chosen.of(each)) for each in results if each is not None)
    return tuple((state.run.budgets[rung], each) for rung, each in found if each is not None)
