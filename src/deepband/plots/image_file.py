"""Saving plots to files, without a display."""

from __future__ import annotations

import os
import warnings
from typing import IO, Any

from deepband.errors import InputError
from deepband.plots import Plots, Plotted
from deepband.plots.style import load_pyplot

FORMATS = (".png", ".pdf", ".svg")


def save(
    study: Plotted,
    kind: str,
    place: str | os.PathLike[str],
    *others: Plotted,
    **options: Any,
) -> None:
    """Draw one kind of plot into a file, in the format that its suffix names. The options are those
    of the plot; None is left out."""
    form = os.path.splitext(os.fspath(place))[1][1:].lower()
    try:
        write(study, kind, place, form, *others, **options)
    except OSError as error:
        raise InputError(f"{os.fspath(place)} cannot be written: {error}.") from error


def write(
    study: Plotted,
    kind: str,
    to: Any | IO[bytes],
    form: str,
    *others: Plotted,
    **options: Any,
) -> None:
    """Draw one kind of plot into a file or a stream."""
    given = {name: value for name, value in options.items() if value is not None}
    pyplot = load_pyplot()
    style = {"backend": "agg", "svg.hashsalt": "deepband"}
    with pyplot.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        ax = getattr(Plots(study), kind)(*others, **given)
        try:
            metadata = {"Date": None} if form == "svg" else None
            ax.figure.savefig(to, format=form, dpi=150, metadata=metadata)
        finally:
            pyplot.close(ax.figure)
