"""Calling an objective: its arguments, its context and the outcome of the call."""

from __future__ import annotations

import errno
import inspect
import os
import time
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeAlias

from deepband.core.facts import Outcome, own_copy
from deepband.core.records import Attempt, Job
from deepband.core.results import read_any_result
from deepband.errors import InputError
from deepband.storage import saved_objects
from deepband.storage.checkpoints import abandon, seal

MOST_POINTS = 10_000
"""How many points of a learning curve are kept per evaluation."""

Objective: TypeAlias = Callable[..., object]
"""`objective(config, budget)` or `objective(config, budget, context)`; see `takes_context`."""


@dataclass(frozen=True, slots=True)
class Context:
    """What an objective can use in addition to its config and budget."""

    seed: int
    """A function of the study's seed, the bracket, the index and the rung, and in `Study.confirm`
    also of the repetition. Seed your training with it to make it reproducible."""
    path: Path
    """An empty folder for checkpoints. It is kept when the result is recorded."""
    previous: Path | None = None
    """The folder that this config saved on the nearest lower rung, or None. Do not write to it."""
    previous_budget: int | float = 0
    """The budget of `previous`, or 0 if there is none."""
    previous_rung: int | None = None
    partial: Path | None = None
    """The folder that an interrupted attempt at the same job saved, or None."""
    slot: int = 0
    """The number of the worker, from 0."""
    device: str | None = None
    """"cuda:0", or "cpu" for that device; None if `optimize` was called without `devices`. A worker
    sees only its own GPU, so its name is always "cuda:0". Use it as `torch.device(context.device)`;
    JAX and TensorFlow find the GPU by themselves. CUDA_VISIBLE_DEVICES says which one it is."""
    reported: list[tuple[float, float]] = field(default_factory=list)

    def report(self, step: float, loss: float) -> None:
        """Add a point to the learning curve, which is recorded with the result: the loss or, with
        `maximize`, the value.

        If there are more than 10,000 points, every second one is dropped, repeatedly if necessary.
        """
        self.reported.append((float(step), float(loss)))
        if len(self.reported) > MOST_POINTS:
            del self.reported[1::2]  # the first point and the newest one stay

    def save(self, /, **objects: Any) -> None:
        """Save objects in `path`, each under its name, in place of those saved before.

        Of a model, an optimizer or anything else with `state_dict` and `load_state_dict`, the state
        is saved. Numbers, strings, lists, tuples, dicts, NumPy arrays and PyTorch tensors are saved
        as they are, and any other object as a pickle.

        If a number is saved as `step`, an interrupted attempt at the same job can be continued:
        save from time to time, and start your loop at the step that `restore` returns. If the
        process is killed while it saves, what was saved before stays.

        >>> context = deepband.Context(seed=0, path=Path())
        >>> context.save(weights=[0.5, 0.25], step=3)
        """
        saved_objects.save(self.path, objects, self.reported)

    def restore(self, /, *, unpickle: bool | None = None, **objects: Any) -> dict[str, Any]:
        """Load what this config saved before: the states into the objects that you pass.

        Returns a dict with the objects that you pass and all other saved values. If nothing was
        saved before, it contains what you pass, so pass the values to begin with.

        >>> context = deepband.Context(seed=0, path=Path())
        >>> context.restore(weights=[0.0, 0.0], step=0)
        {'weights': [0.0, 0.0], 'step': 0}

        It loads from `previous`, or from `partial` if a number was saved as `step` and is larger
        there. In that case, the learning curve reported so far is restored, too.

        Loading a pickle can run code that it contains, so it needs `unpickle=True`: pass it only if
        you trust the author of the study.
        """
        saved = saved_objects.restorable(self.previous, self.partial)
        if saved is None:
            return objects
        found = saved_objects.load(saved, objects, unpickle, complete=True)
        if saved.folder == self.partial:
            self.reported[:0] = saved.curve
        return found


@dataclass(frozen=True, slots=True)
class Task:
    """A job with everything that a worker needs to run it."""

    job: Job
    context: Context | None
    """None if the objective does not take one."""
    maximize: bool
    keeps: bool
    """Whether checkpoints are kept at all."""


def takes_context(objective: Objective) -> bool:
    """Whether an objective takes a context: as a parameter named `context`, in any position and
    with or without a default, or as a required third positional parameter of any name. Other
    parameters, `*args` and `**kwargs` belong to the user. Raises if the objective can be called
    neither with a context nor without."""
    if not callable(objective):
        raise InputError(f"the objective is {objective!r}: give a function (config, budget).")
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # some builtins have none
        return False
    more, named = _passed(objective, None)
    try:
        signature.bind({}, 1, *more, **named)
    except TypeError:
        raise InputError(
            f"the objective takes {signature}: it must take (config, budget) or "
            "(config, budget, context), and any other parameter needs a default."
        ) from None
    return bool(more or named)


def _passed(objective: Objective, context: Context | None) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments that pass the context, if the objective takes one."""
    parameters = inspect.signature(objective).parameters
    positional = [each for each in parameters.values() if each.kind in _BY_PLACE]
    named = parameters.get(_NAME)
    if isinstance(objective, partial) and _NAME in objective.keywords:
        return [], {}  # the user has already bound a context
    if named is not None and named.kind in _BY_NAME and named not in positional[:2]:
        return [], {_NAME: context}
    third = positional[2:3]
    if third and (third[0].default is Parameter.empty or third[0] is named):
        return [context], {}
    return [], {}


_NAME = "context"
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


ENVIRONMENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO})
"""Errors of the operating system that say nothing about a config, such as a full disk."""


def perform(objective: Objective, task: Task, interruptible: bool = True) -> Attempt:
    """Run a job once and seal what it saved. An exception of the objective is its result, except
    for KeyboardInterrupt if `interruptible`."""
    process, start, context = os.getpid(), time.perf_counter(), task.context
    outcome, environment = _call(objective, task, interruptible)
    if os.getpid() != process:  # a forked child returned: only the original process may answer
        os._exit(0)
    seconds = time.perf_counter() - start
    if context is None:
        return Attempt(task.job, outcome._replace(seconds=seconds), None, environment)
    curve = tuple(context.reported) or None
    outcome = outcome._replace(seconds=seconds, resumed_from=context.previous_rung, curve=curve)
    saved = context.path.name if _seal(context.path, task.keeps and not outcome.failed) else None
    return Attempt(task.job, outcome, saved, environment)


def _call(objective: Objective, task: Task, interruptible: bool) -> tuple[Outcome, bool]:
    """What the objective returned or raised, and whether the machine caused a failure."""
    more, named = _passed(objective, task.context) if task.context is not None else ([], {})
    try:
        result = objective(own_copy(task.job.config, _copied), task.job.budget, *more, **named)
        return read_any_result(result, task.maximize), False
    except BaseException as raised:
        if isinstance(raised, KeyboardInterrupt) and interruptible:
            raise
        return read_any_result(raised), _is_of_environment(raised)


def not_started(task: Task, error: Exception) -> Attempt:
    """The attempt at a job that a worker could not start, for example because the disk is full."""
    outcome = Outcome(None, f"{type(error).__name__}: {error}")
    return Attempt(task.job, outcome, environment=True)


def _copied(value: object) -> object:
    """A copy of an object among the choices, if it can be copied: an objective may change it."""
    try:
        return deepcopy(value)
    except Exception:
        return value


def _seal(path: Path, keeps: bool) -> bool:
    """Seal what was saved, or remove it. The result does not depend on it: if the disk is full, no
    checkpoint is better than an incomplete one."""
    try:
        if keeps:
            return seal(path)
    except Exception:
        pass
    with suppress(Exception):
        abandon(path)
    return False


def _is_of_environment(failure: BaseException) -> bool:
    """Whether a failure is, or was caused by, a fault of the machine."""
    seen: set[int] = set()
    cause: BaseException | None = failure
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in ENVIRONMENT:
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False


def training_seed(seed: int, *key: int) -> int:
    """The seed of a job (bracket, index, rung) or of one of its repetitions, which has a fourth
    number. It is below 2**32, as most libraries require."""
    import numpy as np

    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return int(sequence.generate_state(1)[0])
