"""A state as rows and numbers: evaluations, the best of them, runs and the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from deepband.analysis.formatting import table
from deepband.core.costs import counts, paid
from deepband.core.evaluations import count_evaluations
from deepband.core.runs import Run
from deepband.core.schedule import Cell, Schedule, as_number
from deepband.core.state import State


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did: what it evaluated anew and what that cost."""

    run: int
    strategy: str | None
    max_budget: int | float
    evaluations: int
    added: int
    """Results that were taken over from elsewhere; they are not among the evaluations, and cost
    nothing."""
    cost: Fraction
    """Every evaluation at its whole budget."""
    cost_resumed: Fraction
    """As if training always went on from the rung below."""
    trained: Fraction
    """What was really trained: from the checkpoint that each evaluation had, if it had one."""
    seconds: float
    done: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The brackets and rungs of the current run: how many configs run on which budget."""

    schedule: Schedule
    budgets: tuple[int | float, ...]
    configs: int
    evaluations: int
    cost: Fraction
    cost_resumed: Fraction
    slots: Mapping[Cell, int]
    """How many configs are in each (bracket, rung); in a frugal run, where there are any."""

    def sizes(self, bracket: int) -> list[int]:
        """The slots of a bracket on each of its rungs, from its starting rung up."""
        return [self.slots.get((bracket, rung), 0) for rung in self.schedule.rungs(bracket)]

    def __str__(self) -> str:
        rungs = range(self.schedule.top + 1)
        rows = [["rung", *map(str, rungs)], ["budget", *(f"{b:.6g}" for b in self.budgets)]]
        for bracket in self.schedule.brackets:
            sizes = [""] * bracket + [str(size or "") for size in self.sizes(bracket)]
            rows.append([f"bracket {bracket}", *sizes])
        total = (
            f"{self.configs} configs, {self.evaluations} evaluations, cost "
            f"{as_number(self.cost):.10g} ({as_number(self.cost_resumed):.10g} when training "
            "continues from the rung below)"
        )
        return f"{table(rows)}\n{total}"


def plan(state: State) -> Plan:
    run, whole = state.run, state.created.integer_budgets
    return _plan(run.schedule, run.counts(), whole) if run.frugal else plan_of(run.schedule, whole)


def plan_of(schedule: Schedule, whole: bool = False) -> Plan:
    """The plan of a schedule; with `whole`, jobs carry floored budgets."""
    return replace(_plan(schedule, schedule.counts(), whole), configs=schedule.configs)


def _plan(schedule: Schedule, slots: Mapping[Cell, int], whole: bool) -> Plan:
    """That of so many configs in each cell, none of them in two cells."""
    count = sum(slots.values())
    return Plan(
        schedule=schedule,
        budgets=schedule.job_budgets(whole),
        configs=count,
        evaluations=count,
        cost=schedule.cost_of(slots),
        cost_resumed=schedule.cost_resumed_of(slots),
        slots=dict(slots),
    )


def runs(state: State, done: bool) -> tuple[RunSummary, ...]:
    """All runs in order; `done` is whether the last one is."""
    return tuple(_summary(state, run, done or run is not state.run) for run in state.runs)


def _summary(state: State, run: Run, done: bool) -> RunSummary:
    told = list(paid(state, run.number))
    counted = counts(told)
    results = state.results.values()
    everything = sum(each.run == run.number for cell in results for each in cell.values())
    resumed = Counter(each.resumed_from for each in told if each.resumed_from is not None)
    saved = sum(n * run.schedule.budget(rung) for rung, n in resumed.items())
    return RunSummary(
        run=run.number,
        strategy=run.strategy,
        max_budget=as_number(run.schedule.max_budget),
        evaluations=len(told),
        added=everything - len(told),
        cost=run.schedule.cost_of(counted),
        cost_resumed=run.schedule.cost_resumed_of(counted),
        trained=run.schedule.cost_of(counted) - saved,
        seconds=sum(each.seconds or 0.0 for each in told),
        done=done,
    )


@dataclass(frozen=True, slots=True)
class CellStatus:
    """How far a rung of a bracket is in the current run."""

    bracket: int
    rung: int
    budget: int | float
    evaluated: int
    """Of those who arrived in this run: already known, or told by now."""
    slots: int


@dataclass(frozen=True, slots=True)
class Status:
    """Where the current run stands."""

    run: int
    strategy: str | None
    max_budget: int | float
    done: bool
    evaluations: int
    """Of all runs."""
    failed: int
    open: int
    ahead: int
    """How many evaluations of the next deepening are made already."""
    running: int
    spent: Fraction
    """What the current run has cost so far, every evaluation at its whole budget."""
    left: Fraction
    """The least that it will still cost; exact in a first run."""
    seconds: float
    cells: tuple[CellStatus, ...]


def status(state: State, running: int | None = None) -> Status:
    """Where the current run stands; `running` if others know better what is being run."""
    handed_out = sum(len(front.running) for front in state.progress)
    left = _left(state)
    summary = _summary(state, state.run, done=not any(left.values()))
    failed = (told.loss is None for results in state.results.values() for told in results.values())
    return Status(
        run=summary.run,
        strategy=summary.strategy,
        max_budget=summary.max_budget,
        done=summary.done,
        evaluations=count_evaluations(state),
        failed=sum(failed),
        open=sum(front.open for front in state.progress),
        ahead=len(state.ahead.results),
        running=handed_out if running is None else running,
        spent=summary.cost,
        left=cost_left(state),
        seconds=summary.seconds,
        cells=tuple(_cell_status(state, *cell) for cell in state.schedule.cells()),
    )


def _cell_status(state: State, bracket: int, rung: int) -> CellStatus:
    arrived = state.run.arrived.get((bracket, rung), frozenset())
    return CellStatus(
        bracket=bracket,
        rung=rung,
        budget=state.run.budgets[rung],
        evaluated=len(arrived & state.results[bracket, rung].keys()),
        slots=len(arrived) or state.run.slots(bracket, rung),
    )


def grid(status: Status) -> list[list[str]]:
    """How far each rung of each bracket is, as texts: a header, then budgets and brackets. A cell
    that a frugal run does not touch is empty."""
    budgets = {cell.rung: cell.budget for cell in status.cells}
    lines = [["rung", *(str(rung) for rung in budgets)]]
    lines.append(["budget", *(f"{budget:.6g}" for budget in budgets.values())])
    for bracket in budgets:
        cells = [cell for cell in status.cells if cell.bracket == bracket and cell.slots]
        row = {cell.rung: f"{cell.evaluated}/{cell.slots}" for cell in cells}
        lines.append([f"bracket {bracket}", *(row.get(rung, "") for rung in budgets)])
    return lines


def cost_left(state: State) -> Fraction:
    """The least that the current run will still cost, every evaluation at its whole budget."""
    return state.schedule.cost_of(_left(state))


def _left(state: State) -> dict[Cell, int]:
    """The evaluations that the current run still has to make in each cell, at the least."""
    left: dict[Cell, int] = {}
    for bracket, rung in state.schedule.cells():
        front = state.progress[bracket]
        if rung == front.rung:
            left[bracket, rung] = front.open
        elif rung > front.rung:
            known = len(state.results[bracket, rung])
            left[bracket, rung] = max(0, state.schedule.slots(bracket, rung) - known)
    return left
