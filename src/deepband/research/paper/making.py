"""The whole study: run what is missing, then make the results, the tables and the figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from deepband.errors import DeepbandError
from deepband.research.paper.comparing import comparisons, losses
from deepband.research.paper.drawing import draw_all
from deepband.research.paper.results import Folder, read_columns, write_whole
from deepband.research.paper.running import do_missing, run_unit
from deepband.research.paper.settings import BEYOND, PAPER, Settings
from deepband.research.paper.summaries import by_benchmark, by_data_set, csv
from deepband.research.paper.tables import report

NEEDED = ("onnxruntime", "pyarrow", "matplotlib", "scipy")


def make(
    settings: Settings, out: Path, workers: int, show: Callable[[int, int], None]
) -> dict[str, str]:
    """Make everything in the folder `out`, and go on with what is there already.

    `show` is told how many units are done of how many. Returns the files that were made, each
    with what it holds.
    """
    check_installed("the paper's study")
    try:
        folder = Folder.prepare(out, settings)
        _run(folder, settings, workers, show)
        return _present(folder)
    except OSError as error:
        raise DeepbandError(f"cannot write results to {out}: {error}.") from error


def check_installed(what: str) -> None:
    """Raise an error that says what to install, unless it is there."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DeepbandError(f"{what} needs {', '.join(missing)}: pip install 'deepband[paper]'")


def _run(
    folder: Folder, settings: Settings, workers: int, show: Callable[[int, int], None]
) -> None:
    units = list(settings.units())
    do_missing(partial(run_unit, folder, settings.data), units, folder.has, workers, show)
    for study in settings.studies:
        folder.collect(study, [unit for unit in units if unit.study == study])


def _present(folder: Folder) -> dict[str, str]:
    """Tables and figures of the results."""
    results = read_columns(folder.file(PAPER))
    beyond = read_columns(folder.file(BEYOND)) if folder.file(BEYOND).exists() else None
    page = report(
        list(comparisons(results)),
        list(by_benchmark(results)),
        list(losses(beyond)) if beyond else [],
    )
    tables, figures = folder.path / "tables.md", folder.path / "figures"
    data_sets = folder.path / "data_sets.csv"
    write_whole(tables, page.encode())
    write_whole(data_sets, "".join(f"{line}\n" for line in csv(by_data_set(results))).encode())
    draw_all(results, figures)
    made = {str(folder.file(PAPER)): f"{len(results['seed']):,} runs"}
    if beyond:
        made[str(folder.file(BEYOND))] = f"{len(beyond['seed']):,} steps of longer courses"
    return made | {
        str(tables): "answers and tables",
        str(data_sets): "every data set",
        str(figures): "PDF and PNG",
    }
