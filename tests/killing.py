"""A study run in a process of its own, to be killed. Run as `python killing.py STUDY LEDGER`.

The objective keeps an append-only ledger of what it evaluated, apart from the study.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import deepband

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}
SETTINGS: dict[str, Any] = {"space": SPACE, "max_budget": 27, "eta": 3, "seed": 11}


def note(ledger: Path, line: str) -> None:
    """Append one line in one write."""
    with ledger.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def objective(ledger: Path, config: dict[str, Any], budget: int, context: deepband.Context) -> Any:
    trained = 0
    if context.previous is not None:
        trained = int((context.previous / "state").read_text())
        assert trained == context.previous_budget
    time.sleep(0.002)
    (context.path / "state").write_text(str(budget))
    note(ledger, context.path.relative_to(context.path.parents[2]).as_posix())
    if config["x"] < 0.1:
        raise ValueError("too small")
    return {"loss": random.Random(context.seed).random() / budget, "trained": trained}


def main(path: str, ledger: Path) -> None:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> Any:
        return objective(ledger, config, budget, context)

    settings = {} if Path(path).exists() else SETTINGS
    with deepband.open_study(path, **settings) as study:
        study.optimize(train)
        study.deepen("preserving", to=81)
        study.optimize(train)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
