"""The commands that show: plot, report, serve."""

from __future__ import annotations

from pathlib import Path

import click

from deepband.interfaces.cli.group import PATH, main, open_existing, output_path, study_argument
from deepband.interfaces.cli.output import say
from deepband.interfaces.dashboard import server
from deepband.interfaces.report import write_report
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
    place = output_path(output or Path(f"{kind}.png"), study, FORMATS)
    opened = open_existing(study)
    beside = [open_existing(other) for other in others]
    save(opened, kind, place, *beside)
    say(f"Wrote {place}.")


@main.command()
@click.argument("place", type=PATH, metavar="STUDY|FOLDER")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8377,
    help="0 takes a free one.  [default: 8377]",
)
@click.option(
    "--token",
    help="A secret that the first visit must show. Others on this machine "
    "see it in the list of processes: better set DEEPBAND_TOKEN or give --token-file.",
)
@click.option("--token-file", type=PATH, help="A file that holds the secret.")
@click.option("--name", "names", multiple=True, help="Another host name it is reached by.")
def serve(
    place: Path,
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    names: tuple[str, ...],
) -> None:
    """A live page of a study, or of all *.study files of a folder.

    It only looks. On an address that other machines reach it needs a token, because whoever reaches
    it would see every config, result and worker output. The token is taken from --token,
    --token-file or the environment variable DEEPBAND_TOKEN, in this order.
    """
    server.serve(place, host, port, server.read_token(token, token_file), names, say)


@main.command()
@study_argument
@click.option("-o", "--output", type=PATH, default=Path("report.html"), show_default=True)
def report(study: Path, output: Path) -> None:
    """One HTML file with everything about a study, to send around.

    It holds the summary, the schedule, what each way of deepening would cost, all plots, the best
    configs and the failures. It has no script and loads nothing from anywhere.
    """
    place = output_path(output, study, (".html", ".htm"))
    write_report(open_existing(study), place)
    say(f"Wrote {place}.")
