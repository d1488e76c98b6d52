"""Other tools that need an environment of their own: SMAC, BOHB and DEHB.

They run in a process of their own, `peer_worker`, and send evaluations to this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import TextIO

from deepband.errors import DeepbandError, InputError
from deepband.research.compare import peer_worker
from deepband.research.compare.ledger import ETA, Evaluation, Ledger
from deepband.research.compare.tuner import search

PEERS_PYTHON = Path(".venv-peers/bin/python")
"""Where `make test-all` installs the tuners of `peer_worker`."""
HOSTED = tuple(peer_worker.TUNERS)
"""The tuners that run there."""
PACKAGES = {"smac": "smac", "bohb": "hpbandster", "dehb": "dehb"}
"""What each of them needs."""
QUESTION = "import sys; from importlib.util import find_spec as f; print(*filter(f, sys.argv[1:]))"
"""A program that prints which of the given packages are installed."""
SEQUENTIAL = ("smac", "bohb")
"""Tuners that are compared on one worker only: how they use several depends on real time."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""SMAC's choices depend on the order of sets, and so on the seed of Python's hashes."""


def hosted(tuner: str, python: Path) -> Callable[[Ledger, int], None]:
    """Return a tuner of `peer_worker`, run by a Python interpreter that has it."""

    def run(ledger: Ledger, seed: int) -> None:
        if ledger.workers > 1 and tuner in SEQUENTIAL:
            raise InputError(
                f"{tuner} runs on one worker, but {ledger.workers} were given: give 1."
            )
        with started(python, task_of(tuner, ledger, seed)) as found:
            search(found, ledger)

    return run


@contextmanager
def started(python: Path, task: peer_worker.Task) -> Iterator[HostedTuner]:
    """Yield a tuner that runs in a process of its own, which is ended on exit."""
    with _process(python) as (process, errors):
        yield HostedTuner(process, errors, task)


@cache
def installed_tuners(python: Path) -> frozenset[str]:
    """Return the tuners whose packages a Python interpreter finds; none if it cannot be started."""
    command = [str(python), "-c", QUESTION, *PACKAGES.values()]
    folder = Path(peer_worker.__file__).parent  # where imports of the tuners' program start
    try:
        found = subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, cwd=folder
        ).split()
    except (OSError, subprocess.CalledProcessError):
        return frozenset()
    return frozenset(tuner for tuner, package in PACKAGES.items() if package in found)


def task_of(tuner: str, ledger: Ledger, seed: int) -> peer_worker.Task:
    """Return the first line that a tuner reads."""
    return {
        "tuner": tuner,
        "space": ledger.task.space.description,
        "eta": ETA,
        "max_budget": ledger.task.max_budget,
        "n_trials": ledger.task.schedule(ledger.width).evaluations,
        "seed": seed,
        "parallel": ledger.workers,
    }


@contextmanager
def _process(python: Path) -> Iterator[tuple[subprocess.Popen[str], TextIO]]:
    """Start the program of the tuners in a new folder, and end it on exit. Also yields what it
    writes to stderr."""
    with (
        tempfile.TemporaryDirectory(prefix="deepband-") as folder,
        tempfile.TemporaryFile("w+") as errors,
    ):
        process = subprocess.Popen(
            [str(python), "-W", "ignore", peer_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=os.environ | ENVIRONMENT,
        )
        try:
            yield process, errors
        finally:
            process.kill()
            process.communicate()


class HostedTuner:
    """The tuner that runs in a process. After the first evaluations, one per worker, it sends one
    for each result that it receives."""

    def __init__(
        self, process: subprocess.Popen[str], errors: TextIO, task: peer_worker.Task
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._errors, self._tuner = process, errors, task["tuner"]
        self._input, self._output = process.stdin, process.stdout
        self._numbers = count()
        self._send(task)

    def ask(self) -> Evaluation | None:
        line = self._output.readline()
        if not line:
            self._check_end()
            return None
        training, config, budget = json.loads(line)
        return Evaluation(str(training), config, budget, next(self._numbers))

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        self.send_loss(evaluation, -accuracy)

    def send_loss(self, evaluation: Evaluation, loss: float | Sequence[float]) -> None:
        """Record the loss of an evaluation, or the losses if the task names several objectives."""
        self._send([evaluation.handle, loss])

    def _check_end(self) -> None:
        """Raise if the program ended with an error: at once, because the search may end first, when
        its time is over."""
        if self._process.wait() != 0:
            self._errors.seek(0)
            raise DeepbandError(f"The tuner {self._tuner} failed: {self._errors.read()[-2000:]}")

    def _send(self, message: object) -> None:
        with suppress(BrokenPipeError):  # it has failed: nothing more comes from it
            print(json.dumps(message), file=self._input, flush=True)
