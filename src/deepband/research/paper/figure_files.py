"""The paper's figures, drawn: PDF for print and PNG for the screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.core.schedule import Cell
from deepband.core.strategies import STRATEGIES
from deepband.errors import DeepbandError
from deepband.research.paper import figures
from deepband.research.paper.courses import IH, METHODS, baseline_name
from deepband.research.result_files import Columns
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {IH: "#555555", "discarding": "#cc79a7", "preserving": "#d55e00", "efficient": "#0072b2"}
"""Distinguishable for colour-blind readers (Okabe and Ito)."""
MARKS = {"discarding": "s", "preserving": "o", "efficient": "^"}
ETAS = (2, 3)
Budgets: TypeAlias = Mapping[str, list[float]]
"""Total budgets by method."""


def draw_all(results: Columns, folder: Path, brackets: int | None = None) -> list[Path]:
    """Draw every figure into a folder; returns the files. `brackets` is that of the studies."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        place
        for name, figure in _all_figures(results, brackets)
        for place in _save(figure, folder / name)
    ]


def _all_figures(results: Columns, brackets: int | None) -> Iterator[tuple[str, Figure]]:
    yield "incumbents", draw_incumbents(figures.incumbents(results), baseline_name(brackets))
    yield "budgets", draw_budgets(figures.budgets(results), figures.mean_budgets(results))
    if brackets is None:  # these two show all brackets, and do not depend on the results
        yield "pulls", draw_pulls()
        yield "deepening", draw_deepening()


def draw_incumbents(
    panels: Mapping[figures.Panel, Mapping[str, figures.Points]], baseline: str
) -> Figure:
    """Strategies against the baseline: on the diagonal both found equally good configs."""
    figure, axes = _grid(panels)
    for (panel, points), ax in zip(panels.items(), axes, strict=True):
        everything = [value for pairs in points.values() for pair in pairs for value in pair]
        low, high = min(everything), max(everything)
        margin = 0.05 * (high - low) or 0.01
        ax.axline((low, low), slope=1, color="black", linewidth=0.8)
        for method, pairs in points.items():
            x, y = zip(*pairs, strict=True)
            ax.scatter(
                x,
                y,
                s=16,
                marker=MARKS[method],
                facecolors="none",
                edgecolors=COLOURS[method],
                linewidths=0.8,
                label=method,
            )
        ax.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + margin))
        ax.set(title=f"{panel[0]}, eta {panel[1]}", aspect="equal")
        ax.set(xlabel=f"accuracy of {baseline}", ylabel="accuracy, deepened")
    axes[0].legend(fontsize="small")
    return figure


def draw_budgets(
    panels: Mapping[figures.Panel, Budgets], means: Mapping[figures.Panel, Budgets]
) -> Figure:
    """Total budgets, as two violins per method: single runs, and means of data sets. Where all
    values are equal, there is a line instead of a violin."""
    figure, axes = _grid(panels)
    for (panel, spent), ax in zip(panels.items(), axes, strict=True):
        for place, method in enumerate(METHODS):
            _violin(ax, place - 0.2, spent[method], COLOURS[method], 0.3)
            _violin(ax, place + 0.2, means[panel][method], COLOURS[method], 0.8)
        ax.set_xticks(range(len(METHODS)), METHODS, rotation=20)
        ax.set(title=f"{panel[0]}, eta {panel[1]}", ylabel="total budget")
    figure.suptitle(
        "left, pale: single runs; right, dark: means over the seeds of a data set",
        fontsize="medium",
    )
    return figure


def _violin(ax: Axes, place: float, values: list[float], colour: str, alpha: float) -> None:
    if max(values) > min(values):
        drawn = ax.violinplot([values], [place], showextrema=False, widths=0.38)
        bodies: Any = drawn["bodies"]
        bodies[0].set(facecolor=colour, alpha=alpha)
    for value in {min(values), sum(values) / len(values), max(values)}:
        ax.hlines(value, place - 0.14, place + 0.14, color=colour, linewidth=1.2)


def draw_pulls() -> Figure:
    """Theorem 2, both parts, for eta 2 and 3: the bounds, and what deepband counts."""
    figure = _figure(9, 6.5)
    axes = figure.subplots(len(figures.FRACTIONS), len(ETAS), sharey=True, squeeze=False)
    for row, strategy in zip(axes, figures.FRACTIONS, strict=True):
        for ax, eta in zip(row, ETAS, strict=True):
            counts = figures.counted_pulls(strategy, eta)
            for max_budget, points in figures.pulls(strategy, eta).items():
                s, fraction = zip(*points, strict=True)
                (line,) = ax.plot(s, fraction, marker=".", label=f"R = {max_budget:,}")
                s, counted = zip(*counts[max_budget], strict=True)
                ax.plot(s, counted, linestyle=":", color=line.get_color())
            name = "efficient" if strategy == "efficient" else "discarding, preserving (worst case)"
            ax.set(title=f"{name}, eta {eta}", xlabel="rounds s", ylim=(0, 1.05))
            ax.legend(fontsize="small")
        row[0].set_ylabel("fraction of a rerun's pulls")
    figure.suptitle("solid: bound of Theorem 2; dotted: count of deepband", fontsize="medium")
    return figure


def draw_deepening() -> Figure:
    """What a deepening reuses and what it evaluates, in each cell, by strategy."""
    figure = _figure(11, 4)
    axes = figure.subplots(1, len(STRATEGIES), sharey=True)
    for ax, strategy in zip(axes, STRATEGIES, strict=True):
        counts = figures.deepening(strategy)
        for cell, count in counts.items():
            _cell(ax, cell, count)
        top = max(rung for _, rung in counts)
        ax.set(xlim=(-0.6, top + 0.6), ylim=(top + 0.6, -0.6), title=strategy, xlabel="rung")
        ax.set(xticks=range(top + 1), yticks=range(top + 1))
        cost = figures.SHOWN.cost_of({cell: count.new for cell, count in counts.items()})
        ax.text(0, top + 0.2, f"{cost} units evaluated", fontsize="medium")
    axes[0].set_ylabel("bracket")
    old, new = figures.SHOWN, figures.SHOWN.extended(levels=1)
    figure.suptitle(
        f"max_budget {old.max_budget}, then {new.max_budget}, eta {old.eta}: "
        f"{TAKEN[0]} reused, {NEW[0]} evaluated, {LEFT[0]} not promoted again",
        fontsize="medium",
    )
    return figure


TAKEN, NEW, LEFT = ("blue", "#0072b2"), ("orange", "#d55e00"), ("grey", "#999999")


def _cell(ax: Axes, cell: Cell, count: figures.CellCount) -> None:
    """One box: its parts in proportion, each with its number."""
    bracket, rung = cell
    parts = [(count.taken, *TAKEN), (count.new, *NEW), (count.left, *LEFT)]
    total, left = count.taken + count.new + count.left, rung - 0.45
    for number, _, colour in parts:
        width = 0.9 * number / total
        ax.barh(bracket, width, left=left, height=0.7, color=colour, alpha=0.75)
        if number:
            ax.text(
                left + width / 2, bracket, str(number), ha="center", va="center", fontsize="small"
            )
        left += width


def _grid(panels: Mapping[figures.Panel, Any]) -> tuple[Figure, list[Axes]]:
    """One row per eta and one column per scenario, in the order of `panels`."""
    scenarios = list(dict.fromkeys(scenario for scenario, _ in panels))
    etas = sorted({eta for _, eta in panels})
    figure = _figure(3.2 * len(scenarios), 3.2 * len(etas))
    grid = figure.subplots(len(etas), len(scenarios), squeeze=False)
    return figure, [grid[etas.index(eta)][scenarios.index(name)] for name, eta in panels]


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise DeepbandError(f"figures need matplotlib: {install_command('paper')}") from error
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, place: Path) -> list[Path]:
    vector, pixels = place.with_suffix(".pdf"), place.with_suffix(".png")
    figure.savefig(vector, metadata={"CreationDate": None})
    figure.savefig(pixels, dpi=110, metadata={"Software": None})
    return [vector, pixels]
