"""The commands that look: plan, quote, advice, status, best, explain, export, doctor."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import warnings
from pathlib import Path
from typing import Any

import click
from filelock import FileLock

from deepband.analysis import export as exporting
from deepband.analysis import summary
from deepband.core.evaluations import best_evaluation, best_evaluation_at
from deepband.core.strategies import StrategyName
from deepband.errors import InputError, StorageError
from deepband.execution.outbox import Outbox
from deepband.interfaces.cli.group import (
    PATH,
    deepening_options,
    json_option,
    main,
    open_existing,
    output_path,
    study_argument,
    write_output,
)
from deepband.interfaces.cli.output import (
    describe,
    describe_forecasts,
    describe_status,
    say,
    say_json,
)
from deepband.storage import SqliteStorage
from deepband.storage.sqlite_errors import ADVICE
from deepband.study.forecast import forecast


@main.command()
@study_argument
@click.option("--workers", type=int, help="Also tell how long so many workers take.")
@click.option("--seconds-per-unit", type=float, help="How long a unit of budget takes.")
@click.option("--resumed", is_flag=True, help="Training continues from the rung below.")
@json_option
def plan(
    study: Path, workers: int | None, seconds_per_unit: float | None, resumed: bool, as_json: bool
) -> None:
    """How many configs the current run puts on which budget, and how long that takes.

    With --workers and --seconds-per-unit, the current run and each way of deepening are simulated:
    seconds, how busy the workers are, the seconds that no order of jobs can do without, and how
    many workers are worth having (where twice as many save less than a tenth).
    """
    if (workers is None) != (seconds_per_unit is None):
        raise InputError("--workers and --seconds-per-unit belong together: give both or none.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opened = open_existing(study)
        planned = opened.plan()
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    forecasts = []
    if workers is not None and seconds_per_unit is not None:
        forecasts = forecast(opened, workers, seconds_per_unit, resumed=resumed)
    if not as_json:
        say(planned)
        if forecasts:
            say("\n" + describe_forecasts(forecasts))
        return
    sizes = {bracket: planned.sizes(bracket) for bracket in planned.schedule.brackets}
    say_json(
        {
            "budgets": planned.budgets,
            "sizes": sizes,
            "configs": planned.configs,
            "evaluations": planned.evaluations,
            "cost": planned.cost,
            "cost_resumed": planned.cost_resumed,
            "forecasts": forecasts,
        }
    )


@main.command()
@study_argument
@deepening_options
@json_option
def quote(study: Path, strategy: StrategyName, to: float | None, as_json: bool) -> None:
    """What deepening would re-use, add and cost."""
    quoted = open_existing(study).quote(strategy, to)
    (say_json if as_json else say)(quoted)


@main.command()
@study_argument
@json_option
def advice(study: Path, as_json: bool) -> None:
    """Whether deepening is likely to pay, and why."""
    (say_json if as_json else say)(open_existing(study).advice())


@main.command()
@study_argument
@json_option
def status(study: Path, as_json: bool) -> None:
    """Where the current run stands."""
    opened = open_existing(study)
    state = summary.status(opened.state, running=len(Outbox(opened.files).running()))
    if as_json:
        say_json({"study": study, "objective": opened.objective, "status": state})
    else:
        say(f"study    {study}, {opened.objective or 'no objective named'}")
        say(describe_status(state))
        say("")
        say(describe(best_evaluation(opened.state)))


@main.command()
@study_argument
@click.option("--rung", type=int, help="The best on this rung instead of on any.")
@json_option
def best(study: Path, rung: int | None, as_json: bool) -> None:
    """The best evaluation so far."""
    opened = open_existing(study)
    found = (
        best_evaluation(opened.state) if rung is None else best_evaluation_at(opened.state, rung)
    )
    if as_json:
        say_json(found)
    else:
        say(describe(found))


@main.command()
@study_argument
@click.argument("bracket", type=int)
@click.argument("index", type=int)
@json_option
def explain(study: Path, bracket: int, index: int, as_json: bool) -> None:
    """Why a config was or was not promoted, on each rung of each run."""
    verdicts = open_existing(study).explain(bracket, index)
    if as_json:
        say_json(verdicts)
    else:
        for verdict in verdicts:
            say(verdict)


@main.command()
@study_argument
@click.option("--format", "kind", type=click.Choice(list(exporting.FORMATS)), default="csv")
@click.option("--canonical", is_flag=True, help="Only what was decided from, to compare studies.")
@click.option("-o", "--output", type=PATH, help="Write to this file.")
def export(study: Path, kind: str, canonical: bool, output: Path | None) -> None:
    """Every evaluation, as csv or as lines of JSON.

    The canonical form is lines of JSON sorted by bracket, index and rung, without times, workers
    and paths: equal studies give equal bytes.
    """
    state = open_existing(study).state
    lines = exporting.canonical(state) if canonical else exporting.FORMATS[kind](state)
    content = "".join(f"{line}\n" for line in lines).encode()  # whatever the locale says
    if output is None:
        click.echo(content, nl=False)
        return
    try:
        write_output(output_path(output, study), content)
    except OSError as error:
        raise InputError(f"{output} cannot be written: {error}.") from error


@main.command()
@click.argument("study", type=PATH, default=Path("any.study"))
@json_option
def doctor(study: Path, as_json: bool) -> None:
    """Whether a study is whole, and safe here: its file, SQLite, file system, lock and free space.

    The file is only read: its pages, references, checksums, and whether its facts fit together.
    """
    folder = study.absolute().parent
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist.")
    kind = _file_system(folder)
    problems = _problems(study) if study.exists() else None
    found: dict[str, Any] = {
        "study": "there is none" if problems is None else "damaged" if problems else "whole",
        "problems": problems or [],
        "sqlite": sqlite3.sqlite_version,
        "strict_tables": sqlite3.sqlite_version_info >= (3, 37),
        "folder": str(folder),
        "file_system": kind,
        "network_file_system": kind in NETWORK,
        "locks": _locks(folder),
        "free_bytes": shutil.disk_usage(folder).free,
    }
    place = found["strict_tables"] and found["locks"] and not found["network_file_system"]
    found["good"] = bool(place and not problems)
    if as_json:
        say_json(found)
    else:
        _say_findings(found)
        if problems:
            say("Do not continue with this file: restore a backup of it.")
        if not place:
            say("A study should not be kept here: use a local disk and SQLite 3.37 or newer.")
    if not found["good"]:
        raise SystemExit(1)


def _say_findings(found: dict[str, Any]) -> None:
    for name, value in found.items():
        if name != "problems":
            say(f"{name:20} {value}")
        for problem in found["problems"] if name == "study" else ():
            say(f"  {problem}")


def _problems(study: Path) -> list[str]:
    """What is wrong with a study file, if anything."""
    try:
        return SqliteStorage(study, looks_only=True).problems()
    except StorageError as error:
        return [error.problem.removesuffix(ADVICE).strip()]


NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "fuse.sshfs", "afs", "ceph"}


def _file_system(folder: Path) -> str:
    """The type of the file system, from the longest mount point above a folder."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _locks(folder: Path) -> bool:
    """Whether a lock can be taken here, and keeps a second one out."""
    try:
        with tempfile.TemporaryDirectory(dir=folder) as trial:
            first, second = (
                FileLock(
                    Path(trial) / "lock", timeout=0, fallback_to_soft=False, is_singleton=False
                )
                for _ in range(2)
            )
            with first:
                try:
                    second.acquire()
                except TimeoutError:
                    return True
                second.release()
    except OSError:
        return False
    return False
