"""What all plots share: figures, colours, and labels that Matplotlib does not interpret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deepband.analysis.text import shortened
from deepband.errors import DeepbandError
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Distinguishable with colour blindness, too (Okabe and Ito)."""
QUIET = "#b0b0b0"
DARK = "#303030"
BAD = "#aa0000"


def new_axes(ax: Axes | None, width: float = 7.0, height: float = 4.5) -> Axes:
    """The given Axes, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = load_pyplot().subplots(figsize=(width, height), layout="constrained")[1]
    return made


def load_pyplot() -> Any:
    """Matplotlib's pyplot, imported only when a plot is drawn."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise DeepbandError(f"plots need Matplotlib: {install_command('plots')}") from error
    return pyplot


def colour(number: int) -> str:
    """The colour of a run, or of one study among several."""
    return COLOURS[number % len(COLOURS)]


def label(text: object, most: int = 40) -> str:
    """A user's text as a label: shortened, never read as mathematics, and never hidden from a
    legend."""
    safe = shortened(str(text), most).replace("$", r"\$")
    return f" {safe}" if safe.startswith("_") else safe


def note(ax: Axes, text: str) -> Axes:
    """Show a text instead of a plot."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, wrap=True)
    return ax
