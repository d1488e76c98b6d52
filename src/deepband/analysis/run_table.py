"""What each run of a study evaluated, and what that cost: a table with one row per run."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deepband.analysis.run_names import step_to
from deepband.analysis.text import duration, html_table, table
from deepband.core.costs import costs, paid
from deepband.core.exact_numbers import as_number
from deepband.core.record_text import record_repr
from deepband.core.runs import Run
from deepband.core.state import State
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


def run_table(state: State, done: bool) -> RunTable:
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
    cost = costs(run.schedule, evaluations, state.standings.stopped)
    skipped = {cell: len(indices) for cell, indices in run.skipped.items()}
    return RunSummary(
        run=run.number,
        strategy=run.strategy,
        step=step_to(state, run),
        max_budget=as_number(run.schedule.max_budget),
        width=run.schedule.width,
        brackets=run.schedule.bracket_limit,
        space_changes=_space_changes(state, run),
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


def _space_changes(state: State, run: Run) -> tuple[str, ...]:
    """How the search space of a run differs from that of the run before, in words."""
    if run.change is None:
        return ()
    earlier = [each.change.space for each in state.runs[: run.number] if each.change]
    old = earlier[-1] if earlier else state.created.space
    return tuple(differences(old, run.change.space, run.change.added))
