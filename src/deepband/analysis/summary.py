"""Summaries of a state: its runs, and the plan and progress of the current one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from deepband.analysis.cells import CellStatus, cells
from deepband.analysis.run_names import step_to
from deepband.analysis.text import duration, html_table, table
from deepband.core import hyperband
from deepband.core.costs import costs, paid
from deepband.core.facts import JobKey
from deepband.core.record_text import record_repr
from deepband.core.runs import Run
from deepband.core.schedule import Cell, Schedule, as_number
from deepband.core.state import State
from deepband.errors import counted
from deepband.space.space_change import differences


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run evaluated, and what that cost."""

    run: int
    strategy: str | None
    step: str | None
    """The kind of extension: deepening, widening, extending or filling; None for the first run."""
    max_budget: int | float
    width: int
    brackets: int | None
    """The number of brackets that the run is limited to; None for all."""
    space_changes: tuple[str, ...]
    """How its search space differs from that of the run before, in words."""
    evaluations: int
    added: int
    """Imported and shared results. They are not counted as evaluations and cost nothing."""
    cost: Fraction
    """Every evaluation at its full budget, or at what it used if it was stopped early."""
    cost_resumed: Fraction
    """The same if training always continued from the rung below."""
    trained: Fraction
    """The budget that was actually trained: from the checkpoint of each evaluation, if it had
    one."""
    seconds: float
    done: bool
    """False for the current run while it is unfinished, and for one that was extended so."""
    skipped: int = 0
    """How many promoted configs were not evaluated (`optimize(skip=)`)."""
    saved: Fraction = Fraction(0)
    """What these evaluations would have cost, each at its full budget, those that were not made
    because the run was stopped, at least, and what training that was stopped early did not use."""
    stopped: float | None = None
    """If it was ended early (`optimize(stop=)`): the probability that the rest of it finds a
    notably better config."""
    stopped_training: int = 0
    """How many evaluations were stopped early (`Context.should_stop`)."""

    __repr__ = record_repr


class RunTable(tuple[RunSummary, ...]):
    """The summaries of all runs: a tuple that is printed as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return table(self._rows())

    def _repr_html_(self) -> str:
        header, *rows = self._rows()
        return html_table("Runs", header, rows)

    def _rows(self) -> list[list[str]]:
        """A header and one row per run. A column that says nothing is left out."""
        header = ["run", "step", "strategy", "max_budget", "width", "brackets", "evaluations"]
        header += [
            "cost",
            "cost resumed",
            "trained",
            "time",
            "skipped",
            "stopped early",
            "saved",
            "",
        ]
        rows = [header, *map(_run_row, self)]
        said = [any(column[1:]) for column in zip(*rows, strict=True)]
        said[4] = any(each.width > 1 for each in self)
        return [[text for text, keep in zip(row, said, strict=True) if keep] for row in rows]


def _run_row(run: RunSummary) -> list[str]:
    costs = [f"{as_number(cost):.10g}" for cost in (run.cost, run.cost_resumed, run.trained)]
    brackets = "" if run.brackets is None else str(run.brackets)
    size = [f"{run.max_budget:.10g}", str(run.width), brackets, str(run.evaluations)]
    state = "" if run.done else "unfinished"
    state = state if run.stopped is None else "stopped"
    step = [run.step or "", run.strategy or ""]
    time = duration(run.seconds) if run.seconds else ""
    omitted = [str(count or "") for count in (run.skipped, run.stopped_training)]
    saved = f"{as_number(run.saved):.10g}" if run.saved else ""
    return [str(run.run), *step, *size, *costs, time, *omitted, saved, state]


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
    less = bool(state.run.skipped) or state.run.stopped is not None or bool(state.stopped)
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


def runs(state: State, done: bool) -> RunTable:
    """The summaries of all runs, in order; `done` says whether the last one is."""
    return RunTable(
        _summary(state, run, done if run is state.run else _ended(run)) for run in state.runs
    )


def _ended(run: Run) -> bool:
    """Whether a run that was extended had been done, or stopped."""
    return not run.left_open or run.stopped is not None


def _summary(state: State, run: Run, done: bool) -> RunSummary:
    evaluations = list(paid(state, run.number))
    everything = sum(each.run == run.number for each in state.all_results())
    cost = costs(run.schedule, evaluations, state.stopped)
    skipped = {cell: len(indices) for cell, indices in run.skipped.items()}
    return RunSummary(
        run=run.number,
        strategy=run.strategy,
        step=step_to(state, run),
        max_budget=as_number(run.schedule.max_budget),
        width=run.schedule.width,
        brackets=run.schedule.bracket_limit,
        space_changes=space_changes(state, run),
        evaluations=len(evaluations),
        added=everything - len(evaluations),
        cost=cost.whole,
        cost_resumed=cost.resumed,
        trained=cost.trained,
        seconds=sum(each.seconds or 0.0 for each in evaluations),
        done=done,
        skipped=sum(skipped.values()),
        saved=cost.unused
        + run.schedule.cost_of(skipped)
        + run.schedule.cost_of(run.unused(state.results)),
        stopped=run.stopped,
        stopped_training=sum(each.stopped_after is not None for each in evaluations),
    )


def space_changes(state: State, run: Run) -> tuple[str, ...]:
    """How the search space of a run differs from that of the run before, in words."""
    if run.change is None:
        return ()
    earlier = [each.change.space for each in state.runs[: run.number] if each.change]
    old = earlier[-1] if earlier else state.created.space
    return tuple(differences(old, run.change.space, run.change.added))


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of the current run."""

    run: int
    strategy: str | None
    step: str | None
    """The kind of extension: deepening, widening, extending or filling; None for the first run."""
    max_budget: int | float
    width: int
    brackets: int | None
    """The number of brackets that the run is limited to; None for all."""
    done: bool
    evaluations: int
    """Of all runs, with imported results."""
    failed: int
    open: int
    ahead: int
    """How many evaluations of the next run exist already."""
    running: int
    spent: Fraction
    """What the current run has cost so far, every evaluation at its full budget, or at what it used
    if it was stopped early."""
    left: Fraction
    """The least that it will still cost; exact in a first run."""
    seconds: float
    cells: tuple[CellStatus, ...]
    stopped: float | None = None
    """If the run was ended early: the probability that the rest of it finds a notably better
    config."""

    @property
    def end(self) -> str:
        """How a run that is done has ended."""
        return "done" if self.stopped is None else "stopped early"


def without_result(state: State, keys: Iterable[JobKey]) -> list[JobKey]:
    """Those of these jobs that have no result yet. Others of their batch may still be running."""
    return [key for key in keys if key[1] not in state.results.get((key[0], key[2]), {})]


def status(state: State, running: int | None = None) -> Status:
    """The progress of the current run. `running` overrides the number of jobs that were handed out,
    for a process that knows how many are really running."""
    run, found = state.run, cells(state)
    own = list(paid(state, run.number))
    if running is None:
        running = sum(len(progress.running) for progress in state.progress)
    return Status(
        run=run.number,
        strategy=run.strategy,
        step=step_to(state, run),
        max_budget=as_number(run.schedule.max_budget),
        width=run.schedule.width,
        brackets=run.schedule.bracket_limit,
        done=hyperband.is_done(state),
        evaluations=sum(sum(cell.by_run) for cell in found),
        failed=sum(cell.failed for cell in found),
        open=hyperband.open_jobs(state),
        ahead=len(state.ahead.results),
        running=running,
        spent=costs(run.schedule, own).whole,
        left=cost_left(state),
        seconds=sum(each.seconds or 0.0 for each in own),
        cells=found,
        stopped=run.stopped,
    )


def grid(status: Status) -> list[list[str]]:
    """The progress of each cell, as text: a header, the budgets, then one row per bracket. Cells
    without slots are empty."""
    budgets = {cell.rung: cell.budget for cell in status.cells}
    lines = [["rung", *(str(rung) for rung in budgets)]]
    lines.append(["budget", *(f"{budget:.6g}" for budget in budgets.values())])
    for bracket in dict.fromkeys(cell.bracket for cell in status.cells):
        cells = [cell for cell in status.cells if cell.bracket == bracket and cell.slots]
        row = {cell.rung: f"{cell.evaluated}/{cell.slots}" for cell in cells}
        lines.append([f"bracket {bracket}", *(row.get(rung, "") for rung in budgets)])
    return lines


def cost_left(state: State) -> Fraction:
    """The least that the current run will still cost, every evaluation at its full budget."""
    return state.schedule.cost_of(slots_left(state))


def slots_left(state: State) -> dict[Cell, int]:
    """How many evaluations the current run still needs in each cell, at least. None if it was
    stopped."""
    left: dict[Cell, int] = {}
    if state.run.stopped is not None:
        return left
    for bracket, rung in state.schedule.cells():
        progress = state.progress[bracket]
        if rung == progress.rung:
            left[bracket, rung] = progress.open
        elif rung > progress.rung:
            evaluated = len(state.results[bracket, rung])
            slots = state.schedule.slots(bracket, rung)
            if state.run.skipped:
                slots = min(slots, _candidates(state, bracket))
            left[bracket, rung] = max(0, slots - evaluated)
    return left


def _candidates(state: State, bracket: int) -> int:
    """How many configs can be promoted from the rung that a bracket is on. After skips, these may
    be fewer than there are slots on the rungs above."""
    cell = bracket, state.progress[bracket].rung
    return len(state.run.arrived[cell].union(state.results[cell]))
