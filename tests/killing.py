"""A study run in a process of its own, to be killed: `python killing.py STUDY LEDGER WORKERS`.

The objective keeps an append-only ledger of what it evaluated, apart from the study.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle

import deepband
from deepband.executors import worker_process

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}
SETTINGS: dict[str, Any] = {"space": SPACE, "max_budget": 27, "eta": 3, "seed": 11}


def main(path: str, ledger: str, workers: int) -> None:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> Any:
        trained = 0
        if context.previous is not None:
            trained = int((context.previous / "state").read_text())
            assert trained == context.previous_budget
        draw = random.Random(context.seed)
        time.sleep(draw.uniform(0, 0.02))
        (context.path / "state").write_text(str(budget))
        line = context.path.name.partition(".")[0].replace("-", "/")
        with open(ledger, "ab", buffering=0) as file:  # one write, at the very end
            file.write(f"{line}\n".encode())
        if config["x"] < 0.1:
            raise ValueError("too small")
        return {"loss": draw.random() / budget, "trained": trained}

    settings = {} if Path(path).exists() else SETTINGS
    with deepband.open_study(path, **settings) as study:
        study.optimize(train, workers=workers, retries=10**6)
        study.deepen("frugal", to=81)
        study.optimize(train, workers=workers, retries=10**6)
        study.deepen("preserving", to=81)
        study.optimize(train, workers=workers, retries=10**6)


def idle() -> worker_process.WorkerProcess:
    """A worker that is never sent any order."""
    return worker_process.WorkerProcess(cloudpickle.dumps(os.getpid))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
