"""Other tools that need an environment of their own: SMAC, BOHB and DEHB.

They run in a process of their own, `peer_worker`, and send evaluations to this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from deepband.errors import DeepbandError
from deepband.research.compare import peer_worker
from deepband.research.compare.ledger import Evaluation, Ledger
from deepband.research.compare.tuner import search

PEERS_PYTHON = Path(".venv-peers/bin/python")
"""Where `make test-all` installs the tuners of `peer_worker`."""
HOSTED = tuple(peer_worker.TUNERS)
"""The tuners that run there."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""SMAC's choices depend on the order of sets, and so on the seed of Python's hashes."""


def hosted(tuner: str, python: Path) -> Callable[[Ledger, int], None]:
    """Return a tuner of `peer_worker`, run by a Python interpreter that has it."""

    def run(ledger: Ledger, seed: int) -> None:
        with _process(tuner, python) as process:
            search(_Hosted(process, task_of(tuner, ledger, seed)), ledger)

    return run


def task_of(tuner: str, ledger: Ledger, seed: int) -> peer_worker.Task:
    """Return the first line that a tuner reads."""
    return {
        "tuner": tuner,
        "space": ledger.task.space.description,
        "max_budget": ledger.task.max_budget,
        "n_trials": ledger.task.schedule(ledger.width).evaluations,
        "seed": seed,
        "parallel": ledger.workers,
    }


@contextmanager
def _process(tuner: str, python: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the program of a tuner in a new folder. Raises if it fails, and ends it on exit."""
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
            yield process
            if process.wait() != 0:
                errors.seek(0)
                raise DeepbandError(f"The tuner {tuner} failed: {errors.read()[-2000:]}")
        finally:
            process.kill()
            process.communicate()


class _Hosted:
    """The tuner that runs in a process. After the first evaluations, one per worker, it sends one
    for each result that it receives."""

    def __init__(self, process: subprocess.Popen[str], task: peer_worker.Task) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._numbers = count()
        self._send(task)

    def ask(self) -> Evaluation | None:
        line = self._output.readline()
        if not line:
            return None
        training, config, budget = json.loads(line)
        return Evaluation(str(training), config, budget, next(self._numbers))

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        self._send([evaluation.handle, -accuracy])

    def _send(self, message: object) -> None:
        with suppress(BrokenPipeError):  # it has failed: nothing more comes from it
            print(json.dumps(message), file=self._input, flush=True)
