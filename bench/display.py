"""What the display of progress costs: CPU time of `optimize` with it and without, alternately.

    python bench/display.py

The display is drawn to a pseudo-terminal. The study is in memory. A "busy" objective computes for
as long as it takes to make about 1,000 evaluations per second on an idle machine; the other one
does nothing, so that `optimize` makes as many as it can. "again" compares progress=False with
itself: the noise. Since noise is larger than the cost, the CPU time of one redraw is measured
alone, too.
"""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from itertools import count
from typing import Any

import deepband
from deepband.analysis.text import table
from deepband.execution.display import SECONDS_BETWEEN_VIEWS
from deepband.execution.pace import Started
from deepband.execution.progress import RunMeter
from deepband.execution.terminal_view import TerminalView

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
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(["cat"], stdin=reader, stdout=nowhere, stderr=nowhere) as drain:
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


def redraw(evaluations_per_second: int) -> float:
    """The mean CPU seconds of one redraw over a run of 18,113 evaluations."""
    study = deepband.open_study(space=SPACE, max_budget=729, width=10)
    meter, view = RunMeter(1, time.monotonic()), TerminalView(sys.stderr)
    every, used = round(evaluations_per_second * SECONDS_BETWEEN_VIEWS), []
    meter.read(study.session.state, [], time.monotonic())
    for number in count(1):
        job = study.ask()
        if job is None:
            break
        study.tell(job, {"loss": job.config["momentum"], "accuracy": 0.5})
        if number % every:
            continue
        started = [Started(job, time.monotonic())]
        start = time.process_time()
        view.show(meter.read(study.session.state, started, time.monotonic()), [])
        used.append(time.process_time() - start)
    return statistics.mean(used)


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
        redraws = {rate: redraw(rate) for rate in (4, 1000)}
    print(table(rows))
    for rate, used in redraws.items():
        share = used / SECONDS_BETWEEN_VIEWS
        print(f"redraws at {rate} evaluations/s: {1e6 * used:.0f} µs each, {share:.2%} of a core")


if __name__ == "__main__":
    main()
