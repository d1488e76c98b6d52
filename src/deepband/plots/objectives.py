"""Plots of several objectives: fronts, and the hypervolume against the budget spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepband.analysis.fronts import FrontChart, FrontRow, Point, VolumeChart, volume_chart
from deepband.analysis.hypervolume import default_reference
from deepband.analysis.key_figures import reference_text
from deepband.core.state import State
from deepband.plots.lines import draw_stairs
from deepband.plots.style import QUIET, colour, label, new_axes, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_OTHERS = 2000
"""How many evaluations beside the fronts are drawn."""
WIDE = 1000.0
"""Values that span this factor or more have a logarithmic axis."""
TITLES = {"run": "Front after each run", "rung": "Front on each rung"}


def draw_front(chart: FrontChart, by: str, ax: Axes | None) -> Axes:
    """One line per front, over all other evaluations. With three objectives or more, the line is
    left out: it would cross what it does not dominate."""
    ax = new_axes(ax)
    rows = [row for row in chart.rows if row.points]
    if not rows:
        return note(ax, "No evaluation is feasible and has finite results yet.")
    _dots(ax, chart.infeasible, "infeasible", marker="x", s=10, linewidths=0.7)
    _dots(ax, chart.others, "not on a front", s=8)
    for place, row in enumerate(rows):
        _front(ax, chart, row, 8.0 - 4.5 * place / len(rows), place)
    for axis, name, direction in zip("xy", chart.objectives, chart.directions, strict=True):
        better = "larger" if direction == "maximize" else "smaller"
        ax.set(**{f"{axis}label": f"{label(name)} ({better} is better)"})
        _choose_scale(ax, axis, chart, "xy".index(axis))
    ax.set_title(TITLES[by] + (", two of several objectives" if chart.projected else ""))
    ax.legend(fontsize=8)
    return ax


def _front(ax: Axes, chart: FrontChart, row: FrontRow, size: float, place: int) -> None:
    """A front. Later ones have smaller marks, so that they do not hide what did not change."""
    shade = colour(row.number)
    x, y = zip(*row.points, strict=True)
    count = f"{len(row.points):,}"
    style: dict[str, Any] = {"color": shade, "markersize": size, "zorder": 3 + place}
    style |= {"label": f"{row.name} ({count})", "markeredgecolor": "white", "markeredgewidth": 0.5}
    if chart.projected:
        ax.plot(x, y, "o", linestyle="", **style)
        return
    where = "pre" if chart.directions[0] == "maximize" else "post"
    ax.plot(x, y, "o-", drawstyle=f"steps-{where}", linewidth=1.2, **style)


def _dots(ax: Axes, points: Sequence[Point], name: str, **style: Any) -> None:
    if points:
        some = points[:: -(-len(points) // MOST_OTHERS)]
        x, y = zip(*some, strict=True)
        text = f"{name} ({len(points):,})"
        ax.scatter(x, y, color=QUIET, label=text, zorder=2, **style)


def _choose_scale(ax: Axes, axis: str, chart: FrontChart, place: int) -> None:
    drawn = [*chart.others, *chart.infeasible, *(p for row in chart.rows for p in row.points)]
    values = [point[place] for point in drawn]
    if min(values) > 0 and max(values) >= WIDE * min(values):
        ax.set(**{f"{axis}scale": "log"})


def draw_hypervolume(
    studies: Sequence[tuple[str, State]],
    reference: Mapping[str, float] | None,
    ax: Axes | None,
) -> Axes:
    """The hypervolume so far. All studies have the same reference, by default that of the first
    one. Lines and triangles are those of the incumbent."""
    if reference is None:
        reference = default_reference(studies[0][1])
    ax = new_axes(ax)
    if reference is None:
        return note(ax, "No evaluation of the first run is feasible and has finite results yet.")
    for number, (name, state) in enumerate(studies):
        found = volume_chart(state, reference)
        for resumed in (False, True):
            steps, shade = _steps(found, resumed), colour(number)
            draw_stairs(ax, steps, found, resumed, name, shade, names_below=True)
    if not ax.lines:
        return note(ax, "No evaluation is better than the reference in every objective yet.")
    ax.set(xlabel="budget spent by all runs", ylabel="hypervolume (larger is better)")
    ax.set_title(f"Hypervolume against budget spent\nup to {label(reference_text(reference), 80)}")
    ax.legend(fontsize=8)
    return ax


def _steps(found: VolumeChart, resumed: bool) -> list[tuple[float, float]]:
    return [(each.spent_resumed if resumed else each.spent, each.volume) for each in found.steps]
