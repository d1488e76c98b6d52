"""What all commands share: the group that they belong to, its exit codes, common options."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import deepband
from deepband.analysis.formatting import printable
from deepband.core.strategies import NAMES

USAGE, HELD, INTERRUPTED = 2, 75, 130
SQLITE = b"SQLite format 3\0"
Command = Callable[..., None]
if TYPE_CHECKING:
    _Number = click.ParamType[int | float]
    _Resources = click.ParamType[list[tuple[str, float]]]
else:  # it takes no type before click 8.4
    _Number = _Resources = click.ParamType


class Commands(click.Group):
    """Turns our errors into a message and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except deepband.DeepbandError as error:
            _complain(f"Error: {error}")
            ctx.exit(_code(error))
        except KeyboardInterrupt:
            _complain("Interrupted. What is done is kept: run it again to go on.")
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deepband.__version__, message="%(version)s")
def main() -> None:
    """Hyperband that you can deepen: tune, look, and go on with a larger budget.

    Exit codes: 0 good, 1 failed, 2 wrong usage, 75 held by another driver, 130 interrupted.
    """


class BudgetType(_Number):
    """A number as it is written: whole if it looks so, else a decimal."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        try:
            return int(value) if str(value).lstrip("+-").isdecimal() else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)


class ResourcesType(_Resources):
    """What each job needs of a cluster: NAME=NUMBER, or several of them with commas."""

    name = "name=number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[str, float]]:
        found = []
        for each in str(value).split(","):
            name, _, number = (part.strip() for part in each.partition("="))
            if not name or not number:
                self.fail(f"{each!r} is not NAME=NUMBER, such as num_gpus=1.", param, ctx)
            amount = BUDGET.convert(number, param, ctx)
            if not 0 <= amount < math.inf:
                self.fail(f"{each!r}: give a number of 0 or more.", param, ctx)
            found.append((name, amount))
        return found


def merge_resources(
    ctx: click.Context, param: click.Parameter, given: Sequence[list[tuple[str, float]]]
) -> dict[str, float] | None:
    """An option that may be repeated, as one mapping; None if it is left out."""
    found: dict[str, float] = {}
    for name, amount in chain.from_iterable(given):
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice.", ctx, param)
        found[name] = amount
    return found or None


BUDGET = BudgetType()
RESOURCES = ResourcesType()
PATH = click.Path(path_type=Path)

study_argument = click.argument("study", type=PATH)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def deepening_options(command: Command) -> Command:
    """Which way to deepen, and how far."""
    how_far = click.option("--to", type=BUDGET, help="The new max_budget.  [default: eta times it]")
    who = click.option(
        "--strategy",
        type=click.Choice(list(NAMES)),
        default="preserving",
        show_default=True,
        help="Who goes up a rung; frugal is outside the paper's guarantees.",
    )
    return who(how_far(command))


def open_existing(path: Path) -> deepband.Study:
    """A study that is there; it is never made by looking at it."""
    if not os.path.exists(path):  # a path that is too long is not there, either
        raise deepband.InputError(f"there is no study {path}. `deepband run` makes one.")
    return deepband.open_study(path)


def output_path(output: Path, study: Path, suffixes: Sequence[str] = ()) -> Path:
    """A file that may be written: not one of the study's own, nor another study."""
    output, study = output.absolute(), study.absolute()
    if not output.parent.is_dir():
        raise deepband.InputError(f"the folder {output.parent} does not exist.")
    if output.name.startswith(study.name) and output.parent.samefile(study.parent):
        raise deepband.InputError(f"{output} belongs to the study: give another file.")
    if suffixes and output.suffix.lower() not in suffixes:
        raise deepband.InputError(f"{output.name} must end in {' or '.join(suffixes)}.")
    if _is_database(output):
        raise deepband.InputError(f"{output} is a study, or another database: give another file.")
    return output


def write_output(path: Path, content: bytes) -> None:
    """Write a file whole or leave what was there; raises an OSError if it cannot be written. What a
    link leads to is replaced, not the link, and a device or a FIFO is written to."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()
    made = target.with_name(f".deepband-{os.getpid()}")
    try:
        made.write_bytes(content)
        made.replace(target)
    except OSError:
        made.unlink(missing_ok=True)
        raise


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _code(error: deepband.DeepbandError) -> int:
    if isinstance(error, deepband.LockedError):
        return HELD
    return USAGE if isinstance(error, deepband.InputError) else 1


def _complain(text: str) -> None:
    sys.stdout.flush()
    for line in text.splitlines():
        click.echo(printable(line), err=True)
