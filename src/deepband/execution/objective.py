"""Calling an objective: its arguments and the outcome of the call."""

from __future__ import annotations

import errno
import inspect
import math
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from deepband.core.criteria import Criteria
from deepband.core.facts import Config, Outcome, own_copy
from deepband.core.records import Attempt, Job
from deepband.core.results import read_any_result
from deepband.errors import InputError
from deepband.execution.context import Context
from deepband.storage.checkpoints import abandon, seal

Objective: TypeAlias = Callable[..., object]
"""`objective(config, budget)` or `objective(config, budget, context)`; see `takes_context`."""


class Task(NamedTuple):
    """A job with everything that a worker needs to run it."""

    job: Job
    context: Context | None
    """None if the objective does not take one."""
    criteria: Criteria
    """What the study optimises, which says how to read the result."""
    keeps: bool
    """Whether checkpoints are kept at all."""


def takes_context(objective: Objective) -> bool:
    """Whether an objective takes a context: as a parameter named `context`, in any position and
    with or without a default, or as a required third positional parameter of any name. Other
    parameters, `*args` and `**kwargs` belong to the user. Raises if the objective can be called
    neither with a context nor without."""
    if isinstance(objective, BatchObjective):
        return objective.takes_contexts
    for name in ("configs", "contexts"):
        if name in parameter_names(objective):
            raise InputError(
                f"the objective has a parameter named {name}, so it seems to take several configs: "
                "give batch=True, too, or rename the parameter."
            )
    return _takes(objective, "config", "context")


def _takes(objective: Objective, config: str, context: str) -> bool:
    """The same for an objective whose parameters have these names."""
    if not callable(objective):
        raise InputError(f"the objective is {objective!r}: give a function ({config}, budget).")
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # some builtins have none
        return False
    more, named = passed(objective, None, context)
    try:
        signature.bind({}, 1, *more, **named)
    except TypeError:
        raise InputError(
            f"the objective takes {signature}: it must take ({config}, budget) or "
            f"({config}, budget, {context}), and any other parameter needs a default."
        ) from None
    return bool(more or named)


def parameter_names(objective: Objective) -> Collection[str]:
    """The names of an objective's parameters without a default; none if it has no signature."""
    try:
        parameters = inspect.signature(objective).parameters
    except (TypeError, ValueError):
        return ()
    return [name for name, each in parameters.items() if each.default is Parameter.empty]


def passed(objective: Objective, given: object, name: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments that pass the context, or the contexts, if the objective
    takes a parameter of this name."""
    parameters = inspect.signature(objective).parameters
    positional = [each for each in parameters.values() if each.kind in _BY_PLACE]
    named = parameters.get(name)
    if isinstance(objective, partial) and name in objective.keywords:
        return [], {}  # the user has already bound a context
    if named is not None and named.kind in _BY_NAME and named not in positional[:2]:
        return [], {name: given}
    third = positional[2:3]
    if third and (third[0].default is Parameter.empty or third[0] is named):
        return [given], {}
    return [], {}


@dataclass(frozen=True, slots=True)
class BatchObjective:
    """An objective that evaluates several configs with the same budget in one call:
    `function(configs, budget)` or `function(configs, budget, contexts)`."""

    function: Objective
    takes_contexts: bool

    @classmethod
    def of(cls, function: Objective) -> BatchObjective:
        """Check what a user gives. Raises if it seems to take a single config."""
        for name in ("config", "context"):
            if callable(function) and name in parameter_names(function):
                raise InputError(
                    f"the objective has a parameter named {name}, so it seems to take a single "
                    "config, but with `batch` it is called with a list: take "
                    "(configs, budget) or (configs, budget, contexts), or leave out `batch`."
                )
        return cls(function, _takes(function, "configs", "contexts"))

    def __call__(self, configs: list[Any], budget: float, contexts: list[Any]) -> object:
        more, named = passed(self.function, contexts, "contexts") if contexts else ([], {})
        return self.function(configs, budget, *more, **named)


_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


ENVIRONMENT = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EIO})
"""Errors of the operating system that say nothing about a config, such as a full disk."""


def perform(objective: Objective, task: Task, interruptible: bool = True) -> Attempt:
    """Run a job once and seal what it saved. An exception of the objective is its result, except
    for KeyboardInterrupt if `interruptible`."""
    start = time.perf_counter()
    outcome, environment = _call(objective, task, interruptible)
    return attempt_of(task, outcome.timed(time.perf_counter() - start), environment)


def end_unless(process: int) -> None:
    """End this process if it is a fork of another one that the objective returned in, too: only the
    original process may answer."""
    if os.getpid() != process:
        os._exit(0)


def attempt_of(task: Task, outcome: Outcome, environment: bool = False) -> Attempt:
    """The attempt at a task that has this outcome. Seals what it saved."""
    context = task.context
    if context is None:
        return Attempt(task.job, outcome, None, environment)
    curve = outcome.curve or tuple(context.reported) or None
    outcome = outcome._replace(resumed_from=context.previous_rung, curve=curve)
    complete = not outcome.failed and outcome.stopped_after is None
    saved = context.path.name if seal_attempt(context.path, task.keeps and complete) else None
    return Attempt(task.job, outcome, saved, environment)


def outcome_of(
    task: Task, result: object, read: Callable[[object, Criteria], Outcome] = read_any_result
) -> Outcome:
    """The outcome of a task for which the objective returned a result. If training was stopped
    early, the result is ignored: a killed attempt may have been trained further than this one."""
    watch = task.context.watch if task.context is not None else None
    if watch is None or not watch.stopped:
        return read(result, task.criteria)
    after = watch.stopped_after(task.job.budget)
    return Outcome(math.inf, curve=watch.curve, stopped_after=after)


def _call(objective: Objective, task: Task, interruptible: bool) -> tuple[Outcome, bool]:
    """What the objective returned or raised, and whether the machine caused a failure."""
    context = task.context
    more, named = passed(objective, context, "context") if context is not None else ([], {})
    process = os.getpid()
    try:
        result = objective(copied_config(task.job), task.job.budget, *more, **named)
        end_unless(process)
        return outcome_of(task, result), False
    except BaseException as raised:
        end_unless(process)
        if isinstance(raised, KeyboardInterrupt) and interruptible:
            raise
        return read_any_result(raised), is_of_environment(raised)


def copied_config(job: Job) -> Config:
    """A copy of a job's config, which the objective may change."""
    return own_copy(job.config, _copied)


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


def seal_attempt(path: Path, keeps: bool) -> bool:
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


def is_of_environment(failure: BaseException) -> bool:
    """Whether a failure is, or was caused by, a fault of the machine."""
    seen: set[int] = set()
    cause: BaseException | None = failure
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in ENVIRONMENT:
            return True
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return False
