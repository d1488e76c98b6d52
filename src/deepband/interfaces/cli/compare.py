"""The command that compares samplers, ways of deepening and other tools."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.interfaces.cli.experiments import experiment_options, run_experiment
from deepband.interfaces.cli.group import PATH, main


@main.command()
@experiment_options(out="compared", seeds=5, runs="method and data set")
@click.option(
    "--instances",
    type=click.Choice(["tuning", "reporting"]),
    default="reporting",
    show_default=True,
    help="The data sets: those for choosing parameters, or those for reporting.",
)
@click.option(
    "--methods",
    default="",
    help="Names, as in tpe,smac.  [default: all that are installed; with synthetic data, the "
    "quick ones of deepband]",
)
@click.option(
    "--max-budget",
    type=int,
    default=27,
    show_default=True,
    help="9, 27, 81 or 243 (243 without SMAC, BOHB and DEHB).",
)
@click.option(
    "--width",
    type=int,
    default=4,
    show_default=True,
    help="Budget of each method: what a study of this width spends.",
)
@click.option(
    "--simulated-workers",
    type=int,
    default=1,
    show_default=True,
    help="Compare after the same simulated time of this many workers, instead of the same budget.",
)
@click.option("--quick", is_flag=True, help="Use two data sets per benchmark only.")
@click.option(
    "--peers-python",
    type=PATH,
    default=Path(".venv-peers/bin/python"),
    show_default=True,
    help="A Python interpreter with SMAC, HpBandSter (BOHB) and DEHB; those it lacks are left out.",
)
def compare(
    data: str,
    out: Path,
    seeds: int,
    workers: int | None,
    instances: str,
    methods: str,
    max_budget: int,
    width: int,
    simulated_workers: int,
    quick: bool,
    peers_python: Path,
) -> None:
    """Compare samplers and ways of deepening with each other and with other tools.

    Each method may spend what a study of the given width spends, counted in the same way for all.
    With --simulated-workers, each method has the time in which that many workers, if they are
    always busy, spend as much.
    SMAC and BOHB are slow, so they have at most three seeds.
    Writes results.parquet, tables.md and curves.png to OUT. If it is interrupted, run it again to
    resume; methods can be added later.

    By default it runs on synthetic learning curves, which takes about a minute. The published
    figures need YAHPO Gym's data.
    """
    from deepband.research.compare.method_comparison import MethodComparison

    comparison = MethodComparison(
        data=data,
        instances=instances,
        seeds=seeds,
        methods=tuple(name.strip() for name in methods.split(",") if name.strip()),
        max_budget=max_budget,
        width=width,
        simulated_workers=simulated_workers,
        quick=quick,
        peers_python=peers_python.absolute(),
    )
    run_experiment(comparison, out, workers)
