"""The data of charts: incumbents, learning curves, losses on a rung, and parameter axes. Plots and
pages draw these rows and compute nothing themselves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, TypeGuard

from deepband.analysis.budget_spent import BudgetSpent, cells_in_order, in_order
from deepband.analysis.run_names import target_of
from deepband.core.evaluations import best_first
from deepband.core.facts import Config, JobFinished
from deepband.core.state import State
from deepband.errors import read_index
from deepband.space.choices import position
from deepband.space.space_change import combined

LARGEST = 1e100
"""Losses beyond this are neither drawn nor computed with."""
WELL_FILLED = 20
"""How many finite losses a rung needs to be chosen by default."""


class Step(NamedTuple):
    """A result that improved the best loss so far."""

    spent: int | float
    """The budget spent by all runs until then, as the table of runs counts it."""
    spent_resumed: int | float
    """The same if training always continued from the rung below."""
    result: JobFinished


class Extension(NamedTuple):
    """The start of a run after the first."""

    run: int
    target: str
    """What the run grew to, such as "to 27" or "to width 2"."""
    spent: int | float
    spent_resumed: int | float


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The best loss against the budget spent, in the order in which a single worker evaluates, so
    that it does not depend on the number of workers."""

    steps: tuple[Step, ...]
    extensions: tuple[Extension, ...]
    spent: int | float
    spent_resumed: int | float


def incumbent(state: State) -> Incumbent:
    """How the best loss improved, over all runs."""
    spent, least = BudgetSpent(state), math.inf
    steps: list[Step] = []
    extensions: list[Extension] = []
    for run, cells in zip(state.runs, cells_in_order(state), strict=True):
        if run.number:
            extensions.append(Extension(run.number, target_of(state, run), *spent.totals))
        for results in cells:
            losses = [each.number for each in results if each.number is not None]
            if min(losses, default=math.inf) >= least:  # as in most cells
                spent.add(results)
                continue
            for each in in_order(results):
                spent.add([each])
                loss = each.number
                if loss is not None and loss < least and state.standings.is_feasible(each):
                    least = loss
                    steps.append(Step(*spent.totals, each))
    return Incumbent(tuple(steps), tuple(extensions), *spent.totals)


class CurveRow(NamedTuple):
    """The losses of one config from rung to rung."""

    bracket: int
    index: int  # type: ignore[assignment] # hides a method of tuples that is never called
    points: tuple[tuple[int | float, float], ...]
    """The (budget, loss) on each rung, where the loss is finite."""
    curve: tuple[tuple[float, float], ...]
    """The (step, loss) pairs reported during training, on all rungs."""
    promoted: bool


def curves(state: State, most: int = 200) -> list[CurveRow]:
    """At most `most` configs: those that reached the highest rungs, and of these the best."""
    found: list[CurveRow] = []
    seen: set[tuple[int, int]] = set()
    for rung in range(state.schedule.top, -1, -1):
        if len(found) >= most:
            break
        results = [each for each in _on_rung(state, rung) if (each.bracket, each.index) not in seen]
        for each in best_first(state, results)[: most - len(found)]:
            seen.add((each.bracket, each.index))
            found.append(_curve(state, each.bracket, each.index, rung))
    return found


def _curve(state: State, bracket: int, index: int, highest: int) -> CurveRow:
    results = [
        state.results[bracket, rung][index]
        for rung in range(bracket, highest + 1)
        if index in state.results[bracket, rung]
    ]
    budgets = state.run.budgets
    return CurveRow(
        bracket,
        index,
        tuple((budgets[each.rung], loss) for each in results if is_drawable(loss := each.number)),
        tuple(point for each in results for point in each.curve or () if is_drawable(point[1])),
        highest > bracket,
    )


def _on_rung(state: State, rung: int) -> Iterator[JobFinished]:
    """The results on a rung, over all brackets."""
    for bracket in _brackets_on(state, rung):
        yield from state.results[bracket, rung].values()


def _brackets_on(state: State, rung: int) -> range:
    """The brackets that have a rung."""
    return range(min(rung + 1, len(state.schedule.brackets)))


def is_drawable(loss: float | None) -> TypeGuard[float]:
    """Whether a loss can be drawn and computed with: neither a failure nor infinite, nor as large
    as what a diverging model returns."""
    return loss is not None and abs(loss) <= LARGEST


def has_drawable_loss(result: JobFinished) -> bool:
    """The same for the loss of a result, or for all of its losses."""
    loss = result.loss
    return all(map(is_drawable, loss)) if isinstance(loss, tuple) else is_drawable(loss)


def rung_to_judge(state: State, rung: int | None = None) -> int:
    """The given rung, or by default the highest one with enough losses, or the one with most."""
    if rung is not None:
        return read_index("rung", rung, state.schedule.top + 1)
    counts = Counter(each.rung for each in state.all_results() if has_drawable_loss(each))
    filled = [rung for rung, count in counts.items() if count >= WELL_FILLED]
    return max(filled, default=max(counts, key=lambda rung: (counts[rung], rung), default=0))


def on_rung(state: State, rung: int) -> list[tuple[JobFinished, dict[str, Any]]]:
    """The finite results on a rung with their configs, over all brackets, best first."""
    results = best_first(state, filter(has_drawable_loss, _on_rung(state, rung)))
    return [(each, state.config(each.bracket, each.index)) for each in results]


def both_rungs(state: State) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """For each rung but the top one, the losses there and on the next rung of all configs that are
    on both. A failure counts as infinite. If one number does not order the configs, their positions
    in the order on each rung take the place of losses."""
    for rung in range(state.schedule.top):
        pairs = [
            (low[index], result)
            for bracket in _brackets_on(state, rung)
            for low in [state.results[bracket, rung]]
            for index, result in sorted(state.results[bracket, rung + 1].items())
            if index in low
        ]
        numbers = [_ordering_numbers(state, on_one) for on_one in zip(*pairs, strict=True)]
        yield rung, list(zip(*numbers, strict=True))


def _ordering_numbers(state: State, results: Sequence[JobFinished]) -> list[float]:
    """Numbers that order results on one rung: their losses, or else their positions."""
    if state.criteria.ranks_by_loss:
        return [math.inf if each.number is None else each.number for each in results]
    order = best_first(state, results)
    places = {(each.bracket, each.index): float(number) for number, each in enumerate(order)}
    return [places[each.bracket, each.index] for each in results]


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter as an axis from 0 to 1."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[Any, ...] | None = None

    def position(self, value: Any) -> float | None:
        """Where a value lies on the axis; None if it is not one of the choices."""
        if self.choices is not None:
            try:
                return (position(self.choices, value) + 0.5) / len(self.choices)
            except ValueError:
                return None
        scale = math.log if self.log else float
        low, high = scale(self.low), scale(self.high)
        return (scale(value) - low) / (high - low) if high > low else 0.5


def axes(state: State, known: Iterable[Config] | None = None) -> list[Axis]:
    """The parameters of the space, with all values that any space of the study has. Those of
    `known` configs, by default all, limit the axis of a parameter without bounds."""
    configs = list(_sampled(state) if known is None else known)
    return [_axis(configs, parameter) for parameter in combined(state)["hyperparameters"]]


def current_axes(state: State) -> list[Axis]:
    """The parameters of the space that new configs come from."""
    configs = list(_sampled(state))
    return [_axis(configs, parameter) for parameter in state.space["hyperparameters"]]


def _sampled(state: State) -> Iterator[Config]:
    return chain.from_iterable(state.configs)


def _axis(configs: Sequence[Config], parameter: Mapping[str, Any]) -> Axis:
    name = parameter["name"]
    for key in ("choices", "sequence"):
        if key in parameter:
            return Axis(name, choices=tuple(parameter[key]))
    if "value" in parameter:
        return Axis(name, choices=(parameter["value"],))
    low, high = float(parameter["lower"]), float(parameter["upper"])
    if not math.isfinite(high - low):  # a distribution without bounds
        seen = [each[name] for each in configs if name in each]
        low, high = min(seen, default=0.0), max(seen, default=1.0)
    return Axis(name, low, high, bool(parameter.get("log")))
