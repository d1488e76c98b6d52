"""The names of runs, and of the steps that led to them, for every table, plot and page."""

from __future__ import annotations

from typing import TypeAlias

from deepband.core.exact_numbers import as_number
from deepband.core.runs import Run
from deepband.core.schedule import Schedule
from deepband.core.state import State

Size: TypeAlias = tuple[int | float, int, int | None]
"""A max_budget, a width, and the number of brackets that a run is limited to."""

PARTICIPLES = {
    "deepening": "deepened",
    "widening": "widened",
    "extending": "extended",
    "filling": "filled",
}


def size_of(schedule: Schedule) -> Size:
    """What a study can be extended in."""
    return as_number(schedule.max_budget), schedule.width, schedule.bracket_limit


def step_between(old: Size, new: Size) -> str:
    """The kind of extension, in one word. Only a frugal run is followed by one of its own size."""
    deeper, wider, more = (before != after for before, after in zip(old, new, strict=True))
    if more or (deeper and wider):
        return "extending"
    return "deepening" if deeper else "widening" if wider else "filling"


def stop_reason(risk: float) -> str:
    """Why a run was stopped."""
    return f"its rest finds a notably better config with a probability of {risk:.2g}"


def step_to(state: State, run: Run) -> str | None:
    """The kind of extension that a run is; None for the first one."""
    return step_between(*_sizes(state, run)) if run.number else None


def target_of(state: State, run: Run) -> str:
    """What a run after the first grew to: "to 27", "to width 2", "to 27, width 2"."""
    old, new = _sizes(state, run)
    words = "{:.10g}", "width {}", "{} brackets"
    sizes = zip(words, old, new, strict=True)
    grown = [word.format(after) for word, before, after in sizes if before != after]
    return f"to {', '.join(grown)}" if grown else "filled"


def describe_step(state: State, run: Run) -> str:
    """How a run began, such as "widened by efficient to width 2"; empty for the first one."""
    step = step_to(state, run)
    if step is None:
        return ""
    target = f" {target_of(state, run)}" if step != "filling" else ""
    space = ", with another space" if run.change else ""
    return f"{PARTICIPLES[step]} by {run.strategy}{target}{space}"


def size_text(max_budget: int | float, width: int, brackets: int | None) -> str:
    """The size of a run. A width of 1 and all brackets go without saying."""
    parts = [f"max_budget {max_budget:.10g}"]
    parts += [f"width {width}"] if width > 1 else []
    parts += [] if brackets is None else [f"brackets {brackets}"]
    return ", ".join(parts)


def name_of(run: Run) -> str:
    """The name of a run, with its size and strategy."""
    name = f"run {run.number}, {size_text(run.budgets[-1], *size_of(run.schedule)[1:])}"
    return f"{name}, {run.strategy}" if run.strategy else name


def _sizes(state: State, run: Run) -> tuple[Size, Size]:
    """The sizes of the run before and of the run itself."""
    return size_of(state.runs[run.number - 1].schedule), size_of(run.schedule)
