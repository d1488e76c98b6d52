"""The command group: exit codes, and the arguments, options and file checks that commands share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import deepband
from deepband.analysis.text import printable
from deepband.core.strategies import NAMES, StrategyName
from deepband.interfaces.cli.option_names import rename_arguments

USAGE, LOCKED, INTERRUPTED = 2, 75, 130
SQLITE = b"SQLite format 3\0"
Command = Callable[..., None]
if TYPE_CHECKING:
    _Number = click.ParamType[int | float]
    _Resources = click.ParamType[list[tuple[str, float | str]]]
else:  # ParamType is not generic before click 8.4
    _Number = _Resources = click.ParamType


class OneCommand(click.Command):
    """A command whose errors name its options."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except deepband.DeepbandError as error:
            rename_arguments(error, ctx)
            raise


class Commands(click.Group):
    """A group that turns deepband's errors into a message and an exit code."""

    command_class = OneCommand

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except deepband.DeepbandError as error:
            _report_error(f"Error: {error}")
            ctx.exit(_code(error))
        except KeyboardInterrupt:
            _report_error("Interrupted. Finished work is saved: run the command again to resume.")
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deepband.__version__, message="%(version)s")
def main() -> None:
    """Hyperband you can extend: tune, inspect, and continue with a larger budget.

    Exit codes: 0 success, 1 failure, 2 wrong usage, 75 study locked by another process or no job
    ready, 130 interrupted.
    """


class BudgetType(_Number):
    """A number: an int if it is written as one, otherwise a float."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        try:
            return int(value) if str(value).lstrip("+-").isdecimal() else float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number.", param, ctx)


TEXTS = {"account", "comment", "constraint", "dependency", "exclude", "gres", "mail_type"}
TEXTS |= {"mail_user", "mem", "mem_per_cpu", "mem_per_gpu", "name", "nodelist", "partition"}
TEXTS |= {"qos", "wckey"}
"""What Slurm takes as text. All other resources are numbers."""


class ResourcesType(_Resources):
    """One or more NAME=NUMBER pairs, separated by commas. For Slurm, some values are text."""

    name = "name=number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[str, float | str]]:
        found = list[tuple[str, float | str]]()
        for each in str(value).split(","):
            name, _, given = (part.strip() for part in each.partition("="))
            if not name or not given:
                self.fail(f"{each!r} is not NAME=NUMBER, such as num_gpus=1.", param, ctx)
            if name.removeprefix("slurm_") in TEXTS and not given.isdecimal():
                found.append((name, given))
                continue
            amount = BUDGET.convert(given, param, ctx)
            if not 0 <= amount < math.inf:
                self.fail(f"{each!r}: give a number of 0 or more.", param, ctx)
            found.append((name, amount))
        return found


BUDGET = BudgetType()
RESOURCES = ResourcesType()
PATH = click.Path(path_type=Path)

study_argument = click.argument("study", type=PATH)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


to_option = click.option(
    "--to", type=BUDGET, help="The new max_budget.  [default: eta times the current one]"
)
width_option = click.option("--width", type=int, help="The new width.")
brackets_option = click.option("--brackets", type=int, help="The new number of brackets.")
unfinished_option = click.option(
    "--unfinished", is_flag=True, help="Do not wait for open jobs of the current run."
)


def strategy_option(default: StrategyName | None = None) -> Callable[[Command], Command]:
    """The option --strategy. Without a default, it is that of `Study.extend`."""
    shown = default or "efficient if only the width grows, else preserving"
    return click.option(
        "--strategy",
        type=click.Choice(list(NAMES)),
        default=default,
        help="Which configs are promoted; frugal is outside the paper's guarantees.  "
        f"[default: {shown}]",
    )


def open_existing(path: Path) -> deepband.Study:
    """Open a study, and raise if there is none: a command that reads must not create one."""
    if not os.path.exists(path):  # False, not an error, if the path is too long
        raise deepband.InputError(f"there is no study {path}. Create it with `deepband run`.")
    return deepband.open_study(path)


def output_path(output: Path, study: Path, suffixes: Sequence[str] = ()) -> Path:
    """The absolute path of a file to write. Raises if that file belongs to a study."""
    output, study = output.absolute(), study.absolute()
    if not output.parent.is_dir():
        raise deepband.InputError(f"the folder {output.parent} does not exist.")
    if output.name.startswith(study.name) and output.parent.samefile(study.parent):
        raise deepband.InputError(f"{output} belongs to the study: choose another file.")
    if suffixes and output.suffix.lower() not in suffixes:
        raise deepband.InputError(f"{output.name} must end in {' or '.join(suffixes)}.")
    if _is_database(output):
        raise deepband.InputError(f"{output} is a study or another database: choose another file.")
    return output


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SQLITE)) == SQLITE


def _code(error: deepband.DeepbandError) -> int:
    if isinstance(error, deepband.LockedError):
        return LOCKED
    return USAGE if isinstance(error, deepband.InputError) else 1


def _report_error(text: str) -> None:
    sys.stdout.flush()
    for line in text.splitlines():
        click.echo(printable(line), err=True)
