"""The commands that draw a study: plot, report, serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from deepband.interfaces.cli.criteria_options import reference_option
from deepband.interfaces.cli.group import PATH, main, open_existing, output_path, study_argument
from deepband.interfaces.cli.output import say
from deepband.interfaces.dashboard import server
from deepband.interfaces.report.html_report import write_report
from deepband.plots import COMPARING, KINDS, OF_METRICS, OF_OBJECTIVES
from deepband.plots.image_file import FORMATS, save

KINDS_WITH: dict[str, Sequence[str]] = {
    "metric": OF_METRICS,
    "by": ["front"],
    "objectives": ["front"],
    "reference": ["hypervolume"],
    "with": COMPARING,
}
"""By option: the kinds of plots that have it."""


@main.command()
@study_argument
@click.argument("kind", type=click.Choice([*KINDS, *OF_OBJECTIVES]))
@click.option("-o", "--output", type=PATH, help="The file to write.  [default: KIND.png]")
@click.option(
    "--with",
    "others",
    type=PATH,
    multiple=True,
    help="Another study, for the kinds incumbent and hypervolume; may be repeated.",
)
@click.option("--metric", help="Draw this objective or metric instead of what is optimised.")
@click.option(
    "--by", type=click.Choice(["run", "rung"]), help="What the fronts are of.  [default: run]"
)
@click.option("--objectives", help="The two of a front, such as error,size.  [default: the first]")
@reference_option
def plot(
    study: Path,
    kind: str,
    output: Path | None,
    others: tuple[Path, ...],
    metric: str | None,
    by: str | None,
    objectives: str | None,
    reference: Mapping[str, float] | None,
) -> None:
    """Plot a study to a PNG, PDF or SVG file. The suffix selects the format.

    \b
    brackets    which run evaluated which configs, and which were promoted
    curves      losses from rung to rung, and the losses reported during training
    incumbent   the best loss on any budget against the budget spent
    parallel    configs across all parameters, coloured by loss
    importance  which parameters matter, by Optuna's fANOVA
    stability   how similarly neighbouring rungs rank configs
    front       the front of several objectives after each run, or on each rung
    hypervolume how much the front dominates, against the budget spent
    predictions predicted losses of the best configs with larger budgets

    Curves, incumbent, parallel and importance can show a metric that the objective returns
    alongside the loss, or one of several objectives.
    """
    options: dict[str, Any] = {"metric": metric, "by": by, "reference": reference}
    if objectives is not None:
        options["objectives"] = [name.strip() for name in objectives.split(",")]
    for name, value in {**options, "with": others or None}.items():
        if value is not None and kind not in KINDS_WITH[name]:
            raise click.UsageError(f"--{name} is for {_kinds(KINDS_WITH[name])}.")
    path = output_path(output or Path(f"{kind}.png"), study, FORMATS)
    opened = open_existing(study)
    save(opened, kind, path, *map(open_existing, others), **options)
    say(f"Wrote {path}.")


def _kinds(kinds: Sequence[str]) -> str:
    return f"the kind{'' if len(kinds) == 1 else 's'} {', '.join(kinds)}"


@main.command()
@click.argument("place", type=PATH, metavar="STUDY|FOLDER")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8377,
    help="0 chooses a free one.  [default: 8377]",
)
@click.option(
    "--token",
    help="A secret that the first visit must present. Other users of this machine see it in the "
    "list of processes: prefer DEEPBAND_TOKEN or --token-file.",
)
@click.option("--token-file", type=PATH, help="A file that contains the secret.")
@click.option(
    "--name", "names", multiple=True, help="Another host name of this server; may be repeated."
)
def serve(
    place: Path,
    host: str,
    port: int,
    token: str | None,
    token_file: Path | None,
    names: tuple[str, ...],
) -> None:
    """Serve a live dashboard of a study or a folder of studies.

    In a folder, all files that end in .study are shown. The dashboard never changes a study. On an
    address that other machines can reach it requires a token, because every visitor sees all
    configs, results and worker output. The token comes from --token, --token-file or the
    environment variable DEEPBAND_TOKEN, in this order.
    """
    server.serve(place, host, port, server.read_token(token, token_file), names, say)


@main.command()
@study_argument
@click.option(
    "-o", "--output", type=PATH, help="The file to write.  [default: NAME.html for NAME.study]"
)
def report(study: Path, output: Path | None) -> None:
    """Write a self-contained HTML report of a study.

    It contains a summary, the schedule, the cost of each way to extend it, all plots, the best
    configs and the failures. It has no scripts and loads nothing from anywhere.
    """
    path = output_path(output or Path(f"{study.stem}.html"), study, (".html", ".htm"))
    write_report(open_existing(study), path)
    say(f"Wrote {path}.")
