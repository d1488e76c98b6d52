"""The commands that show: plot, report, serve."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.cli.group import PATH, main, open_existing, output_path, study_argument
from deepband.plots import KINDS
from deepband.plots.saving import FORMATS, save


@main.command()
@study_argument
@click.argument("kind", type=click.Choice(KINDS))
@click.option("-o", "--output", type=PATH, help="The file to write.  [default: KIND.png]")
@click.option("--with", "others", type=PATH, multiple=True, help="Another study beside it.")
def plot(study: Path, kind: str, output: Path | None, others: tuple[Path, ...]) -> None:
    """Draw a study into a file: PNG, PDF or SVG, by its name.

    \b
    brackets    rungs by brackets: who was evaluated in which run, and who went up
    curves      losses from rung to rung, and what was reported on the way
    incumbent   the best loss against the budget spent; --with adds other studies
    parallel    configs across all parameters, coloured by loss
    importance  which parameters matter, by Optuna's fANOVA
    stability   how far each rung ranks configs as the next one does
    """
    if others and kind != "incumbent":
        raise click.UsageError("--with belongs to the kind 'incumbent'.")
    place = output_path(output or Path(f"{kind}.png"), study)
    if place.suffix not in FORMATS:
        raise click.UsageError(f"the file must end in {', '.join(FORMATS)}: {place.name!r}")
    opened = open_existing(study)
    beside = [open_existing(other) for other in others]
    save(opened, kind, place, *beside)
    click.echo(f"Wrote {click.format_filename(place)}.")
