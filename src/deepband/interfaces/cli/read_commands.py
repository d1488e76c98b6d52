"""The commands that read: quote, advice, explain, predict, export, doctor."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepband.analysis import export as exports
from deepband.analysis.explanation import Verdict
from deepband.core.strategies import StrategyName
from deepband.errors import InputError, StorageError
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
from deepband.interfaces.cli.output import show
from deepband.interfaces.file_output import write_file
from deepband.storage.sqlite import SqliteStorage
from deepband.storage.sqlite_errors import ADVICE
from deepband.system.file_locks import NETWORK, exclude_processes, is_shared_safely, mount_of

if TYPE_CHECKING:  # it loads SciPy
    from deepband.analysis.learning_curves.prediction import Prediction

NAMED = ("objectives", "front")
"""What only objectives with names have."""
SHARES = (0.5, 0.8, 0.95)
"""The probabilities of the intervals of a prediction in JSON."""


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
@click.argument("bracket", type=int)
@click.argument("index", type=int)
@json_option
def explain(study: Path, bracket: int, index: int, as_json: bool) -> None:
    """Say why a config was or was not promoted.

    There is one line per rung and run.
    """
    opened = open_existing(study)
    verdicts = opened.explain(bracket, index)
    left_out = () if opened.session.state.criteria.objectives else NAMED
    rows = [_fields_but(each, left_out) for each in verdicts]
    show(rows, as_json, "\n".join(map(str, verdicts)))


def _fields_but(record: Verdict | Prediction, left_out: Sequence[str]) -> dict[str, Any]:
    names = [field.name for field in fields(record) if field.name not in left_out]
    return {name: getattr(record, name) for name in names}


@main.command()
@study_argument
@click.argument("bracket", type=int)
@click.argument("index", type=int)
@click.option("--budget", type=float, help="That of a rung; by default, max_budget.")
@json_option
def predict(study: Path, bracket: int, index: int, budget: float | None, as_json: bool) -> None:
    """Predict the result of a config with a larger budget.

    The line ends with the interval that contains the result with a probability of 95 %.
    """
    found = open_existing(study).predict(bracket, index, budget)
    row = _fields_but(found, ("maximize", "distribution"))
    row["intervals"] = {f"{share:g}": found.interval(share) for share in SHARES}
    show(row, as_json, found)


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
    consistent. The output also covers SQLite, the file system, free space and locks: whether they
    exclude other processes, and whether several processes can share a study (`leases`).
    """
    folder = study.absolute().parent
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist.")
    kind, options = mount_of(folder)
    problems = _problems(study) if study.exists() else None
    found: dict[str, Any] = {
        "study": "there is none" if problems is None else "damaged" if problems else "whole",
        "problems": problems or [],
        "sqlite": sqlite3.sqlite_version,
        "strict_tables": sqlite3.sqlite_version_info >= (3, 37),
        "folder": str(folder),
        "file_system": kind,
        "network_file_system": kind in NETWORK,
        "locks": (locks := exclude_processes(folder)),
        "leases": locks and is_shared_safely(kind, options),
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
    if not found["leases"]:
        yield (
            "Several processes cannot share a study here, because locks do not exclude all of "
            "them: `deepband work`, `exec`, `ask` and `tell` are refused."
        )


def _problems(study: Path) -> list[str]:
    """The problems of a study file."""
    try:
        return SqliteStorage(study, looks_only=True).problems()
    except StorageError as error:
        return [error.problem.removesuffix(ADVICE).strip()]
