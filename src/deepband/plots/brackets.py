"""The plot of brackets and rungs: which configs were evaluated where, in which run, and which were
promoted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from deepband.analysis.cells import CellStatus, Mark, marks, occupied_cells
from deepband.analysis.run_names import name_of
from deepband.core.state import State
from deepband.plots.style import BAD, DARK, QUIET, colour, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOTS = 100
"""A cell with more configs is drawn as a bar."""
SIZE = 0.78
"""The width and height of a cell, where 1 is the distance of two cells."""
Places = dict[int, tuple[float, float]]


def draw(state: State, ax: Axes | None) -> Axes:
    """Columns are rungs and rows are brackets. A dot is a config, coloured by the run that
    evaluated it there, and a line is a promotion. The best configs of a cell are on its right."""
    rungs, rows = state.schedule.top + 1, len(state.schedule.brackets) + _legend_rows(state)
    ax = new_axes(ax, width=2.0 + 1.7 * rungs, height=1.6 + 1.2 * rows)
    cells = {(cell.bracket, cell.rung): cell for cell in occupied_cells(state)}
    dots = {key: _dots(state, ax, cell) for key, cell in cells.items() if cell.configs <= MOST_DOTS}
    for key, cell in cells.items():
        if key not in dots:
            _bar(ax, cell)
        _frame(ax, cell)
        _promotions(ax, cell, dots.get(key), dots.get((cell.bracket, cell.rung + 1)))
    _describe(state, ax, list(cells.values()))
    return ax


def _dots(state: State, ax: Axes, cell: CellStatus) -> Places:
    """Draw one dot per config, and return where each is."""
    found = sorted(marks(state, cell.bracket, cell.rung), key=_rank)
    places = {mark.index: _place(cell, number, cell.configs) for number, mark in enumerate(found)}
    size = min(40.0, 900.0 / cell.configs)
    failed = [mark for mark in found if mark.failed]
    for run in [None, *(run.number for run in state.runs)]:
        good = [mark for mark in found if mark.run == run and not mark.failed]
        if good:
            x, y = zip(*(places[mark.index] for mark in good), strict=True)
            face = "none" if run is None else colour(run)
            edge = QUIET if run is None else colour(run)
            ax.scatter(x, y, s=size, facecolors=face, edgecolors=edge, linewidths=0.8, zorder=3)
    if failed:
        x, y = zip(*(places[mark.index] for mark in failed), strict=True)
        ax.scatter(x, y, s=size, marker="x", color=BAD, linewidths=1, zorder=3)
    return places


def _rank(mark: Mark) -> tuple[bool, bool, int, int]:
    """The best first, then failures, then configs without a result."""
    return mark.run is None, mark.failed, mark.rank, mark.index


def _place(cell: CellStatus, number: int, count: int) -> tuple[float, float]:
    """Where a config lies in its cell: in columns from right to left, each from top to bottom."""
    high = max(1, round(math.sqrt(count)))
    column, row = divmod(number, high)
    columns = math.ceil(count / high)
    x = cell.rung + SIZE / 2 - SIZE * (column + 0.5) / columns
    return x, cell.bracket - SIZE / 2 + SIZE * (row + 0.5) / high


def _bar(ax: Axes, cell: CellStatus) -> None:
    """A cell with many configs, as a stacked bar with one colour per run."""
    left = cell.rung - SIZE / 2
    for run, count in enumerate(cell.by_run):
        width = SIZE * count / cell.configs
        ax.barh(cell.bracket, width, SIZE, left, color=colour(run), alpha=0.75, zorder=2)
        left += width
    ax.text(cell.rung, cell.bracket, f"{sum(cell.by_run):,}", ha="center", va="center", zorder=4)


def _frame(ax: Axes, cell: CellStatus) -> None:
    from matplotlib.patches import Rectangle

    corner = cell.rung - SIZE / 2, cell.bracket - SIZE / 2
    frame = Rectangle(corner, SIZE, SIZE, fill=False, edgecolor=QUIET, linewidth=0.6, zorder=1)
    ax.add_patch(frame)


def _promotions(ax: Axes, cell: CellStatus, places: Places | None, above: Places | None) -> None:
    """One line per promotion; between cells drawn as bars, one line with their number."""
    from matplotlib.collections import LineCollection

    if places and above:
        lines = [(places[index], above[index]) for index in above if index in places]
        ax.add_collection(LineCollection(lines, colors=DARK, linewidths=0.5, alpha=0.5, zorder=2))
    elif cell.promoted:
        x = cell.rung + SIZE / 2, cell.rung + 1 - SIZE / 2
        ax.plot(x, (cell.bracket, cell.bracket), color=DARK, linewidth=1.5)
        ax.text(sum(x) / 2, cell.bracket - 0.06, f"{cell.promoted:,}", ha="center", fontsize=7)


def _legend_rows(state: State) -> float:
    """How much room the legend needs below the brackets, in rows. The legend lies below the
    diagonal, where there are no cells, but a study with few brackets has no room there."""
    limited = len(state.schedule.brackets) <= state.schedule.top
    return 0.15 * (len(state.runs) + 3) if limited else 0.0


def _describe(state: State, ax: Axes, cells: list[CellStatus]) -> None:
    """Ticks, title and legend."""
    from matplotlib.lines import Line2D

    rungs, brackets = range(state.schedule.top + 1), state.schedule.brackets
    ax.set_xticks(rungs, [f"rung {r}\nbudget {state.run.budgets[r]:.6g}" for r in rungs])
    ax.set_yticks(brackets, [f"bracket {bracket}" for bracket in brackets])
    ax.set_xlim(-0.5, len(rungs) - 0.5)
    ax.set_ylim(len(brackets) - 0.5 + _legend_rows(state), -0.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(f"Brackets and rungs: {name_of(state.run)}")
    dot: dict[str, Any] = {"marker": "o", "linestyle": ""}
    handles = [Line2D([], [], color=colour(run.number), **dot) for run in state.runs]
    names = [f"evaluated in {name_of(run)}" for run in state.runs]
    if any(cell.open for cell in cells):
        handles.append(Line2D([], [], color=QUIET, markerfacecolor="none", **dot))
        names.append("open")
    if any(cell.failed for cell in cells):
        handles.append(Line2D([], [], color=BAD, marker="x", linestyle=""))
        names.append("failed")
    if any(cell.promoted for cell in cells):
        handles.append(Line2D([], [], color=DARK, linewidth=0.8))
        names.append("promoted")
    ax.legend(handles, names, loc="lower left", fontsize=8, frameon=False)
