"""The command that compares samplers, ways of deepening and other tools."""

from __future__ import annotations

import os
from pathlib import Path

import click

from deepband.errors import InputError
from deepband.interfaces.cli.group import PATH, main
from deepband.interfaces.cli.output import say
from deepband.interfaces.cli.paper import Counting


@main.command()
@click.option("--data", type=PATH, envvar="YAHPO_DATA", help="A clone of slds-lmu/yahpo_data.")
@click.option("--out", type=PATH, default=Path("compared"), show_default=True, help="Where to.")
@click.option("--seeds", type=int, default=5, show_default=True, help="Runs a method and data set.")
@click.option(
    "--instances",
    type=click.Choice(["tuning", "reporting"]),
    default="reporting",
    show_default=True,
    help="The data sets: those to choose parameters on, or those to report.",
)
@click.option("--methods", default="", help="As in tpe,smac.  [default: all that are installed]")
@click.option("--max-budget", type=int, default=27, show_default=True, help="9, 27, 81 or 243.")
@click.option("--full-runs", type=int, default=4, show_default=True, help="To spend, each method.")
@click.option("--workers", type=int, help="Processes.  [default: one a core]")
@click.option("--quick", is_flag=True, help="Two data sets of each scenario only.")
@click.option(
    "--smac-python",
    type=PATH,
    default=Path(".venv-peers/bin/python"),
    show_default=True,
    help="An interpreter that has SMAC; left out if it is not there.",
)
def compare(
    data: Path | None,
    out: Path,
    seeds: int,
    instances: str,
    methods: str,
    max_budget: int,
    full_runs: int,
    workers: int | None,
    quick: bool,
    smac_python: Path,
) -> None:
    """Compare samplers and ways of deepening with each other and with other tools.

    Plays every method on surrogates of YAHPO Gym up to the budget of some full runs, all charged in
    the same units, and makes results.parquet, tables.md and curves.png in OUT. Interrupted, it
    goes on when it is run again; methods may be added later.
    """
    from deepband.research.compare.making import make
    from deepband.research.compare.settings import Settings

    if data is None:
        raise InputError("give --data or set YAHPO_DATA: the folder of a clone of yahpo_data.")
    workers = (os.cpu_count() or 1) if workers is None else workers
    if workers < 1:
        raise InputError(f"workers is {workers}: give a whole number of 1 or more.")
    settings = Settings(
        data=data,
        instances=instances,
        seeds=seeds,
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()),
        max_budget=max_budget,
        full_runs=full_runs,
        quick=quick,
        smac_python=smac_python.absolute(),
    )
    with Counting() as counting:
        made = make(settings, out, workers, counting.show)
    for place, what in made.items():
        say(f"{place}: {what}")
