"""The command that runs the paper's study."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deepband.errors import InputError
from deepband.interfaces.cli.group import PATH, main
from deepband.interfaces.cli.output import say
from deepband.research.yahpo_columns import SCENARIOS

SECONDS_A_LINE = 5.0


@main.command()
@click.option("--data", type=PATH, envvar="YAHPO_DATA", help="A clone of slds-lmu/yahpo_data.")
@click.option("--out", type=PATH, default=Path("results"), show_default=True, help="Where to.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    type=click.Choice(list(SCENARIOS)),
    help="A benchmark; may be repeated.  [default: all]",
)
@click.option("--eta", "etas", multiple=True, type=int, help="May be repeated.  [default: 2, 3]")
@click.option("--seeds", type=int, default=30, show_default=True, help="Runs a data set and eta.")
@click.option("--workers", type=int, help="Processes.  [default: one a core]")
@click.option("--beyond", is_flag=True, help="Also several deepenings and wrong first guesses.")
def paper(
    data: Path | None,
    out: Path,
    scenarios: tuple[str, ...],
    etas: tuple[int, ...],
    seeds: int,
    workers: int | None,
    beyond: bool,
) -> None:
    """Repeat the study of the paper: what does deepening save, and what does it cost?

    Runs IH-HB (Hyperband, then again from scratch with eta times the budget) and the three ways
    of deepening on surrogates of YAHPO Gym, all on the same configs, and makes results.parquet,
    tables.md and figures in OUT. Interrupted, it goes on when it is run again.
    """
    from deepband.research.paper.making import make
    from deepband.research.paper.settings import BEYOND, PAPER, Settings

    if data is None:
        raise InputError("give --data or set YAHPO_DATA: the folder of a clone of yahpo_data.")
    workers = (os.cpu_count() or 1) if workers is None else workers
    if workers < 1:
        raise InputError(f"workers is {workers}: give a whole number of 1 or more.")
    settings = Settings(
        data=data,
        scenarios=tuple(dict.fromkeys(scenarios)) or tuple(SCENARIOS),
        etas=tuple(sorted(set(etas))) or (2, 3),
        seeds=seeds,
        studies=(PAPER, BEYOND) if beyond else (PAPER,),
    )
    with Counting() as counting:
        made = make(settings, out, workers, counting.show)
    for place, what in made.items():
        say(f"{place}: {what}")


class Counting:
    """A bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._start = self._next = time.monotonic()
        self._bar = Progress(
            TextColumn("parts"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(markup=False, highlight=False),
            disable=not sys.stdout.isatty(),
        )
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Counting:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """Bring the display up to date."""
        self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._bar.disable and (now >= self._next or done == total):
            self._next = now + SECONDS_A_LINE
            say(f"{done} of {total} parts, {now - self._start:.0f} s")
