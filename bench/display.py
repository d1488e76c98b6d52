"""What the display of progress costs: CPU time of `optimize` with it and without, alternately.

    python bench/display.py

The display is drawn to a pseudo-terminal. The study is in memory. In the first table the objective
computes for as long as it takes to make about 1,000 evaluations per second; in the second it does
nothing, so that `optimize` makes as many as it can.
"""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import deepband
from deepband.analysis.text import table

SPACE = {"learning_rate": (1e-5, 1e-1, "log"), "momentum": (0.1, 0.99), "layers": (1, 5)}
PAIRS = 9
SIZES = {"busy": (243, 1), "nothing": (729, 2)}
"""By objective: max_budget and width."""

Objective = Callable[[dict[str, Any], float], float]


def busy(config: dict[str, Any], budget: float) -> float:
    end = time.thread_time() + 0.0008
    while time.thread_time() < end:
        pass
    return float(config["momentum"])


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["momentum"])


@contextmanager
def terminal() -> Iterator[None]:
    """Let stderr be a terminal, whose output another process reads."""
    reader, writer = pty.openpty()
    with subprocess.Popen(["cat"], stdin=reader, stdout=subprocess.DEVNULL) as drain:
        os.close(reader)
        try:
            with open(writer, "w") as stream, redirect_stderr(stream):
                yield
        finally:
            drain.kill()


def measure(objective: Objective, progress: Any) -> tuple[float, float]:
    """The CPU seconds of a whole run, and its evaluations per second."""
    max_budget, width = SIZES[objective.__name__]
    study = deepband.open_study(space=SPACE, max_budget=max_budget, width=width)
    begun, start = time.monotonic(), time.process_time()
    study.optimize(objective, progress=progress)
    used = time.process_time() - start
    return used, len(study.evaluations) / (time.monotonic() - begun)


def snapshot(progress: deepband.Progress) -> None:
    pass


def main() -> None:
    rows = [["CPU time compared with progress=False", "median", "middle half", "evaluations/s"]]
    with terminal():
        for objective in (busy, nothing):
            measure(objective, True)  # loads what the display needs
            for given, name in ((False, "again"), (True, "display"), (snapshot, "function")):
                shares, rates = [], []
                for pair in range(PAIRS):
                    order = (False, given) if pair % 2 else (given, False)
                    found = [measure(objective, each) for each in order]
                    off, on = found if pair % 2 else reversed(found)
                    shares.append(100 * (on[0] / off[0] - 1))
                    rates.append(on[1])
                low, middle, high = statistics.quantiles(shares, n=4)
                row = [f"{objective.__name__}, {name}", f"{middle:+.2f} %"]
                rows.append([*row, f"{low:+.2f} to {high:+.2f}", f"{statistics.median(rates):.0f}"])
    print(table(rows))


if __name__ == "__main__":
    main()
