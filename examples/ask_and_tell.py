"""Ask and tell: your own loop runs the jobs, the study says which.

Gradient descent climbs down Rosenbrock's valley; a budget is a number of steps. Two helpers take
part. The first has little time: it gives jobs back that are too long for it. What diverges is told
as a failure, and costs only itself.

    pip install deepband
    python examples/ask_and_tell.py
"""

from __future__ import annotations

import math
from typing import Any

import deepband

space: dict[str, Any] = {"rate": (1e-5, 1e-1, "log"), "momentum": (0.0, 0.99)}


def descend(rate: float, momentum: float, steps: int) -> float:
    """The height that is reached; a step too far raises OverflowError."""
    x, y, dx, dy = -1.0, 1.5, 0.0, 0.0
    for _ in range(steps):
        slope = 200 * (y - x**2)
        dx = momentum * dx - rate * (-2 * (1 - x) - 2 * x * slope)
        dy = momentum * dy - rate * slope
        x, y = x + dx, y + dy
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def attempt(job: deepband.Job) -> float | OverflowError:
    """What came of a job: a loss, or the exception that it ended with."""
    try:
        return descend(steps=int(job.budget), **job.config)
    except OverflowError as failure:
        return failure


def help_out(study: deepband.Study, longest: float = math.inf) -> int:
    """Run the jobs that are offered, in batches, and give back those that are longer than
    `longest`. Returns how many were run."""
    told = 0
    while not study.done:
        jobs = study.ask_all()
        mine = [job for job in jobs if job.budget <= longest]
        for job in jobs:
            if job not in mine:
                study.release(job)
        if not mine:
            break
        study.tell_all((job, attempt(job)) for job in mine)
        told += len(mine)
    return told


def main() -> None:
    with deepband.open_study(
        "ask_and_tell.study", space=space, min_budget=10, max_budget=90
    ) as study:
        for max_budget in (90, 270, 810):  # where the study has been, `deepen` does nothing
            study.deepen("preserving", to=max_budget)
            short, rest = help_out(study, longest=30), help_out(study)
            print(f"max_budget {max_budget}: {short} jobs by the first helper, {rest} by the other")
        failed = sum(each.loss is None for each in study.evaluations)
        print(f"{len(study.evaluations)} evaluations, {failed} failed")
        best = study.best
        print(f"best after {best.budget} steps: {best.loss:.3g} with {best.config}")


if __name__ == "__main__":
    main()
