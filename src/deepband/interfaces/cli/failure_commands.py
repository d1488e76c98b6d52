"""The commands that say what went wrong: failures, logs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepband.analysis.text import shortened, table
from deepband.core.facts import JobKey
from deepband.errors import InputError, StorageError
from deepband.execution.outbox import NUMBER
from deepband.execution.worker_output import OutputFile, first_with_output, output_files
from deepband.interfaces.cli.group import json_option, main, open_existing, study_argument
from deepband.interfaces.cli.output import command, show
from deepband.study.study import Study

if TYPE_CHECKING:
    _Job = click.ParamType[JobKey]
else:  # ParamType is not generic before click 8.4
    _Job = click.ParamType

NOTHING_KEPT = (
    "No output is kept: either no worker printed anything, or the study ran without worker "
    "processes (--workers 2 or more, or --timeout). Such evaluations print to the terminal, or to "
    "the logs of Dask or Ray."
)


class JobType(_Job):
    """A (bracket, index, rung), written with commas."""

    name = "bracket,index,rung"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> JobKey:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(rf"\s*{NUMBER}\s*,\s*{NUMBER}\s*,\s*{NUMBER}\s*", value)
        if found is None:
            self.fail(f"{value!r} is not BRACKET,INDEX,RUNG, such as 0,3,1.", param, ctx)
        bracket, index, rung = map(int, found.groups())
        return bracket, index, rung


@main.command()
@study_argument
@click.option("--all", "every", is_flag=True, help="Show all failed jobs, not three per error.")
@json_option
def failures(study: Path, every: bool, as_json: bool) -> None:
    """Show why evaluations failed.

    Failures with the same error are grouped, with their configs and one traceback. Messages that
    differ only in numbers count as the same error. JSON contains all failed jobs.
    """
    opened = open_existing(study)
    found = opened.failures()
    text = found.text(None) if every else found.text()
    job = None if as_json else first_with_output(opened.session.files, found)
    if job is not None:
        text += f"\n\nWhat a job printed: {_command(study, job)}"
    show(found, as_json, text)


@main.command()
@study_argument
@click.option("--job", type=JobType(), help="Print the output of this job.")
@click.option("--failed", is_flag=True, help="List only jobs that failed.")
@json_option
def logs(study: Path, job: JobKey | None, failed: bool, as_json: bool) -> None:
    """Show what worker processes printed.

    Without --job, it lists the jobs that printed something. For each job, the output of the last
    attempt is kept, up to 1 MiB. Evaluations without worker processes print to the terminal.
    """
    opened = open_existing(study)
    if job is not None and failed:
        raise InputError("--failed is for the list of jobs: leave it out, or leave out --job.")
    if job is not None:
        text = opened.output(*job)
        show({"job": job, "output": text}, as_json, text or _missing(opened, job))
        return
    found = kept = [each for each in output_files(opened.session.files) if each.size]
    if failed:
        state = opened.session.state
        results = ((each, state.result(*each.job)) for each in found)
        found = [each for each, result in results if result is not None and result.loss is None]
    if found:
        show(found, as_json, _listing(found, study))
    else:
        show(found, as_json, "No failed job printed anything." if kept else NOTHING_KEPT)


def _listing(found: Sequence[OutputFile], study: Path) -> str:
    """One line per job: its key, how much it printed, and the last line of that."""
    rows = [[",".join(map(str, each.job)), f"{each.size:,}"] for each in found]
    lines = table([["job", "bytes"], *rows]).splitlines()
    ends = ["last line", *(shortened(each.last_line, 100) for each in found)]
    listed = "\n".join(f"{line}  {end}" for line, end in zip(lines, ends, strict=True))
    return f"{listed}\n\nThe output of a job: {_command(study, found[0].job)}"


def _command(study: Path, job: JobKey) -> str:
    """The command that prints the output of a job."""
    return command("logs", study, "--job", ",".join(map(str, job)))


def _missing(study: Study, job: JobKey) -> str:
    """Why there is no output of a job."""
    with suppress(StorageError):
        if any(output_files(study.session.files)):
            return "Bracket {}, index {}, rung {} printed nothing.".format(*job)
    return NOTHING_KEPT
