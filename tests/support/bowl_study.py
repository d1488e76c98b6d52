"""Small studies of a bowl with two parameters, whose order of configs hardly changes with the
budget: what tests of skips, stops and stopped training run."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import deepband
from deepband import Job, Study
from deepband.analysis.export import canonical

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def loss_of(config: dict[str, float], budget: float) -> float:
    return (config["x"] - 0.3) ** 2 + 0.1 * config["y"] + 0.2 / budget


def bowl(job: Job) -> object:
    """The loss of a job, as `tell` takes it; some configs fail."""
    return RuntimeError("too large") if job.config["x"] > 0.95 else loss_of(job.config, job.budget)


def train_in_steps(config: dict[str, float], budget: float, context: deepband.Context) -> float:
    """Reports its loss after every unit of budget. Some configs fail."""
    loss = math.inf
    for step in range(int(context.previous_budget) + 1, int(budget) + 1):
        loss = loss_of(config, step)
        context.report(step, loss)
        if context.should_stop():
            return loss
    if config["x"] > 0.95:
        raise RuntimeError("too large")
    return loss


def losses_of(configs: list[dict[str, float]], budget: float) -> list[float]:
    """An objective for batches."""
    return [loss_of(config, budget) for config in configs]


def open_study(place: Path | None = None, **given: Any) -> Study:
    return deepband.open_study(place, **{"space": SPACE, "max_budget": 9, "seed": 2, **given})


def exported(study: Study) -> list[str]:
    return list(canonical(study.session.state))


def finish_interrupted(study: Study, order: random.Random, **risks: float | None) -> None:
    """Run a study to its end, in any order. The process dies now and then: it has recorded results,
    but perhaps not the skips or the stop that follow."""
    while not study.done:
        jobs: list[Job] = []
        with study.session.omitting(**risks):
            for _ in range(order.randint(0, 4)):
                jobs += study.ask_all(limit=order.randint(1, 5))
                order.shuffle(jobs)
                count = order.randint(0, len(jobs))
                study.tell_all([(job, bowl(job)) for job in jobs[:count]])
                jobs = jobs[count:]
        for job in jobs:
            if order.random() < 0.5:
                study.tell(job, bowl(job))  # recorded, and the process died
            else:
                study.release(job)


def sharing(shares: bool) -> dict[str, Any]:
    """Settings of a study whose equal configs share results, or of a plain one."""
    if not shares:
        return {"sampler": "uniform"}
    space = {"x": [0.1, 0.2, 0.3, 0.4, 0.7, 0.8], "y": [0.0, 0.5]}
    return {"space": space, "sampler": "tpe", "reuse_identical": True}
