"""The options of commands that run jobs: settings of a new study, and where and how jobs run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import click

from deepband.interfaces.cli.criteria_options import (
    constraints_option,
    merge_pairs,
    objectives_option,
)
from deepband.interfaces.cli.group import BUDGET, PATH, RESOURCES
from deepband.interfaces.cli.user_code import SPACE_FILE
from deepband.samplers import SAMPLERS
from deepband.storage.retention import KEEP

Command: TypeAlias = Callable[..., None]


def read_batch(
    context: click.Context, parameter: click.Parameter, given: str | None
) -> bool | int | None:
    """What `--batch`, with or without a number, stands for."""
    if given is None or given == "all":
        return None if given is None else True
    if not given.isascii() or not given.isdecimal() or int(given) < 1:
        raise click.BadParameter(f"{given!r}: give a whole number of 1 or more, or none.")
    return int(given)


OBJECTIVE = click.argument("objective", required=False)
SETTINGS = [
    click.option("--max-budget", type=BUDGET, help="The largest budget of the first run."),
    click.option("--min-budget", type=BUDGET, help="The smallest budget.  [default: 1]"),
    click.option("--eta", type=int, help="The budget factor between rungs.  [default: 3]"),
    click.option("--seed", type=int, help="The seed of all random choices.  [default: 0]"),
    click.option("--maximize", is_flag=True, default=None, help="Larger values are better."),
    objectives_option,
    constraints_option,
    click.option(
        "--integer-budgets/--exact-budgets",
        default=None,
        help="Round budgets down.  [default: if min and max are whole]",
    ),
    click.option("--width", type=int, help="The width of the first run.  [default: 1]"),
    click.option("--brackets", type=int, help="Only the first N brackets; 1: successive halving."),
    click.option(
        "--reuse-identical",
        is_flag=True,
        default=None,
        help="Let equal configs share one result per rung.",
    ),
    click.option("--sampler", help=f"One of {', '.join(SAMPLERS)}.  [default: uniform]"),
    click.option(
        "--parallel",
        type=int,
        help="How many workers you will use, for samplers that learn.  [default: 1]",
    ),
    click.option("--space", type=PATH, help=f"The search space: {SPACE_FILE}."),
    click.option(
        "--keep", default="newest", show_default=True, help=f"Checkpoints to keep: {KEEP}."
    ),
]
EXECUTION = [
    click.option("--workers", type=int, help="Number of concurrent evaluations.  [default: 1]"),
    click.option("--executor", help="dask://host:port, ray, ray://host:port or slurm."),
    click.option(
        "--resources",
        type=RESOURCES,
        multiple=True,
        callback=merge_pairs,
        help="What each job needs on Dask, Ray or Slurm, such as num_gpus=1; may be repeated.",
    ),
    click.option(
        "--devices", help="GPUs of worker processes, such as cuda:0,cuda:1; auto: all; cpu: none."
    ),
    click.option(
        "--per-device",
        type=int,
        default=1,
        show_default=True,
        help="Number of worker processes that share a device.",
    ),
    click.option(
        "--batch",
        is_flag=False,
        flag_value="all",
        callback=read_batch,
        metavar="[N]",
        help="Evaluate all configs of a budget, or up to N, in one call of OBJECTIVE.",
    ),
    click.option("--timeout", type=float, help="Time limit of one evaluation, in seconds."),
    click.option(
        "--retries",
        type=int,
        default=1,
        show_default=True,
        help="How often to retry a job whose worker died.",
    ),
    click.option(
        "--no-wait",
        "wait",
        flag_value=False,
        default=True,
        help="Abandon jobs still running from a dead process.",
    ),
    click.option(
        "--first-failures", type=int, help="Stop if the first N evaluations fail; 0: never."
    ),
    click.option("--max-seconds", type=float, help="Start no new job after this time."),
    click.option(
        "--no-progress", "progress", flag_value=False, default=True, help="Show no progress."
    ),
]
PRECHECK = click.option(
    "--precheck",
    metavar="FILE.py:FUNCTION",
    help="Train a config only if FUNCTION(config, budget) returns True.",
)
EXECUTION_NAMES = ["workers", "executor", "resources", "timeout", "retries", "wait"]
EXECUTION_NAMES += ["first_failures", "devices", "per_device", "progress", "batch"]


def options_of_runs(command: Command) -> Command:
    """Add the argument and the options that `run`, `auto-extend` and `work` share."""
    for option in reversed([OBJECTIVE, *SETTINGS, PRECHECK, *EXECUTION]):
        command = option(command)
    return command


def options_of_settings(command: Command) -> Command:
    """Add the settings of a new study."""
    for option in reversed(SETTINGS):
        command = option(command)
    return command
