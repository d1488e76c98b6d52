"""Calling an objective: how it is called, what it is given, and what came of it."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from deepband.checkpoints import Checkpoints
from deepband.errors import InputError
from deepband.records import Attempt, Job
from deepband.results import read_any_result

MOST_POINTS = 10_000
"""Points of a learning curve that are kept of an evaluation."""

Objective: TypeAlias = Callable[..., object]
"""`objective(config, budget)` or `objective(config, budget, context)`."""


@dataclass(frozen=True, slots=True)
class Context:
    """What an objective may use beside its config and budget."""

    seed: int
    """A function of the study's seed, the bracket, the index and the rung: seed training with it
    and it is repeatable."""
    path: Path
    """An empty folder to save into. It is kept when the result is recorded."""
    previous: Path | None = None
    """The folder that this config saved on the nearest lower rung, to be read only, or None."""
    previous_budget: int | float = 0
    """The budget of `previous`; 0 when there is none."""
    previous_rung: int | None = None
    partial: Path | None = None
    """What an interrupted attempt at this very job had saved, or None."""
    slot: int = 0
    """The number of the worker, from 0: for CUDA_VISIBLE_DEVICES and the like."""
    reported: list[tuple[float, float]] = field(default_factory=list)

    def report(self, step: float, loss: float) -> None:
        """Note a point of the learning curve; it is recorded with the result.

        Of more than 10,000 points every second one is left out, as often as needed.
        """
        self.reported.append((float(step), float(loss)))
        if len(self.reported) > MOST_POINTS:
            del self.reported[1::2]  # the first point and the newest one stay


@dataclass(frozen=True, slots=True)
class Task:
    """A job with all that a worker needs to run it."""

    job: Job
    context: Context | None
    """None when the objective takes none."""
    maximize: bool
    keeps: bool
    """Whether what is saved is kept at all."""


def takes_context(objective: Objective) -> bool:
    """Whether an objective takes three arguments; one that takes neither two nor three raises."""
    if not callable(objective):
        raise InputError(f"the objective is {objective!r}: give a function (config, budget).")
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # some builtins have none
        return False
    for count in (3, 2):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise InputError(
        f"the objective takes {signature}: it must take (config, budget) or "
        "(config, budget, context)."
    )


def perform(
    objective: Objective,
    task: Task,
    interruptible: bool = True,
    wanted: Callable[[], bool] = lambda: True,
) -> Attempt:
    """Run a job once and seal what it saved, if that is still wanted when it ends. Whatever the
    objective raises is its result, but for an interrupt where there can be one."""
    arguments: list[Any] = [dict(task.job.config), task.job.budget]
    if task.context is not None:
        arguments.append(task.context)
    process, start = os.getpid(), time.perf_counter()
    result: object
    try:
        result = objective(*arguments)
    except BaseException as failure:
        if isinstance(failure, KeyboardInterrupt) and interruptible:
            raise
        result = failure
    if os.getpid() != process:  # a forked child that came back: it is not the one who answers
        os._exit(0)
    seconds = time.perf_counter() - start
    outcome = read_any_result(result, task.maximize)
    if task.context is None:
        return Attempt(task.job, *outcome, seconds)
    if wanted():  # else the folder is another attempt's by now
        _seal(task, failed=outcome[0] is None)
    curve = tuple(task.context.reported) or None
    return Attempt(task.job, *outcome, seconds, task.context.previous_rung, curve)


def _seal(task: Task, failed: bool) -> None:
    """Make what was saved trustworthy, or remove it."""
    assert task.context is not None
    checkpoints = Checkpoints(task.context.path.parents[2])
    try:
        if task.keeps and not failed:
            checkpoints.finish(task.job.key)
            return
    except OSError:  # a full disk: better no checkpoint than half of one
        pass
    checkpoints.discard(task.job.key)


def training_seed(seed: int, bracket: int, index: int, rung: int) -> int:
    """The seed of a job, below 2**32 as most libraries want it."""
    import numpy as np

    sequence = np.random.SeedSequence(seed, spawn_key=(bracket, index, rung))
    return int(sequence.generate_state(1)[0])
