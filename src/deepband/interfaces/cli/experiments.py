"""What the commands `paper` and `compare` have in common: options, progress, and the run itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from deepband.interfaces.cli.group import PATH
from deepband.interfaces.cli.output import say

if TYPE_CHECKING:
    from deepband.research.experiment import Experiment

SECONDS_PER_LINE = 5.0


def experiment_options(
    out: str, seeds: int, runs: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator with the options of both commands."""
    options: list[Any] = [
        click.option(
            "--data",
            default="synthetic",
            show_default=True,
            envvar="YAHPO_DATA",
            show_envvar=True,
            help="'synthetic' (learning curves by formula), or the folder of a clone of "
            "slds-lmu/yahpo_data.",
        ),
        click.option(
            "--out", type=PATH, default=Path(out), show_default=True, help="Folder for the results."
        ),
        click.option(
            "--seeds", type=int, default=seeds, show_default=True, help=f"Runs per {runs}."
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Number of processes.  [default: one per core]",
        ),
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def run_experiment(experiment: Experiment[Any], out: Path, workers: int | None) -> None:
    """Run an experiment, show its progress, and list the files that it wrote."""
    note = experiment.suite.note
    if note:
        say(note)
    with PartProgress() as progress:
        made = experiment.make(out, workers or os.cpu_count() or 1, progress.show)
    for place, what in made.items():
        say(f"{place}: {what}")


class PartProgress:
    """A progress bar on a terminal, otherwise a line every few seconds."""

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

    def __enter__(self) -> PartProgress:
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
        """Update the display."""
        self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if self._bar.disable and (now >= self._next or done == total):
            self._next = now + SECONDS_PER_LINE
            say(f"{done} of {total} parts, {now - self._start:.0f} s")
