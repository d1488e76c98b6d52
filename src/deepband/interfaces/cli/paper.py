"""The command that runs the paper's study."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.interfaces.cli.experiments import experiment_options, run_experiment
from deepband.interfaces.cli.group import main


@main.command()
@experiment_options(out="results", seeds=30, runs="data set and eta")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    help="A benchmark of the data, such as lcbench; may be repeated.  [default: all]",
)
@click.option("--eta", "etas", multiple=True, type=int, help="May be repeated.  [default: 2, 3]")
@click.option("--beyond", is_flag=True, help="Also try repeated deepening and wrong first guesses.")
@click.option(
    "--isha", is_flag=True, help="Successive halving (one bracket) instead of Hyperband: iSHA."
)
def paper(
    data: str,
    out: Path,
    seeds: int,
    workers: int | None,
    scenarios: tuple[str, ...],
    etas: tuple[int, ...],
    beyond: bool,
    isha: bool,
) -> None:
    """Repeat the paper's study: what does deepening save, and what does it cost?

    Runs IH-HB (Hyperband, then again from scratch with eta times the budget) and the three
    deepening strategies on the same configs, and writes results.parquet, tables.md, data_sets.csv
    and figures to OUT. If it is interrupted, run it again to resume.

    With --isha, all studies have a single bracket, and the three strategies are compared with
    successive halving from scratch. Give these results another folder.

    By default it runs on synthetic learning curves, which takes about a minute. The published
    figures need YAHPO Gym's data.
    """
    from deepband.research.paper.replication import BEYOND, PAPER, Replication

    replication = Replication(
        data=data,
        scenarios=tuple(dict.fromkeys(scenarios)),
        etas=tuple(sorted(set(etas))) or (2, 3),
        seeds=seeds,
        studies=(PAPER, BEYOND) if beyond else (PAPER,),
        brackets=1 if isha else None,
    )
    run_experiment(replication, out, workers)
