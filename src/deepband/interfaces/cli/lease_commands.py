"""The commands that need no driver: ask, tell, renew, release, exec, work."""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click

from deepband.core.leases import find_lease, leased_jobs
from deepband.core.records import Job
from deepband.errors import GoneError, InputError, counted
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.interfaces.cli.command_objective import CommandObjective
from deepband.interfaces.cli.group import (
    LOCKED,
    PATH,
    json_option,
    main,
    open_existing,
    study_argument,
)
from deepband.interfaces.cli.opened_study import (
    open_shared,
    opened_study,
    read_device_options,
    report_end,
    reported_failures,
)
from deepband.interfaces.cli.output import say, show
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.run_options import options_of_runs, options_of_settings
from deepband.interfaces.cli.user_code import load_space
from deepband.study.leased_jobs import lease_context
from deepband.study.study import Study

MOST_BYTES = 2**20
"""The size of the largest file with a result."""
jobs_option = click.option("--jobs", type=int, help="Evaluate at most this many jobs.")
lease_option = click.option(
    "--lease",
    type=float,
    default=3600.0,
    show_default=True,
    help="Seconds after which a job without a result becomes available again.",
)


class EvaluationError(Exception):
    """A failed evaluation that `tell --failed` reports."""


@main.command()
@study_argument
@options_of_runs
@jobs_option
def work(study: Path, jobs: int | None, max_seconds: float | None, **given: Any) -> None:
    """Evaluate jobs together with other processes that do the same.

    Start as many of them as you like, at any time, with the same command. The first one creates the
    study. Each one takes a job, evaluates it and records its result, until the run is done. There
    is no other process, and any of them can be stopped at any time. OBJECTIVE is the same as for
    `deepband run`.
    """
    read_device_options(given)
    Limits(max_seconds, max_jobs=jobs)  # raises if one is invalid
    with opened_study(study, given, shared=True) as (opened, objective, execution):
        opened.work(objective, jobs=jobs, max_seconds=max_seconds, **execution)
        report_end(opened, study, "a limit")


@main.command("exec")
@study_argument
@options_of_settings
@click.option(
    "--jobs", type=int, default=1, show_default=True, help="Evaluate at most this many jobs."
)
@click.option("--until-done", is_flag=True, help="Evaluate jobs until the run is done.")
@click.option("--timeout", type=float, help="Time limit of one evaluation, in seconds.")
@click.option("--max-seconds", type=float, help="Start no new job after this time.")
@click.option("--first-failures", type=int, help="Stop if the first N evaluations fail; 0: never.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(
    study: Path,
    jobs: int,
    until_done: bool,
    timeout: float | None,
    max_seconds: float | None,
    first_failures: int | None,
    command: tuple[str, ...],
    **settings: Any,
) -> None:
    """Ask for a job, run a command that evaluates it, and record the result.

    Write `--` before COMMAND. The command finds the job in the environment variables
    DEEPBAND_CONFIG (JSON), DEEPBAND_BUDGET, DEEPBAND_SEED, DEEPBAND_CHECKPOINT, DEEPBAND_PREVIOUS
    and DEEPBAND_PARTIAL (folders), and as JSON in the file DEEPBAND_JOB. It writes its result, a
    number or an object with "loss" and metrics, as JSON into the file DEEPBAND_RESULT. An exit
    status other than 0 is a failed evaluation.

    If other processes have leased all jobs, the command waits.
    """
    limits = Limits(max_seconds, max_jobs=None if until_done else jobs)
    if shutil.which(command[0]) is None:
        raise InputError(f"there is no command {command[0]!r}: write COMMAND after `--`.")
    objective = CommandObjective(command, str(study.absolute()))
    options = {"timeout": timeout, "first_failures": first_failures, "progress": False}
    with _opened(study, settings) as opened, reported_failures(opened, study):
        if first_failures is None:
            options["first_failures"] = _doubtful(opened, limits.max_jobs)
        _work(opened, objective, limits, options)
        if opened.done:
            say(f"run {opened.runs[-1].run} is done")


def _doubtful(study: Study, jobs: int | None) -> int:
    """How many failures show that the command itself is at fault: none once one has succeeded."""
    return 0 if study.session.state.standings.leaders else min(3, jobs or 3)


def _work(study: Study, objective: Objective, limits: Limits, options: dict[str, Any]) -> None:
    max_seconds = None if limits.max_seconds is None else float(limits.max_seconds)
    try:
        study.work(objective, jobs=limits.max_jobs, max_seconds=max_seconds, **options)
    except GoneError as error:
        raise (rescued(study, error) if study.session.has_unsaved else error) from error


@main.command()
@study_argument
@options_of_settings
@click.option("--count", type=int, default=1, show_default=True, help="At most this many jobs.")
@lease_option
@json_option
def ask(study: Path, count: int, lease: float, as_json: bool, **settings: Any) -> None:
    """Lease jobs, and print them.

    Each job has a token, with which `deepband tell` records its result, from any process. The
    folder `checkpoint` is empty and kept with the result; `previous` is what the config saved on a
    lower rung, and `partial` what an interrupted attempt at the same job saved.

    Exit code 75 means that no job is ready, because others have to be finished first. With a new
    STUDY, give --space and --max-budget.
    """
    with _opened(study, settings) as opened:
        jobs = opened.ask_all(limit=count, lease=lease, detached=True)
        found = [_described(opened, job) for job in jobs]
        leased = len(leased_jobs(opened.session.state, time.time()))
        nothing = f"no job is ready; {counted(leased, 'job')} leased"
        text = "\n".join(map(_text, found)) or ("the run is done" if opened.done else nothing)
        show({"done": opened.done, "jobs": found}, as_json, text)
        if not jobs and not opened.done:
            sys.exit(LOCKED)


def _described(study: Study, job: Job) -> dict[str, Any]:
    """What a process needs to evaluate a leased job."""
    context = lease_context(study.session, job)
    _, lease = find_lease(study.session.state, job.token)
    return {
        "token": job.token,
        "bracket": job.bracket,
        "index": job.index,
        "rung": job.rung,
        "budget": job.budget,
        "config": job.config,
        "seed": context.seed,
        "checkpoint": str(context.path),
        "previous": None if context.previous is None else str(context.previous),
        "previous_budget": context.previous_budget,
        "partial": None if context.partial is None else str(context.partial),
        "until": lease.until,
    }


def _text(job: dict[str, Any]) -> str:
    lines = [f"{job['token']}  budget {job['budget']:.6g}, seed {job['seed']}"]
    lines += [f"  {name} = {value!r}" for name, value in job["config"].items()]
    folders = ("checkpoint", "previous", "partial")
    return "\n".join(lines + [f"  {name}: {job[name]}" for name in folders if job[name]])


@main.command(context_settings={"ignore_unknown_options": True})  # for negative numbers
@study_argument
@click.argument("token")
@click.argument("result", required=False)
@click.option("--json", "file", type=PATH, help="A JSON file with the result; - is standard input.")
@click.option("--failed", help="Why the evaluation failed.")
def tell(
    study: Path, token: str, result: str | None, file: Path | None, failed: str | None
) -> None:
    """Record the result of a leased job.

    RESULT is a number, or a JSON object with "loss" (or "value") and metrics. A result is accepted
    after the end of the lease, too, unless another one was recorded.
    """
    given = [each for each in (result, file, failed) if each is not None]
    if len(given) != 1:
        raise InputError("give one of RESULT, --json and --failed.")
    text = result if file is None else _read_text(file)
    outcome = EvaluationError(failed) if text is None else _read_result(text)
    with open_existing(study) as opened:
        opened.tell(token, outcome)
        say(f"recorded {token.partition('.')[0]}{': the run is done' if opened.done else ''}")


def _read_text(file: Path) -> str:
    try:
        with click.open_file(str(file), encoding="utf-8") as stream:
            return str(stream.read(MOST_BYTES))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the result cannot be read from {file}: {error}.") from error


def _read_result(text: str) -> object:
    """A result as a user writes it: a number, or a JSON object."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(
            f"{text[:80]!r} is not a result: give a number, or a JSON object such as "
            '{"loss": 0.25, "accuracy": 0.75}.'
        )
    return found


@main.command()
@study_argument
@click.argument("token")
@lease_option
def renew(study: Path, token: str, lease: float) -> None:
    """Let the lease of a job start again from now, because its evaluation takes longer."""
    with open_existing(study) as opened:
        opened.renew(token, lease)
        say(f"renewed {token.partition('.')[0]}")


@main.command()
@study_argument
@click.argument("token")
def release(study: Path, token: str) -> None:
    """End the lease of a job, which becomes available again."""
    with open_existing(study) as opened:
        opened.release(token)
        say(f"released {token.partition('.')[0]}")


def _opened(path: Path, settings: dict[str, Any]) -> Study:
    """The study, which is created if it does not exist and its settings are given."""
    space = settings.pop("space")
    return open_shared(path, space=load_space(space) if space else None, **settings)
