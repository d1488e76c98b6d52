"""Helpers to open and run studies."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import deepband
from deepband import Job, Study
from deepband.core.extension import options
from deepband.core.facts import JobKey
from deepband.core.strategies import StrategyName

SPACE = {"x": (0.0, 1.0)}
Objective = Callable[[Job], object]


def open_study(**settings: Any) -> Study:
    """A study in memory, with one parameter and a small schedule by default."""
    return deepband.open_study(**{"space": SPACE, "max_budget": 9, "eta": 3, **settings})


def key(job: Job) -> JobKey:
    return job.bracket, job.index, job.rung


def fail(error: Exception) -> None:
    raise error


def noisy(seed: int, failures: float = 0.0, ties: bool = False) -> Objective:
    """Losses that depend on (bracket, index, rung) only, and so not on the order of jobs."""

    def objective(job: Job) -> object:
        draw = random.Random(f"{seed} {key(job)}")
        if draw.random() < failures:
            return RuntimeError("failed on purpose") if draw.random() < 0.5 else float("inf")
        return float(draw.randrange(3)) if ties else draw.gauss(0, 1)

    return objective


def finish(study: Study, objective: Objective, order: random.Random | None = None) -> list[Job]:
    """Run a study to its end; with `order`, report in random order and in random batches."""
    done: list[Job] = []
    hand: list[Job] = []
    while not study.done:
        hand += study.ask_all()
        assert hand or study.done  # results that are shared can complete a run
        if order is not None:
            order.shuffle(hand)
        batch = hand[: order.randint(1, len(hand))] if order and hand else hand
        hand = hand[len(batch) :]
        study.tell_all([(job, objective(job)) for job in batch])
        done += batch
    return done


def deepened(strategies: Sequence[StrategyName], seed: int = 0, maximize: bool = False) -> Study:
    """A finished study, deepened by each strategy; by `preserving` where one is refused."""
    study = open_study(max_budget=3, maximize=maximize)
    objective = noisy(seed, failures=0.0 if maximize else 0.2)  # an infinite value is refused
    finish(study, objective, random.Random(seed))
    for strategy in strategies:
        possible = strategy in dict(options(study.session.state))
        study.deepen(strategy if possible else "preserving")
        finish(study, objective, random.Random(seed))
    return study


def extended(place: str | None = None, **settings: Any) -> Study:
    """A finished study with four runs: one bracket, wider, deeper with a second bracket, and deeper
    again before that was finished, with results that arrived late."""
    settings = {"space": SPACE, "max_budget": 3, "brackets": 1, **settings}
    study, objective = deepband.open_study(place, **settings), noisy(1, failures=0.1)
    finish(study, objective)
    study.widen()
    finish(study, objective)
    study.extend("preserving", max_budget=9, brackets=2)
    jobs = study.ask_all()
    study.tell_all([(job, objective(job)) for job in jobs[:-5]])
    late = jobs[-5:] + study.ask_all()
    study.deepen("efficient", unfinished=True)
    study.tell_all([(job, objective(job)) for job in late])
    finish(study, objective)
    return study


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait for a condition that must become true, however slow the machine is."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)
