"""What plots and pages draw: a state as rows. Every face shows these numbers and no others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeGuard

from deepband.core.costs import is_paid
from deepband.core.facts import JobFinished
from deepband.core.schedule import as_number
from deepband.core.state import State
from deepband.errors import read_index
from deepband.space.choices import position

_run, _index = attrgetter("run"), attrgetter("index")

LARGEST = 1e100
WELL_FILLED = 20
"""How many finite losses a rung needs to be judged by."""


@dataclass(frozen=True, slots=True)
class CellRow:
    """A rung of a bracket, over all runs."""

    bracket: int
    rung: int
    budget: int | float
    configs: int
    """Who is or was here in any run, or will be."""
    evaluated: tuple[int, ...]
    """By the run that evaluated them."""
    failed: int
    promoted: int
    """Who went up from here, in any run."""
    open: int
    """Who is here in the current run and not evaluated."""


class Mark(NamedTuple):
    """One config in a cell."""

    index: int  # type: ignore[assignment] # hides the method of tuples, which nobody calls
    run: int | None
    """The run that evaluated it here; None while it is open."""
    loss: float | None
    promoted: bool


def cells(state: State) -> list[CellRow]:
    """Every rung of every bracket on which anybody is, was or will be: all of the current schedule,
    but after a frugal run."""
    found = (_cell(state, bracket, rung) for bracket, rung in state.schedule.cells())
    return [cell for cell in found if cell.configs]


def _cell(state: State, bracket: int, rung: int) -> CellRow:
    results = state.results[bracket, rung]
    arrived = state.run.arrived.get((bracket, rung), frozenset())
    runs = Counter(map(_run, results.values()))
    waiting = len(arrived.difference(results))
    return CellRow(
        bracket=bracket,
        rung=rung,
        budget=state.run.budgets[rung],
        configs=max(len(results) + waiting, state.run.slots(bracket, rung)),
        evaluated=tuple(runs[run.number] for run in state.runs),
        failed=[told.loss for told in results.values()].count(None),
        promoted=len(_above(state, bracket, rung)),
        open=waiting,
    )


def marks(state: State, bracket: int, rung: int) -> list[Mark]:
    """Everyone in a cell, by index."""
    results = state.results[bracket, rung]
    above = _above(state, bracket, rung)
    arrived = state.run.arrived.get((bracket, rung), frozenset())
    found = []
    for index in sorted(arrived.union(results)):
        told = results.get(index)
        run, loss = (None, None) if told is None else (told.run, told.loss)
        found.append(Mark(index, run, loss, index in above))
    return found


def _above(state: State, bracket: int, rung: int) -> frozenset[int]:
    """Who went up from a rung, in any run."""
    above = state.run.arrived.get((bracket, rung + 1), frozenset())
    return above.union(state.results.get((bracket, rung + 1), ()))


class Step(NamedTuple):
    """The best loss so far became smaller."""

    spent: int | float
    """By all runs up to then, every evaluation at its whole budget."""
    spent_resumed: int | float
    """The same, as if training always went on from the rung below."""
    told: JobFinished


class Deepening(NamedTuple):
    """Where a run begins."""

    run: int
    max_budget: int | float
    spent: int | float
    spent_resumed: int | float


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The best loss against what was spent, in the order in which one worker evaluates: the same
    for any number of workers."""

    steps: tuple[Step, ...]
    deepenings: tuple[Deepening, ...]
    spent: int | float
    spent_resumed: int | float


def incumbent(state: State) -> Incumbent:
    """How the best loss became smaller, over all runs."""
    unit, eta = state.schedule.unit, state.schedule.eta
    whole = resumed = 0  # in units
    steps: list[Step] = []
    deepenings: list[Deepening] = []
    least = math.inf

    def spent() -> tuple[int | float, int | float]:
        return as_number(whole * unit), as_number(resumed * unit)

    cells_of_runs = _cells_of_runs(state)
    for run in state.runs:
        if run.number:
            max_budget = as_number(run.schedule.max_budget)
            deepenings.append(Deepening(run.number, max_budget, *spent()))
        for (rung, bracket), told in sorted(cells_of_runs[run.number].items()):
            price = eta**rung
            price_resumed = price - (eta ** (rung - 1) if rung > bracket else 0)
            losses = [each.loss for each in told if each.loss is not None]
            if min(losses, default=math.inf) >= least:  # as in most cells
                paid = sum(map(is_paid, told))
                whole, resumed = whole + paid * price, resumed + paid * price_resumed
                continue
            for each in sorted(told, key=_index):
                if is_paid(each):
                    whole, resumed = whole + price, resumed + price_resumed
                if each.loss is not None and each.loss < least:
                    least = each.loss
                    steps.append(Step(*spent(), each))
    return Incumbent(tuple(steps), tuple(deepenings), *spent())


def _cells_of_runs(state: State) -> list[dict[tuple[int, int], list[JobFinished]]]:
    """What each run evaluated, by (rung, bracket)."""
    found: list[dict[tuple[int, int], list[JobFinished]]] = [{} for _ in state.runs]
    for (bracket, rung), results in state.results.items():
        runs = set(map(_run, results.values()))
        for run in runs:
            told = list(results.values())
            if len(runs) > 1:
                told = [each for each in told if each.run == run]
            found[run][rung, bracket] = told
    return found


class CurveRow(NamedTuple):
    """One config on its way up."""

    bracket: int
    index: int  # type: ignore[assignment] # hides the method of tuples, which nobody calls
    points: tuple[tuple[int | float, float], ...]
    """(budget, loss) of each rung, where it is finite."""
    curve: tuple[tuple[float, float], ...]
    """The (step, loss) that it reported on the way, on all rungs."""
    promoted: bool


def curves(state: State, most: int = 200) -> list[CurveRow]:
    """The configs that went highest, and of those the best, at most so many."""
    found: list[CurveRow] = []
    seen: set[tuple[int, int]] = set()
    for rung in range(state.schedule.top, -1, -1):
        if len(found) >= most:
            break
        told = [
            each
            for bracket in range(rung + 1)
            for each in state.results[bracket, rung].values()
            if (bracket, each.index) not in seen
        ]
        told.sort(key=lambda each: (*_by_loss(each), each.bracket, each.index))
        for each in told[: most - len(found)]:
            seen.add((each.bracket, each.index))
            found.append(_curve(state, each.bracket, each.index, rung))
    return found


def _curve(state: State, bracket: int, index: int, highest: int) -> CurveRow:
    way = [
        state.results[bracket, rung][index]
        for rung in range(bracket, highest + 1)
        if index in state.results[bracket, rung]
    ]
    budgets = state.run.budgets
    return CurveRow(
        bracket,
        index,
        tuple((budgets[told.rung], told.loss) for told in way if is_drawable(told.loss)),
        tuple(point for told in way for point in told.curve or () if is_drawable(point[1])),
        highest > bracket,
    )


def _by_loss(told: JobFinished) -> tuple[bool, float]:
    return (True, 0.0) if told.loss is None else (False, told.loss)


def is_drawable(loss: float | None) -> TypeGuard[float]:
    """Whether it is a loss that can be drawn and reckoned with: neither a failure nor infinite, nor
    as large as what a model that diverges returns."""
    return loss is not None and abs(loss) <= LARGEST


def rung_to_judge(state: State, rung: int | None = None) -> int:
    """A rung that a user gave, or the highest one with enough losses to judge by, or the one with
    the most of them."""
    if rung is not None:
        return read_index("rung", rung, state.schedule.top + 1)
    counts = Counter(
        rung
        for (_, rung), results in state.results.items()
        for told in results.values()
        if is_drawable(told.loss)
    )
    filled = [rung for rung, count in counts.items() if count >= WELL_FILLED]
    return max(filled, default=max(counts, key=lambda rung: (counts[rung], rung), default=0))


def on_rung(state: State, rung: int) -> list[tuple[JobFinished, dict[str, Any]]]:
    """The finite results on a rung with their configs, over all brackets, the best first."""
    told = [
        each
        for bracket in range(rung + 1)
        for each in state.results.get((bracket, rung), {}).values()
        if is_drawable(each.loss)
    ]
    told.sort(key=lambda each: (each.loss, each.bracket, each.index))
    return [(each, state.configs[each.bracket][each.index]) for each in told]


def both_rungs(state: State) -> Iterator[tuple[int, list[tuple[float, float]]]]:
    """For each rung but the top one, the losses there and on the next one of everybody who is on
    both. A failure is infinitely bad."""
    for rung in range(state.schedule.top):
        yield (
            rung,
            [
                (_worst(low[index].loss), _worst(told.loss))
                for bracket in range(rung + 1)
                for low in [state.results[bracket, rung]]
                for index, told in sorted(state.results[bracket, rung + 1].items())
                if index in low
            ],
        )


def _worst(loss: float | None) -> float:
    return math.inf if loss is None else loss


@dataclass(frozen=True, slots=True)
class Axis:
    """A parameter as a line from 0 to 1."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    choices: tuple[Any, ...] | None = None

    def position(self, value: Any) -> float | None:
        """Where a value lies; None for one that is nowhere."""
        if self.choices is not None:
            try:
                return (position(self.choices, value) + 0.5) / len(self.choices)
            except ValueError:
                return None
        scale = math.log if self.log else float
        low, high = scale(self.low), scale(self.high)
        return (scale(value) - low) / (high - low) if high > low else 0.5


def axes(state: State) -> list[Axis]:
    """The parameters of the space."""
    return [_axis(state, parameter) for parameter in state.created.space["hyperparameters"]]


def _seen(state: State, name: str) -> list[Any]:
    return [config[name] for configs in state.configs for config in configs if name in config]


def _axis(state: State, parameter: Mapping[str, Any]) -> Axis:
    name = parameter["name"]
    for key in ("choices", "sequence"):
        if key in parameter:
            return Axis(name, choices=tuple(parameter[key]))
    if "value" in parameter:
        return Axis(name, choices=(parameter["value"],))
    low, high = float(parameter["lower"]), float(parameter["upper"])
    if not math.isfinite(high - low):  # a distribution without bounds
        seen = _seen(state, name)
        low, high = min(seen, default=0.0), max(seen, default=1.0)
    return Axis(name, low, high, bool(parameter.get("log")))
