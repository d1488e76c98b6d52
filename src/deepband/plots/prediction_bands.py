"""The plot of predicted losses: observed points, and bands for larger budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepband.analysis.learning_curves.prediction import BANDS, BandRow, bands
from deepband.core.state import State
from deepband.plots.style import QUIET, colour, new_axes, note

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(state: State, ax: Axes | None, most: int) -> Axes:
    """A line per config through its losses, with a dashed median and bands above them."""
    ax, rows = new_axes(ax), bands(state, most)
    if not rows:
        return note(ax, f"No evaluation has a finite {state.criteria.value_name} yet.")
    for number, row in enumerate(rows):
        _draw_row(ax, row, colour(number))
    top, eta = float(state.schedule.max_budget), state.schedule.eta
    ax.axvline(top, color=QUIET, linewidth=0.8, linestyle=":")
    ax.set_xscale("log", base=eta)
    ticks = [*state.run.budgets, top * eta]
    ax.set_xticks(ticks, [f"{budget:.6g}" for budget in ticks])
    ax.minorticks_off()
    better = "value (larger is better)" if state.created.maximize else "loss"
    ax.set(xlabel="budget of the evaluation", ylabel=better)
    ax.set_title(
        f"Predicted {state.criteria.value_name} with larger budgets, with 50 and 95 % bands"
    )
    ax.legend(fontsize=8)
    return ax


def _draw_row(ax: Axes, row: BandRow, shade: str) -> None:
    name = f"bracket {row.bracket}, index {row.index}"
    ax.plot(*zip(*row.points, strict=True), "o-", color=shade, markersize=3, label=name)
    if not row.predicted:
        return
    last, budgets = row.points[-1], [each.budget for each in row.predicted]
    x = [last[0], *budgets]
    medians = [last[1], *(each.value for each in row.predicted)]
    ax.plot(x, medians, "--", color=shade, linewidth=1.0)
    for share in BANDS:
        ends = [each.interval(share) for each in row.predicted]
        low, high = zip((last[1], last[1]), *ends, strict=True)
        ax.fill_between(x, low, high, color=shade, alpha=0.12, linewidth=0)
