"""Plots of parameters: parallel coordinates, and importance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepband.analysis import chart_data
from deepband.analysis.importance import importance
from deepband.analysis.measures import Measure, on_rung
from deepband.errors import counted
from deepband.plots.style import COLOURS, label, new_axes, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOWHERE = -0.12
"""Where a config lies on the axis of a parameter that it does not have."""
PAPER: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}
"""Behind a text that lines cross."""
MOST_WIDTH = 16.0
"""In inches: in a wider figure, texts are too small for a page."""
MOST_AXES = MOST_SHARES = 20
"""How many parameters a plot shows: with more, nothing can be read."""
MOST_CHOICES = 8
"""With more choices, only the first and the last are labelled."""


def draw_parallel(measure: Measure, ax: Axes | None, rung: int | None, most: int) -> Axes:
    """One line per config across its parameters, coloured by its loss on one rung."""
    state = measure.state
    every = chart_data.axes(state)
    axes = every[:MOST_AXES]
    ax = new_axes(ax, width=min(MOST_WIDTH, max(6.0, 2.0 + 1.4 * len(axes))))
    chosen = chart_data.rung_to_judge(state, rung)
    found = on_rung(measure, chosen)
    if not found:
        name = label(measure.short_name)
        return note(ax, f"No evaluation on this rung has a finite {name} yet.")
    lines = [_line(axes, config) for _, config in found[:most]][::-1]
    _draw_lines(measure, ax, lines, [number for number, _ in found[:most]][::-1])
    _draw_axes(ax, axes, any(y == NOWHERE for line in lines for _, y in line))
    some_of = f"the best {most:,} of {len(found):,}" if len(found) > most else f"{len(found):,}"
    which = _first_of(len(axes), len(every))
    budget = state.run.budgets[chosen]
    ax.set_title(f"Configs on rung {chosen}, budget {budget:.6g} ({some_of}){which}")
    return ax


def _first_of(drawn: int, parameters: int) -> str:
    return f", the first {drawn} of {parameters} parameters" if drawn < parameters else ""


def _line(axes: list[chart_data.Axis], config: dict[str, Any]) -> list[tuple[float, float]]:
    places = (axis.position(config[axis.name]) if axis.name in config else None for axis in axes)
    return [(x, NOWHERE if place is None else place) for x, place in enumerate(places)]


def _draw_lines(
    measure: Measure, ax: Axes, lines: list[list[tuple[float, float]]], numbers: list[float]
) -> None:
    """Draw the lines, the best last and darkest."""
    from matplotlib.collections import LineCollection

    colours = "viridis_r" if measure.larger_is_better else "viridis"
    collection = LineCollection(lines, cmap=colours, linewidths=0.9, alpha=0.75)
    collection.set_array(numbers)
    ax.add_collection(collection)
    if ax.figure is not None:
        ax.figure.colorbar(collection, ax=ax, label=label(measure.name))


def _draw_axes(ax: Axes, axes: list[chart_data.Axis], some_inactive: bool) -> None:
    for x, axis in enumerate(axes):
        ax.axvline(x, color="black", linewidth=0.7, zorder=1)
        for place, text in _ticks(axis):
            ax.text(x + 0.03, place, label(text, 14), fontsize=7, va="center", bbox=PAPER, zorder=5)
    ax.set_xticks(
        range(len(axes)), [label(axis.name, 20) for axis in axes], rotation=20, ha="right"
    )
    ax.set_yticks([NOWHERE] if some_inactive else [], ["inactive"] if some_inactive else [])
    ax.set_xlim(-0.2, len(axes) - 0.5)
    ax.set_ylim(NOWHERE - 0.06 if some_inactive else -0.06, 1.06)
    ax.spines[:].set_visible(False)


def _ticks(axis: chart_data.Axis) -> list[tuple[float, str]]:
    if axis.choices is None:
        middle = (axis.low * axis.high) ** 0.5 if axis.log else (axis.low + axis.high) / 2
        return [(y, f"{v:.3g}") for y, v in ((0.0, axis.low), (0.5, middle), (1.0, axis.high))]
    count = len(axis.choices)
    named = range(count) if count <= MOST_CHOICES else (0, count - 1)
    return [((number + 0.5) / count, str(axis.choices[number])) for number in named]


def draw_importance(measure: Measure, ax: Axes | None, rung: int | None) -> Axes:
    """The share of each parameter in the variance of the loss on one rung."""
    ax, state = new_axes(ax), measure.state
    found = importance(state, rung, measure.metric)
    if not found.shares:
        return note(ax, "The results on this rung do not show which parameters matter.")
    names = list(found.shares)[:MOST_SHARES][::-1]
    shares = [found.shares[name] for name in names]
    ax.barh(range(len(names)), shares, color=COLOURS[0])
    ax.set_yticks(range(len(names)), [label(name) for name in names])
    for y, share in enumerate(shares):
        text = "< 1 %" if share < 0.005 else f"{100 * share:.0f} %"
        ax.text(share, y, f" {text}", va="center", fontsize=8)
    ax.set_xlim(0, max(shares) * 1.15)
    left_out = f"; left out: {', '.join(map(label, found.left_out))}" if found.left_out else ""
    budget, name = state.run.budgets[found.rung], label(measure.short_name)
    some = _first_of(len(names), len(found.shares))
    ax.set_xlabel(f"share in the variance of the {name} (fANOVA{left_out})", wrap=True)
    ax.set_title(
        f"Which parameters matter\nby {counted(found.evaluations, 'config')} on rung {found.rung} "
        f"(budget {budget:.6g}){some}"
    )
    return ax
