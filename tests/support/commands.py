"""Runs commands of deepband in one process: a line of JSON in, a line of JSON out.

The separate process can be killed if a command hangs. It serves all commands, because starting
Python takes longer than most of them.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SECONDS = 60.0
"""How long a command may take until it counts as hanging; all take much less."""


class Ended(NamedTuple):
    """How a command ended."""

    command: str
    code: int
    output: str
    trace: str
    """The traceback of an unhandled exception, or a note that the command hung."""


class Commands:
    """Runs commands in a folder. The process is restarted after a command that hung."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self, *arguments: str) -> Ended:
        """Run one command to its end."""
        process = self._process or self._start()
        assert process.stdin
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        try:
            code, output, trace = json.loads(self._answers.get(timeout=SECONDS))
        except (queue.Empty, ValueError):
            self.close()
            return Ended(arguments[0], -1, "", "it hung, or ended the process")
        return Ended(arguments[0], code, output, trace)

    def close(self) -> None:
        """Kill the process and all processes that it started."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        pipe, script = subprocess.PIPE, Path(__file__).absolute()
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=pipe,
            stdout=pipe,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        self._answers = queue.SimpleQueue()
        threading.Thread(target=_read, args=(self._process, self._answers), daemon=True).start()
        return self._process


def _read(process: subprocess.Popen[str], answers: queue.SimpleQueue[str]) -> None:
    assert process.stdout
    for line in process.stdout:
        answers.put(line)
    answers.put("")


def answer(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run one command in this process."""
    from click.testing import CliRunner

    from deepband.interfaces.cli import main

    done = CliRunner().invoke(main, list(arguments))
    trace = ""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        trace = "".join(traceback.format_exception(done.exception))
    return done.exit_code, done.output, trace


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output must not look like an answer
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
