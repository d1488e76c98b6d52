"""Plots of losses against budgets: learning curves, the incumbent, and rank agreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepband.analysis import chart_data
from deepband.analysis.rank_agreement import agreements
from deepband.analysis.run_names import name_of
from deepband.core.evaluations import best_evaluation
from deepband.core.state import State
from deepband.plots.style import (
    COLOURS,
    DARK,
    QUIET,
    colour,
    label,
    loss_name,
    new_axes,
    note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Point = tuple[float, float]


def draw_curves(state: State, ax: Axes | None, most: int) -> Axes:
    """One line per config through its losses on the rungs, over those reported during training."""
    ax = new_axes(ax)
    found = [row for row in chart_data.curves(state, most) if row.points]
    if not found:
        return note(ax, "No evaluation has a finite loss yet.")
    from matplotlib.collections import LineCollection

    for promoted, shade, name in ((False, QUIET, "not promoted"), (True, COLOURS[0], "promoted")):
        some = [row for row in found if row.promoted == promoted]
        reported = [_signed(state, row.curve) for row in some if len(row.curve) > 1]
        between_rungs = [_signed(state, row.points) for row in some]
        ax.add_collection(LineCollection(reported, colors=shade, linewidths=0.5, alpha=0.5))
        ax.add_collection(LineCollection(between_rungs, colors=shade, linewidths=0.9, alpha=0.8))
        if some:
            x, y = zip(*(point for line in between_rungs for point in line), strict=True)
            ax.plot(x, y, "o", color=shade, markersize=3, label=f"{name} ({len(some):,})")
    _label_best(state, ax)
    configs = sum(len(state.results[b, b]) for b in state.schedule.brackets)
    fewer = f", the {most:,} of {configs:,} on the highest rungs"
    ax.set_xscale("log", base=state.schedule.eta)
    budgets = state.run.budgets
    ax.set_xticks(budgets, [f"{budget:.6g}" for budget in budgets])
    ax.minorticks_off()
    ax.set(xlabel="budget of the evaluation", ylabel=loss_name(state))
    ax.set_title(f"Losses from rung to rung{fewer if most < configs else ''}")
    ax.legend(fontsize=8)
    return ax


def _label_best(state: State, ax: Axes) -> None:
    best = best_evaluation(state)
    if best is not None and best.value is not None and chart_data.is_drawable(best.loss):
        name = f"best on any budget (bracket {best.bracket}, index {best.index})"
        style: dict[str, Any] = {"color": COLOURS[1], "markersize": 12, "zorder": 4}
        ax.plot([best.budget], [best.value], "*", label=name, **style)


def _signed(state: State, points: Sequence[Point]) -> list[Point]:
    return [(step, state.value(loss)) for step, loss in points]


def draw_incumbent(studies: Sequence[tuple[str, State]], ax: Axes | None) -> Axes:
    """The best loss on any budget so far. The line is solid if every evaluation counts its full
    budget, and dashed if training continues from the rung below. Triangles are later runs."""
    ax = new_axes(ax)
    for number, (name, state) in enumerate(studies):
        found = chart_data.incumbent(state)
        for resumed in (False, True):
            _stairs(ax, state, found, resumed, name, colour(number))
    if not ax.lines:
        return note(ax, "No evaluation has a finite loss yet.")
    ax.set(
        xlabel="budget spent by all runs",
        ylabel=f"{loss_name(studies[0][1])}, best on any budget",
    )
    ax.set_title("Incumbent against budget spent")
    ax.legend(fontsize=8)
    return ax


def _stairs(
    ax: Axes, state: State, found: chart_data.Incumbent, resumed: bool, name: str, shade: str
) -> None:
    steps = [
        (step.spent_resumed if resumed else step.spent, state.value(step.result.loss))
        for step in found.steps
        if chart_data.is_drawable(step.result.loss)
    ]
    if not steps:
        return
    x = [spent for spent, _ in steps] + [found.spent_resumed if resumed else found.spent]
    y = [loss for _, loss in steps] + [steps[-1][1]]
    how = "training resumed" if resumed else "full budgets"
    style, width = ("--", 1.0) if resumed else ("-", 1.6)
    text = label(f"{name}: {how}", 60)
    ax.step(x, y, where="post", color=shade, linestyle=style, linewidth=width, label=text)
    for number, extension in enumerate(found.extensions):
        spent = extension.spent_resumed if resumed else extension.spent
        best = next((loss for at, loss in zip(x[::-1], y[::-1], strict=True) if at <= spent), y[0])
        ax.plot([spent], [best], "v", color=shade, markersize=7)
        if not resumed:
            ax.annotate(
                extension.target,
                (spent, best),
                textcoords="offset points",
                xytext=(4, 6 + 10 * (number % 3)),  # labels of neighbours do not overlap
                fontsize=8,
                color=shade,
            )


def draw_stability(state: State, ax: Axes | None) -> Axes:
    """Kendall's tau between neighbouring rungs, over the configs on both."""
    ax = new_axes(ax, height=3.5)
    found = agreements(state)
    known = [(number, each.tau) for number, each in enumerate(found) if each.tau is not None]
    if not known:
        return note(ax, "There are no two rungs to compare yet, or all losses on them are equal.")
    x, tau = zip(*known, strict=True)
    ax.bar(x, tau, width=0.5, color=COLOURS[0])
    for number, each in enumerate(found):
        at = max(each.tau or 0.0, 0.0)
        text = f"{each.tau:.2f}" if each.tau is not None else "unknown"
        ax.text(number, at + 0.02, text, ha="center", fontsize=9)
    ax.axhline(0, color=DARK, linewidth=0.8)
    names = [
        f"{each.budgets[0]:.6g} → {each.budgets[1]:.6g}\n{each.configs:,} configs" for each in found
    ]
    ax.set_xticks(range(len(found)), names)
    ax.set_xlim(-0.5, len(found) - 0.5)
    ax.set_ylim(min(-0.1, *tau) - 0.1, 1.15)
    ax.set(xlabel="from budget to budget", ylabel="Kendall's tau")
    ax.set_title(f"Do low budgets predict high ones?\n{name_of(state.run)}")
    return ax
