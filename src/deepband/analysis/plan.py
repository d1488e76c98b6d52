"""The plan of a run: how many configs it evaluates with which budget, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from deepband.analysis.text import html_table, table
from deepband.core.exact_numbers import as_number
from deepband.core.record_text import record_repr
from deepband.core.schedule import Cell, Schedule
from deepband.core.state import State
from deepband.errors import counted


@dataclass(frozen=True, slots=True)
class Plan:
    """The brackets and rungs of a run: how many configs run with which budget."""

    schedule: Schedule
    budgets: tuple[int | float, ...]
    configs: int
    evaluations: int
    cost: Fraction
    cost_resumed: Fraction
    slots: Mapping[Cell, int]
    """How many configs are in each (bracket, rung). Cells without configs are left out."""
    at_most: bool = False
    """Whether evaluations and costs are upper bounds, because equal configs share results,
    promotions were skipped, or training or the run was stopped early."""

    def sizes(self, bracket: int) -> list[int]:
        """The slots of a bracket on each of its rungs, from its starting rung up."""
        return [self.slots.get((bracket, rung), 0) for rung in self.schedule.rungs(bracket)]

    __repr__ = record_repr

    def __str__(self) -> str:
        return f"{table(self._table())}\n{self.total}"

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        return html_table(f"Plan: {self.total}", header, rows)

    def _table(self) -> list[list[str]]:
        """The configs on each rung, with a header."""
        rungs = range(self.schedule.top + 1)
        rows = [["rung", *map(str, rungs)], ["budget", *(f"{b:.6g}" for b in self.budgets)]]
        for bracket in self.schedule.brackets:
            sizes = [""] * bracket + [str(size or "") for size in self.sizes(bracket)]
            rows.append([f"bracket {bracket}", *sizes])
        return rows

    @property
    def total(self) -> str:
        """How many configs and evaluations there are, and what they cost, in words."""
        width = f"width {self.schedule.width}: " if self.schedule.width > 1 else ""
        bound = "at most " if self.at_most else ""
        return (
            f"{width}{counted(self.configs, 'config')}, "
            f"{bound}{counted(self.evaluations, 'evaluation')}, cost {bound}"
            f"{as_number(self.cost):,.10g} ({as_number(self.cost_resumed):,.10g} when training "
            "continues from the rung below)"
        )


def plan(state: State) -> Plan:
    """The plan of the current run."""
    planned = _plan(state.schedule, state.run.counts(), state.created.integer_budgets)
    less = bool(state.run.skipped) or state.run.stopped is not None or bool(state.standings.stopped)
    return replace(planned, at_most=state.created.reuse_identical or less)


def plan_of(schedule: Schedule, whole: bool = False) -> Plan:
    """The plan of a full run; with `whole`, the budgets of jobs are rounded down."""
    return _plan(schedule, schedule.counts(), whole)


def _plan(schedule: Schedule, slots: Mapping[Cell, int], whole: bool) -> Plan:
    # No rung has more slots than the one below: all configs of a bracket are in its largest cell.
    largest: Counter[int] = Counter()
    for (bracket, _), count in slots.items():
        largest[bracket] = max(largest[bracket], count)
    return Plan(
        schedule=schedule,
        budgets=schedule.job_budgets(whole),
        configs=largest.total(),
        evaluations=sum(slots.values()),
        cost=schedule.cost_of(slots),
        cost_resumed=schedule.cost_resumed_of(slots),
        slots=dict(slots),
    )
