"""The whole comparison: play what is missing, then make the results, the tables and the figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from deepband.errors import DeepbandError
from deepband.research.compare.curves import Curves
from deepband.research.compare.drawing import draw_curves
from deepband.research.compare.references import reference
from deepband.research.compare.results import Folder
from deepband.research.compare.running import play_unit
from deepband.research.compare.settings import Settings
from deepband.research.compare.tables import report
from deepband.research.paper.making import check_installed
from deepband.research.paper.results import read_columns, write_whole
from deepband.research.paper.running import do_missing


def make(
    settings: Settings, out: Path, workers: int, show: Callable[[int, int], None]
) -> dict[str, str]:
    """Make everything in the folder `out`, and go on with what is there already.

    `show` is told how many units are done of how many. Returns the files that were made, each
    with what it holds.
    """
    check_installed("a comparison")
    try:
        folder = Folder.prepare(out, settings)
        play = partial(play_unit, folder, settings)
        do_missing(play, list(settings.units()), folder.has, workers, show)
        return _present(folder, settings)
    except OSError as error:
        raise DeepbandError(f"cannot write results to {out}: {error}.") from error


def _present(folder: Folder, settings: Settings) -> dict[str, str]:
    """Tables and figure of all methods that have played everywhere, now or before."""
    methods = folder.collect(settings.problems)
    references = {pair: reference(folder.path, settings.data, *pair) for pair in settings.problems}
    curves = Curves(read_columns(folder.file), references, settings.full_runs)
    tables, figure = folder.path / "tables.md", folder.path / "curves.png"
    write_whole(tables, report(curves).encode())
    made = {
        str(folder.file): f"{len(methods)} methods on {len(curves.pairs)} data sets",
        str(tables): "answers and tables",
    }
    if draw_curves(curves, figure):
        made[str(figure)] = "regret against budget"
    return made
