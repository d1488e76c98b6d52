"""Plots of losses against budgets: learning curves, the incumbent, and rank agreement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from deepband.analysis import chart_data
from deepband.analysis.measures import Measure, curves
from deepband.analysis.rank_agreement import agreements
from deepband.analysis.run_names import name_of
from deepband.core.evaluations import best_result
from deepband.core.state import State
from deepband.errors import SeveralObjectivesError
from deepband.plots.style import (
    COLOURS,
    DARK,
    QUIET,
    colour,
    label,
    new_axes,
    note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Spending(Protocol):
    """Where runs after the first began, and what all runs cost."""

    @property
    def extensions(self) -> tuple[chart_data.Extension, ...]: ...
    @property
    def spent(self) -> int | float: ...
    @property
    def spent_resumed(self) -> int | float: ...


def draw_curves(measure: Measure, ax: Axes | None, most: int) -> Axes:
    """One line per config through its losses on the rungs, over those reported during training."""
    ax, state = new_axes(ax), measure.state
    found = [row for row in curves(measure, most) if row.points]
    if not found:
        return note(ax, f"No evaluation has a finite {label(measure.short_name)} yet.")
    from matplotlib.collections import LineCollection

    for promoted, shade, name in ((False, QUIET, "not promoted"), (True, COLOURS[0], "promoted")):
        some = [row for row in found if row.promoted == promoted]
        reported = [row.curve for row in some if len(row.curve) > 1]
        between_rungs = [row.points for row in some]
        ax.add_collection(LineCollection(reported, colors=shade, linewidths=0.5, alpha=0.5))
        ax.add_collection(LineCollection(between_rungs, colors=shade, linewidths=0.9, alpha=0.8))
        if some:
            x, y = zip(*(point for line in between_rungs for point in line), strict=True)
            ax.plot(x, y, "o", color=shade, markersize=3, label=f"{name} ({len(some):,})")
    _label_best(measure, ax)
    configs = sum(len(state.results[b, b]) for b in state.schedule.brackets)
    fewer = f", the {most:,} of {configs:,} on the highest rungs"
    ax.set_xscale("log", base=state.schedule.eta)
    budgets = state.run.budgets
    ax.set_xticks(budgets, [f"{budget:.6g}" for budget in budgets])
    ax.minorticks_off()
    ax.set(xlabel="budget of the evaluation", ylabel=label(measure.name))
    ax.set_title(f"{_plural(measure)} from rung to rung{fewer if most < configs else ''}")
    ax.legend(fontsize=8)
    return ax


def _plural(measure: Measure) -> str:
    """What is drawn, at the start of a title."""
    if measure.metric is None:
        return "Values" if measure.state.created.maximize else "Losses"
    return label(measure.metric)


def _label_best(measure: Measure, ax: Axes) -> None:
    best = best_result(measure.state)
    found = None if best is None else measure.of(best)
    if best is not None and found is not None:
        name = f"best on any budget (bracket {best.bracket}, index {best.index})"
        style: dict[str, Any] = {"color": COLOURS[1], "markersize": 12, "zorder": 4}
        ax.plot([measure.state.run.budgets[best.rung]], [found], "*", label=name, **style)


def draw_incumbent(studies: Sequence[tuple[str, Measure]], ax: Axes | None) -> Axes:
    """The best loss on any budget so far, or a metric of that evaluation. The line is solid if
    every evaluation counts its full budget, and dashed if training continues from the rung below.
    Triangles are later runs."""
    for _, measure in studies:
        _check_single(measure.state)
    ax, first = new_axes(ax), studies[0][1]
    for number, (name, measure) in enumerate(studies):
        found = chart_data.incumbent(measure.state)
        for resumed in (False, True):
            _stairs(ax, measure, found, resumed, name, colour(number))
    if not ax.lines:
        return note(ax, f"No evaluation has a finite {label(first.short_name)} yet.")
    metric = first.metric is not None
    of_best = (
        f"of the best {first.state.criteria.value_name} so far" if metric else "best on any budget"
    )
    ax.set(xlabel="budget spent by all runs", ylabel=f"{label(first.name)}, {of_best}")
    ax.set_title("Incumbent against budget spent")
    ax.legend(fontsize=8)
    return ax


def _check_single(state: State) -> None:
    if state.criteria.several:
        advice = "Draw the plots `front` and `hypervolume` instead."
        raise SeveralObjectivesError(state.criteria.names, "there is no incumbent", advice)


def _stairs(
    ax: Axes, measure: Measure, found: chart_data.Incumbent, resumed: bool, name: str, shade: str
) -> None:
    drawn = ((step, measure.of(step.result)) for step in found.steps)
    steps = [
        (step.spent_resumed if resumed else step.spent, number)
        for step, number in drawn
        if number is not None
    ]
    draw_stairs(ax, steps, found, resumed, name, shade)


def draw_stairs(
    ax: Axes,
    steps: Sequence[tuple[float, float]],
    found: Spending,
    resumed: bool,
    name: str,
    shade: str,
    names_below: bool = False,
) -> None:
    """A number that improves with the budget spent, and where later runs began. Their names are
    above the line, or below it."""
    if not steps:
        return
    x = [spent for spent, _ in steps] + [found.spent_resumed if resumed else found.spent]
    y = [loss for _, loss in steps] + [steps[-1][1]]
    how = "training resumed" if resumed else "full budgets"
    style, width = ("--", 1.0) if resumed else ("-", 1.6)
    text = f"{label(name)}: {how}"
    ax.step(x, y, where="post", color=shade, linestyle=style, linewidth=width, label=text)
    for number, extension in enumerate(found.extensions):
        spent = extension.spent_resumed if resumed else extension.spent
        best = next((loss for at, loss in zip(x[::-1], y[::-1], strict=True) if at <= spent), y[0])
        ax.plot([spent], [best], "v", color=shade, markersize=7)
        if not resumed:
            away = 6 + 10 * (number % 3)  # labels of neighbours do not overlap
            ax.annotate(
                extension.target,
                (spent, best),
                textcoords="offset points",
                xytext=(4, -6 - away if names_below else away),
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
