"""What a deepening would cost, told before anything is spent.

`efficient` fills only the free slots, and how many are free does not depend on any loss: its
price is exact. It is also the least that the other two can cost; the most they can cost is
bounded by the configs that could still arrive on a rung without having been there. Whom `frugal`
sends on is known before it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from deepband.analysis.formatting import html_table
from deepband.core.costs import counts, is_paid, paid
from deepband.core.schedule import Cell, Schedule, as_number
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, StrategyName

OUTSIDE = "outside the paper's guarantees"


@dataclass(frozen=True, slots=True)
class Price:
    """What a deepening costs, between two bounds, beside what else it could be compared with."""

    low: Fraction
    high: Fraction
    spent: Fraction
    """What all runs so far have cost."""
    fresh: Fraction
    """What one fresh run at the new max_budget would cost."""
    scratch: Fraction
    """What a fresh run at each max_budget, those so far and the new one, would cost in all."""

    @property
    def of_fresh(self) -> tuple[float, float]:
        """The price as a share of a fresh run, low and high."""
        return float(self.low / self.fresh), float(self.high / self.fresh)

    @property
    def of_scratch(self) -> tuple[float, float]:
        """All that is spent in the end as a share of all runs from scratch, low and high."""
        low, high = self.spent + self.low, self.spent + self.high
        return float(low / self.scratch), float(high / self.scratch)


@dataclass(frozen=True, slots=True)
class Quote:
    """What deepening with a strategy re-uses, adds and costs. Ranges are (low, high)."""

    strategy: StrategyName
    old_max_budget: int | float
    max_budget: int | float
    configs_reused: int
    configs_new: int
    evaluations_known: int
    """How many evaluations the study has."""
    evaluations_reused: tuple[int, int]
    evaluations_new: tuple[int, int]
    cost: Price
    """Every evaluation pays its whole budget."""
    cost_resumed: Price
    """Training continues from the rung below, and an evaluation pays the difference."""
    retraining: Fraction = Fraction(0)
    """The most that may be trained again because checkpoints were not kept or are gone."""
    fills: bool = False
    """Whether it fills the level of a frugal run, with the same max_budget."""

    @property
    def exact(self) -> bool:
        """Whether the bounds are equal, as they are for `efficient` and `frugal`."""
        return self.cost.low == self.cost.high

    def __str__(self) -> str:
        lines = (f"  {name:12}  {text}" for name, text in self.lines())
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        return html_table(self.title, ("", ""), self.lines())

    @property
    def title(self) -> str:
        """What is quoted, in a line."""
        if self.fills:
            return f"filling {self.strategy!r}, max_budget {self.max_budget:.10g}"
        budgets = f"max_budget {self.old_max_budget:.10g} to {self.max_budget:.10g}"
        mark = f" ({OUTSIDE})" if self.strategy == FRUGAL else ""
        return f"deepening {self.strategy!r}, {budgets}{mark}"

    def lines(self) -> list[tuple[str, str]]:
        """What it re-uses, adds and costs: names and texts."""
        reused = f"{_span(*self.evaluations_reused)} of {self.evaluations_known} evaluations"
        lines = [
            ("re-used", f"{self.configs_reused} configs, {reused}"),
            ("new", f"{self.configs_new} configs, {_span(*self.evaluations_new)} evaluations"),
        ]
        for name, price in (("cost", self.cost), ("cost resumed", self.cost_resumed)):
            alone = f"{_percent(price.of_fresh)} of a fresh run ({_show(price.fresh)})"
            lines.append((name, f"{_span(price.low, price.high)}, {alone}"))
            low, high = price.spent + price.low, price.spent + price.high
            scratch = f"of every run from scratch ({_show(price.scratch)})"
            lines.append(
                ("  in all", f"{_span(low, high)}, {_percent(price.of_scratch)} {scratch}")
            )
        if self.retraining:
            text = f"up to {_show(self.retraining)}, for want of checkpoints"
            lines.append(("retraining", text))
        return lines


def quote(state: State, strategy: StrategyName, schedule: Schedule | None) -> Quote:
    """The price of deepening a finished run to a schedule, which is its own if a frugal run is
    filled; None for what does nothing."""
    if schedule is None:
        return _quote_nothing(state, strategy)
    if strategy == FRUGAL:
        return _quote_frugal(state, schedule)
    known = _told(state) + Counter((bracket, rung) for bracket, _, rung in state.ahead.results)
    least = _least(schedule, known)
    most = least if strategy == "efficient" else _most(schedule, known)
    old_configs = min(schedule.configs, state.full.schedule.configs + len(state.ahead.results))
    return Quote(
        strategy=strategy,
        old_max_budget=as_number(state.schedule.max_budget),
        max_budget=as_number(schedule.max_budget),
        configs_reused=old_configs,
        configs_new=schedule.configs - old_configs,
        evaluations_known=sum(known.values()),
        evaluations_reused=_reused(schedule, known, most, strategy),
        evaluations_new=(sum(least.values()), sum(most.values())),
        cost=_price(state, schedule, least, most, ahead=True, resumed=False),
        cost_resumed=_price(state, schedule, least, most, ahead=True, resumed=True),
        fills=schedule == state.schedule,
    )


def most_of_all_runs(state: State) -> Fraction:
    """The most that all runs up to the current one, done or not, can cost: what was quoted."""
    run = state.run
    known = Counter({cell: len(indices) for cell, indices in run.before.items()})
    known += _given_since(state)
    if run.frugal:
        new: Mapping[Cell, int] = run.counts()
    else:
        new = (_least if run.strategy == "efficient" else _most)(run.schedule, known)
    earlier = counts(told for told in paid(state) if told.run < run.number)
    return run.schedule.cost_of(earlier) + run.schedule.cost_of(new)


def _given_since(state: State) -> Counter[Cell]:
    """The results from elsewhere that the current run found or got on starting rungs."""
    return Counter(
        (bracket, rung)
        for (bracket, rung), results in state.results.items()
        for told in results.values()
        if bracket == rung and told.origin is not None and told.run == state.run.number
    )


def _quote_frugal(state: State, schedule: Schedule) -> Quote:
    """Exact: who goes on is known, and what it is decided by is all that is re-used."""
    order, slots = state.frugal_contest()
    going = Counter((bracket, schedule.top) for bracket, _ in order[:slots])
    top = state.schedule.top
    looked_at = sum(len(state.results[bracket, top]) for bracket in range(top + 1))
    return Quote(
        strategy=FRUGAL,
        old_max_budget=as_number(state.schedule.max_budget),
        max_budget=as_number(schedule.max_budget),
        configs_reused=going.total(),
        configs_new=0,
        evaluations_known=_told(state).total(),
        evaluations_reused=(looked_at, looked_at),
        evaluations_new=(going.total(), going.total()),
        cost=_price(state, schedule, going, going, ahead=False, resumed=False),
        cost_resumed=_price(state, schedule, going, going, ahead=False, resumed=True),
    )


def _quote_nothing(state: State, strategy: StrategyName) -> Quote:
    """Where the study has been: all is re-used, and nothing is new."""
    schedule, known = state.schedule, _told(state).total()
    return Quote(
        strategy=strategy,
        old_max_budget=as_number(schedule.max_budget),
        max_budget=as_number(schedule.max_budget),
        configs_reused=state.full.schedule.configs,
        configs_new=0,
        evaluations_known=known,
        evaluations_reused=(known, known),
        evaluations_new=(0, 0),
        cost=_price(state, schedule, {}, {}, ahead=False, resumed=False),
        cost_resumed=_price(state, schedule, {}, {}, ahead=False, resumed=True),
    )


def _paid(state: State, ahead: bool) -> Counter[Cell]:
    """The evaluations that this study has paid for, in each cell; with `ahead` those ahead of the
    next run, too."""
    return counts(paid(state)) + counts(
        filter(is_paid, state.ahead.results.values() if ahead else ())
    )


def _told(state: State) -> Counter[Cell]:
    return Counter({cell: len(results) for cell, results in state.results.items()})


def _least(schedule: Schedule, known: Mapping[Cell, int]) -> dict[Cell, int]:
    """New evaluations a cell when everyone who was ever on a rung keeps a place there."""
    return {cell: max(0, n - known.get(cell, 0)) for cell, n in schedule.counts().items()}


def _most(schedule: Schedule, known: Mapping[Cell, int]) -> dict[Cell, int]:
    """New evaluations a cell when as many as possible arrive who were never there."""
    most: dict[Cell, int] = {}
    for bracket, rung in schedule.cells():
        slots = schedule.slots(bracket, rung)
        here = known.get((bracket, rung), 0)
        if rung == bracket:
            most[bracket, rung] = slots - here
        else:
            below = known.get((bracket, rung - 1), 0) + most[bracket, rung - 1]
            most[bracket, rung] = min(slots, below - here)
    return most


def _reused(
    schedule: Schedule, known: Mapping[Cell, int], most: Mapping[Cell, int], strategy: str
) -> tuple[int, int]:
    total = sum(known.values())
    if strategy == "efficient" or not any(most.values()):
        return total, total
    slots = schedule.counts()
    return (
        sum(n - most[cell] for cell, n in slots.items()),
        sum(min(n, known.get(cell, 0)) for cell, n in slots.items()),
    )


def _price(
    state: State,
    schedule: Schedule,
    least: Mapping[Cell, int],
    most: Mapping[Cell, int],
    *,
    ahead: bool,
    resumed: bool,
) -> Price:
    def cost(counts: Mapping[Cell, int]) -> Fraction:
        return schedule.cost_resumed_of(counts) if resumed else schedule.cost_of(counts)

    levels = {schedule, *(run.schedule for run in state.runs)}
    return Price(
        low=cost(least),
        high=cost(most),
        spent=cost(_paid(state, ahead)),
        fresh=cost(schedule.counts()),
        scratch=sum((cost(level.counts()) for level in levels), Fraction(0)),
    )


def _span(low: Fraction | int, high: Fraction | int) -> str:
    return _show(low) if low == high else f"{_show(low)} to {_show(high)}"


def _percent(shares: tuple[float, float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in shares)
    return f"{low} %" if low == high else f"{low} to {high} %"


def _show(number: Fraction | int) -> str:
    return f"{as_number(Fraction(number)):.10g}"
