"""An objective that runs a command: the job in environment variables, the result in a file.

The convention is described in `docs/how-to/queues.md`. The command runs in a process group of its
own, so that Ctrl-C reaches only deepband, which lets the evaluation finish. If deepband itself is
killed, a small process that waits for its end kills the command: its job becomes available to
others at that moment, and two commands must not write to one folder.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from deepband.execution.context import Context
from deepband.system import plain_files
from deepband.system.process_tree import kill_group

MOST_BYTES = 2**20
"""The size of the largest result that is read."""
ENDING = {getattr(signal, name, None) for name in ("SIGTERM", "SIGINT", "SIGHUP")}
"""Signals with which a batch system or a user ends a command, whatever it evaluates."""


START = 'read -r _ < "/dev/fd/$0" && exec "$@"'
"""A shell script that becomes a command when it reads a line, and ends if its input does."""
GUARD = 'read -r _ || kill -s KILL -- "-$1"'
"""A shell script that kills a process group, unless it reads a line before its input ends."""


class CommandError(Exception):
    """A command ended with a status other than 0."""


class ResultFileError(Exception):
    """A command wrote no result, or one that is not JSON."""


@dataclass(frozen=True, slots=True)
class CommandObjective:
    """Evaluates a config with a command."""

    command: tuple[str, ...]
    study: str
    """The path of the study."""

    def __call__(self, config: Mapping[str, Any], budget: float, context: Context) -> object:
        with TemporaryDirectory(prefix="deepband-") as folder:
            place, job = Path(folder), self._job(config, budget, context)
            (place / "job.json").write_text(json.dumps(job, default=str))
            status = self._run({**os.environ, **self._variables(job, place)})
            return CommandError(_reason(status)) if status else _read_result(place)

    def _job(self, config: Mapping[str, Any], budget: float, context: Context) -> dict[str, Any]:
        return {
            "study": self.study,
            "config": dict(config),
            "budget": budget,
            "seed": context.seed,
            "checkpoint": str(context.path),
            "previous": None if context.previous is None else str(context.previous),
            "previous_budget": context.previous_budget,
            "partial": None if context.partial is None else str(context.partial),
        }

    def _variables(self, job: Mapping[str, Any], place: Path) -> dict[str, str]:
        """The environment variables that describe a job; those without a value are empty."""
        found = {
            f"DEEPBAND_{name.upper()}": "" if value is None else str(value)
            for name, value in job.items()
        }
        found["DEEPBAND_CONFIG"] = json.dumps(job["config"], default=str)
        found["DEEPBAND_JOB"] = str(place / "job.json")
        found["DEEPBAND_RESULT"] = str(place / "result.json")
        return found

    def _run(self, environment: Mapping[str, str]) -> int:
        """The exit status of the command. An interrupt ends it, with what it started."""
        process, start = _waiting(self.command, environment)
        try:
            with start, _guarded(process.pid):
                with suppress(BrokenPipeError):
                    start.write(b"start\n")
                status = process.wait()
        except BaseException:
            kill_group(process.pid)
            process.wait()
            raise
        if -status in ENDING:
            raise KeyboardInterrupt
        return status


def _waiting(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], BinaryIO]:
    """A process that becomes the command when a line is written to the file: not before something
    is there that kills it."""
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    reading, writing = os.pipe()
    words = ["/bin/sh", "-c", START, str(reading), *command]
    start = open(writing, "wb", buffering=0)  # noqa: SIM115 # closed by who starts it
    with open(reading, "rb"):
        process = subprocess.Popen(
            words, env=environment, pass_fds=[reading], start_new_session=True
        )
    return process, start


@contextmanager
def _guarded(group: int) -> Iterator[None]:
    """Kill a process group if this process ends within this block, however it does."""
    command = ["/bin/sh", "-c", GUARD, "sh", str(group)]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError):
            guard.communicate(b"ended\n")


def _reason(status: int) -> str:
    if status < 0:
        return f"the command was ended by the signal {signal.Signals(-status).name}"
    return f"the command ended with status {status}"


def _read_result(place: Path) -> object:
    """What the command wrote: a number or an object, or an exception if it is neither."""
    try:
        text = plain_files.read_file(place, "result.json", most=MOST_BYTES).decode()
        return float(text) if _is_number(text) else json.loads(text)
    except FileNotFoundError:
        return ResultFileError("the command wrote nothing to the file $DEEPBAND_RESULT")
    except (OSError, ValueError, RecursionError) as error:
        return ResultFileError(f"the result that the command wrote cannot be read: {error}")


def _is_number(text: str) -> bool:
    """Whether this is a number, also one that JSON does not have, such as nan."""
    try:
        float(text)
    except ValueError:
        return False
    return True
