"""Calls of an objective that evaluates several configs at once.

A call gets all tasks of a batch. Each task ends when its context is finished, or when the call
returns its result. If the call raises, it is not known which config is to blame, so those that
have not ended are lost and run again in smaller batches. Only a batch of one fails.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeAlias

from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.core.results import read_any_result, read_result
from deepband.errors import InputError, ResultError, shown
from deepband.execution.context import Context
from deepband.execution.objective import (
    BatchObjective,
    Objective,
    Task,
    attempt_of,
    copied_config,
    end_unless,
    is_of_environment,
    outcome_of,
    perform,
)
from deepband.system.thread_pool import in_threads

Leave: TypeAlias = Callable[[Attempt], None]
"""Called with the attempt at a task that has ended before its batch."""


class Answer(NamedTuple):
    """How tasks ended. Those without an attempt are lost, or the objective is at fault."""

    attempts: Sequence[Attempt]
    lost: str | None = None
    """Why the other tasks are run again."""
    fault: str | None = None
    """What is wrong with the results that the objective returned for the other tasks."""
    more: bool = False
    """Whether other tasks of the batch are still running."""


def perform_tasks(
    objective: Objective, tasks: Sequence[Task], leave: Leave, interruptible: bool = True
) -> Answer:
    """Run tasks in one call of the objective. The answer contains the attempts that `leave` has not
    been called with."""
    if isinstance(objective, BatchObjective):
        return BatchCall(tasks, leave).run(objective, interruptible)
    (task,) = tasks
    return Answer([perform(objective, task, interruptible)])


@dataclass(frozen=True, slots=True)
class BatchContext(Context):
    """The context of one config of a batch. To try your function without a study, create one per
    config: `BatchContext(seed=0, path=folder)`."""

    _call: BatchCall | None = field(default=None, repr=False, compare=False)
    _position: int = field(default=0, repr=False)

    def finish(self, result: object) -> None:
        """Record the result of this config before the batch ends: if the process is killed later,
        the config is not evaluated again. What the function returns in its place is ignored."""
        call = self._running()
        if call is not None:
            call.finish(self._position, result)
        elif self.watch is None or not self.watch.stopped:
            read_result(result)

    def report(self, step: float, loss: float) -> None:
        """Add a point to the learning curve of this config."""
        self._running()
        Context.report(self, step, loss)

    def should_stop(self) -> bool:
        """Whether it is pointless to train this config further. `finish` it if so."""
        self._running()
        return Context.should_stop(self)

    def save(self, /, **objects: Any) -> None:
        """Save objects of this config."""
        self._running()
        Context.save(self, **objects)

    def restore(self, /, *, unpickle: bool | None = None, **objects: Any) -> dict[str, Any]:
        """Load what this config saved before."""
        self._running()
        return Context.restore(self, unpickle=unpickle, **objects)

    def _running(self) -> BatchCall | None:
        """The call that this context belongs to, if any. Raises if its config has ended."""
        if self._call is not None:
            self._call.check_open(self._position)
        return self._call


class SharedTime:
    """Shares the time of a call out among its tasks, by the budget that each of them trains."""

    def __init__(self, units: Sequence[float]) -> None:
        self._units = units
        self._open = sum(units)
        self._since = time.perf_counter()
        self._per_unit = 0.0

    def measure(self) -> None:
        """Share out the time since the last measurement among the tasks that are open."""
        now = time.perf_counter()
        self._per_unit += (now - self._since) / max(self._open, min(self._units))
        self._since = now

    def end(self, position: int) -> float:
        """The seconds of a task that ended at the last measurement."""
        self._open -= self._units[position]
        return self._units[position] * self._per_unit


class BatchCall:
    """One call of a batch objective, and which of its tasks have ended."""

    def __init__(self, tasks: Sequence[Task], leave: Leave) -> None:
        self.tasks = [self._with_context(*each) for each in enumerate(tasks)]
        self._leave = leave
        self._time = SharedTime([trained_units(task) for task in tasks])
        self._open = set(range(len(tasks)))
        self._lock = threading.Lock()
        """The objective may finish configs in several threads."""
        self._refused: ResultError | None = None
        """The last error that `finish` raised because of an invalid result."""

    def _with_context(self, position: int, task: Task) -> Task:
        if task.context is None:
            return task
        values = {each.name: getattr(task.context, each.name) for each in fields(Context)}
        return task._replace(context=BatchContext(**values, _call=self, _position=position))

    def check_open(self, position: int) -> None:
        """Raise if a task has ended."""
        if position not in self._open:
            raise InputError(
                f"the context of position {position} is used after its config was finished or its "
                "batch ended: what it saves, reports or finishes now cannot be recorded."
            )

    def run(self, objective: BatchObjective, interruptible: bool) -> Answer:
        """Call the objective, and end all tasks that have not been finished."""
        configs = [copied_config(task.job) for task in self.tasks]
        contexts = [task.context for task in self.tasks if task.context is not None]
        process = os.getpid()
        try:
            returned = objective(configs, self.tasks[0].job.budget, contexts)
            end_unless(process)
            results = listed(returned)  # only now, a GPU may report that it was out of memory
        except BaseException as raised:
            end_unless(process)
            left = self._end()
            if isinstance(raised, KeyboardInterrupt) and interruptible:
                raise
            return self._failed(raised, left)
        return self._returned(returned, results, self._end())

    def finish(self, position: int, result: object) -> None:
        """End a task before the others."""
        try:
            outcome = outcome_of(self.tasks[position], result, read_result)
        except ResultError as error:
            self._refused = error
            raise
        with self._lock:
            self.check_open(position)  # another thread may have finished it meanwhile
            self._time.measure()
            self._open.remove(position)
            (attempt,) = self._attempts([(position, outcome)])
            self._leave(attempt)  # with the lock, because a pipe takes one answer at a time

    def _end(self) -> list[int]:
        """End the call, so that contexts are refused, and return the tasks that are left."""
        with self._lock:
            self._time.measure()
            left, self._open = sorted(self._open), set()
        return left

    def _failed(self, raised: BaseException, left: Sequence[int]) -> Answer:
        """The answer if the objective raised: an invalid result, a fault of the machine, the
        failure of a single config, or a reason to run smaller batches."""
        if raised is self._refused:
            return Answer([], fault=f"a result given to `finish`: {raised}")
        outcome, environment = read_any_result(raised), is_of_environment(raised)
        if environment or len(self.tasks) == 1:
            ended = [(position, outcome) for position in left]
            return Answer(self._attempts(ended, environment))
        return Answer([], lost=outcome.error)

    def _returned(
        self, returned: object, results: Sequence[object] | None, left: Sequence[int]
    ) -> Answer:
        """The answer for what the objective returned, as a sequence if it is one."""
        if not left and (returned is None or (results is not None and len(results) == 0)):
            return Answer([])  # all were finished before
        if results is None or len(results) != len(self.tasks):
            return Answer([], fault=_misfit(returned, results, len(self.tasks)))
        ended, faults, unread = list[tuple[int, Outcome]](), list[str](), list[str]()
        for position in left:
            try:
                outcome = outcome_of(self.tasks[position], results[position], read_result)
                ended.append((position, outcome))
            except ResultError as error:
                faults.append(f"position {position} of the results: {error}")
            except (Exception, SystemExit) as error:  # such as that a GPU was out of memory
                failed = read_any_result(error)
                unread.append(failed.error or "")
                if len(self.tasks) == 1:
                    ended.append((position, failed))
        lost = unread[0] if unread else None
        return Answer(self._attempts(ended), lost, "\n".join(faults) or None)

    def _attempts(
        self, ended: Sequence[tuple[int, Outcome]], environment: bool = False
    ) -> list[Attempt]:
        """The attempts at tasks that end now, in which what they saved is sealed."""
        seconds = {position: self._time.end(position) for position, _ in ended}

        def attempt(each: tuple[int, Outcome]) -> Attempt:
            position, outcome = each
            timed = outcome.timed(seconds[position])
            return attempt_of(self.tasks[position], timed, environment)

        saves = self.tasks[0].context is not None
        return in_threads(attempt, ended) if saves else list(map(attempt, ended))


def trained_units(task: Task) -> float:
    """What a task trains: its budget, less that of the checkpoint it resumes from."""
    begun = task.context.previous_budget if task.context else 0
    return float(task.job.budget - begun)


def listed(returned: Any) -> Sequence[object] | None:
    """The results of a batch as a sequence; None if it is not one. Arrays and tensors are copied
    to the host at once, because reading them number by number would be slow."""
    if len(getattr(returned, "shape", ())) == 1 and hasattr(returned, "tolist"):
        return list(returned.tolist())
    text = isinstance(returned, str | bytes | bytearray | Mapping)
    return returned if isinstance(returned, Sequence) and not text else None


def _misfit(returned: object, results: Sequence[object] | None, count: int) -> str:
    if results is None:
        shape = getattr(returned, "shape", ())
        given = f"an array of shape {tuple(shape)}" if shape else shown(returned)
        each = ", each a mapping" if isinstance(returned, Mapping) else ""
        return (
            f"the objective returned {given} for a batch of {count}: return a list with one result "
            f"per config{each}, in the order of the configs."
        )
    return (
        f"the objective returned {len(results)} results for a batch of {count}: return one result "
        "per config, in the order of the configs."
    )
