"""The commands that read: quote, advice, status, explain, export, doctor."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from filelock import FileLock

from deepband.analysis import export as exports
from deepband.analysis import summary
from deepband.core.evaluations import best_evaluation
from deepband.core.strategies import StrategyName
from deepband.errors import InputError, StorageError
from deepband.execution.outbox import Outbox
from deepband.interfaces.cli.group import (
    PATH,
    brackets_option,
    json_option,
    main,
    open_existing,
    output_path,
    strategy_option,
    study_argument,
    to_option,
    width_option,
)
from deepband.interfaces.cli.output import describe_both, describe_status, show
from deepband.interfaces.file_output import write_file
from deepband.storage.sqlite import SqliteStorage
from deepband.storage.sqlite_errors import ADVICE


@main.command()
@study_argument
@to_option
@width_option
@brackets_option
@strategy_option()
@json_option
def quote(
    study: Path,
    to: float | None,
    width: int | None,
    brackets: int | None,
    strategy: StrategyName | None,
    as_json: bool,
) -> None:
    """Show what an extension would reuse, add and cost.

    Without --to, --width and --brackets it is a deepening by one level.
    """
    quoted = open_existing(study).quote(strategy, to, width=width, brackets=brackets)
    show(quoted, as_json)


@main.command()
@study_argument
@click.option("--workers", type=int, default=1, help="Estimate times for this many workers.")
@json_option
def advice(study: Path, workers: int, as_json: bool) -> None:
    """Say which next step is likely to pay most: deepen, widen or stop."""
    show(open_existing(study).advice(workers), as_json)


@main.command()
@study_argument
@json_option
def status(study: Path, as_json: bool) -> None:
    """Show the progress of the current run.

    The last lines show the best evaluation on any budget and, if it is another one, the best on the
    highest budget.
    """
    session = open_existing(study).session
    state = session.state
    running = [key for each in Outbox(session.files).running() for key in each.keys]
    progress = summary.status(state, running=len(summary.without_result(state, running)))
    first = f"study    {study}, {state.objective or 'no objective named'}"
    found = {"status": progress, "best": best_evaluation(state)}
    show(
        {"study": study, "objective": state.objective, **found},
        as_json,
        f"{first}\n{describe_status(progress)}\n\n{describe_both(state, study)}",
    )


@main.command()
@study_argument
@click.argument("bracket", type=int)
@click.argument("index", type=int)
@json_option
def explain(study: Path, bracket: int, index: int, as_json: bool) -> None:
    """Say why a config was or was not promoted.

    There is one line per rung and run.
    """
    verdicts = open_existing(study).explain(bracket, index)
    show(verdicts, as_json, "\n".join(map(str, verdicts)))


@main.command()
@study_argument
@click.option("--format", "kind", type=click.Choice(list(exports.FORMATS)), default="csv")
@click.option(
    "--canonical", is_flag=True, help="Only what decisions depend on, to compare studies."
)
@click.option("-o", "--output", type=PATH, help="Write to this file.")
def export(study: Path, kind: str, canonical: bool, output: Path | None) -> None:
    """Write every evaluation as CSV or JSON lines.

    The canonical form is JSON lines, sorted by bracket, index and rung, without times, workers and
    paths: equal studies give equal bytes.
    """
    state = open_existing(study).session.state
    lines = exports.canonical(state) if canonical else exports.FORMATS[kind](state)
    content = "".join(f"{line}\n" for line in lines).encode()  # UTF-8, whatever the locale
    if output is None:
        click.echo(content, nl=False)
    else:
        write_file(output_path(output, study), content)


@main.command()
@click.argument("study", type=PATH, default=Path("any.study"))
@json_option
def doctor(study: Path, as_json: bool) -> None:
    """Check that a study is undamaged and safely stored.

    The file is only read: its pages, references and checksums, and whether its facts are
    consistent. The output also covers SQLite, the file system, locks and free space.
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
    is_safe = found["strict_tables"] and found["locks"] and not found["network_file_system"]
    found["good"] = bool(is_safe and not problems)
    show(found, as_json, "\n".join(_findings(found, is_safe)))
    if not found["good"]:
        raise SystemExit(1)


def _findings(found: dict[str, Any], is_safe: bool) -> Iterator[str]:
    for name, value in found.items():
        if name != "problems":
            yield f"{name:20} {value}"
        if name == "study":
            yield from (f"  {problem}" for problem in found["problems"])
    if found["problems"]:
        yield "Do not continue with this file: restore a backup."
    if not is_safe:
        yield "A study is not safe here: use a local disk and SQLite 3.37 or newer."


def _problems(study: Path) -> list[str]:
    """The problems of a study file."""
    try:
        return SqliteStorage(study, looks_only=True).problems()
    except StorageError as error:
        return [error.problem.removesuffix(ADVICE).strip()]


NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "fuse.sshfs", "afs", "ceph"}


def _file_system(folder: Path) -> str:
    """The type of the file system that a folder is on."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    above = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _locks(folder: Path) -> bool:
    """Whether a lock can be taken in a folder and excludes a second one."""
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as trial:
        path = Path(trial) / "lock"
        first, second = (
            FileLock(path, timeout=0, fallback_to_soft=False, is_singleton=False) for _ in range(2)
        )
        with first:
            try:
                second.acquire()
            except TimeoutError:
                return True
            second.release()
    return False
