"""Every error that deepband raises on purpose.

    DeepbandError
    ├── InputError            invalid input; nothing was evaluated (also a ValueError)
    │   ├── BudgetError       a budget, eta, width or number of brackets
    │   ├── SpaceError        a search space that cannot be read or sampled
    │   ├── UnknownNameError  a strategy or sampler that does not exist
    │   └── ResultError       an objective returned something that is not a loss
    ├── JobError              a job that is not open in this study
    ├── UnfinishedError       the current run must be finished first
    ├── NoResultError         no evaluation is feasible and has a finite loss yet
    ├── SeveralObjectivesError  only a study with one objective has what was asked for
    ├── ObjectiveError        the first evaluations of an objective all failed
    │   └── BatchError        an objective did not return one result per config of a batch
    ├── ClosedError           the study was closed
    ├── FactError             facts that contradict each other
    └── StorageError          a study file that cannot be read or written
        ├── LockedError       another process has locked the study
        └── GoneError         the file of an open study was moved, deleted or replaced

Every message says what happened, what was given and what to do; details are attributes.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import Any

__all__ = [
    "BatchError",
    "BatchWarning",
    "BudgetError",
    "BusyWarning",
    "ClosedError",
    "DeepbandError",
    "FactError",
    "FailedEvaluationsWarning",
    "GoneError",
    "IdleWorkersWarning",
    "InputError",
    "JobError",
    "LockedError",
    "NoResultError",
    "ObjectiveError",
    "ObserverWarning",
    "QueueWarning",
    "ResultError",
    "SeveralObjectivesError",
    "SmallSpaceWarning",
    "SpaceError",
    "StorageError",
    "UnfinishedError",
    "UnknownNameError",
    "UnseededWarning",
    "WaitingWarning",
]


PACKAGE = str(Path(__file__).parent)


def shown(given: object, most: int = 80) -> str:
    """The repr of a value for a message, shortened; the name of its type if repr fails."""
    try:
        text = repr(given)
    except Exception:
        text = f"a {type(given).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def counted(number: int, noun: str) -> str:
    """A number of things in words: "1 evaluation", "2 evaluations", "20,000 evaluations"."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


class DeepbandError(Exception):
    """The base class of every error that deepband raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and attributes. By default Python calls `__init__` with the message,
        but most subclasses build it from other arguments."""
        attributes = {name: _portable(value) for name, value in vars(self).items()}
        return _restored, (type(self), self.args), attributes


def _restored(kind: type[DeepbandError], args: tuple[object, ...]) -> DeepbandError:
    return kind.__new__(kind, *args)


def _portable(value: object) -> object:
    """The value, or its text if it cannot be pickled: the error itself must stay picklable."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return shown(value)
    return value


class InputError(DeepbandError, ValueError):
    """The input is invalid. Nothing was evaluated."""


class BudgetError(InputError):
    """A budget, eta, width or number of brackets that is invalid or does not fit the study."""

    def __init__(self, name: str, given: object, advice: str) -> None:
        self.name = name
        self.given = given
        super().__init__(f"{name} is {shown(given)}: {advice}")


def read_index(name: str, given: object, count: int) -> int:
    """The index as an int, or an InputError if it is not an integer from 0 to count - 1."""
    index = int(given) if isinstance(given, Integral) and not isinstance(given, bool) else -1
    if not 0 <= index < count:
        raise InputError(f"there is no {name} {shown(given)}: give one from 0 to {count - 1}.")
    return index


class SpaceError(InputError):
    """A search space that cannot be read or sampled."""


class UnknownNameError(InputError):
    """A name that does not exist, with the valid names and the closest match."""

    def __init__(self, kind: str, given: object, valid: Iterable[str]) -> None:
        self.kind = kind
        self.given = given
        self.valid = tuple(valid)
        close = get_close_matches(given, self.valid, n=1) if isinstance(given, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        names = ", ".join(repr(name) for name in self.valid)
        what, place, where = kind.partition(" in ")
        super().__init__(
            f"there is no {what} {shown(given)}{place}{where}; choose from {names}.{hint}"
        )


def unexpected_argument(method: str, given: str, names: Iterable[str]) -> TypeError:
    """The error of Python for an unknown keyword argument, with the closest name that exists."""
    close = get_close_matches(given, list(names), n=1)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    return TypeError(f"{method}() got an unexpected keyword argument {given!r}{hint}")


class ResultError(InputError):
    """An objective returned something that is not a loss, or is too large to record."""

    def __init__(self, given: object, advice: str, problem: str = "") -> None:
        self.given = given
        if not problem:
            problem = f"{shown(given)} ({type(given).__name__}) is not a loss"
        super().__init__(f"the result {problem}: {advice}")


class JobError(DeepbandError):
    """A job that is not open in this study."""

    def __init__(self, bracket: object, index: object, rung: object, reason: str) -> None:
        self.bracket = bracket
        self.index = index
        self.rung = rung
        super().__init__(
            f"the job of bracket {bracket}, index {index}, rung {rung} is not open: {reason}"
        )


class SeveralObjectivesError(DeepbandError):
    """A study with several objectives was asked for something that only one objective has."""

    def __init__(self, objectives: Sequence[str], missing: str, advice: str) -> None:
        self.objectives = tuple(objectives)
        self.missing = missing
        self.advice = advice
        names = " and ".join([", ".join(objectives[:-1]), objectives[-1]])
        super().__init__(f"{missing}: the study has several objectives, {names}. {advice}")


EXTENSIONS = {"deepen", "widen", "extend"}
"""The actions that may also be taken while the current run is unfinished."""


class UnfinishedError(DeepbandError):
    """The current run must be finished first."""

    def __init__(self, action: str, open_jobs: int) -> None:
        self.action = action
        self.open_jobs = open_jobs
        jobs = "1 job is" if open_jobs == 1 else f"{open_jobs} jobs are"
        hint = (
            " (`unfinished=True` extends it as it is, unless the extension is frugal or changes "
            "the space.)"
        )
        super().__init__(
            f"cannot {action}: the current run is not finished, {jobs} open (and promotions may "
            "add more). Finish it first with `study.optimize`, `deepband run`, or ask and tell "
            f"until `study.done`.{hint if action in EXTENSIONS else ''}"
        )


class NoResultError(DeepbandError):
    """No evaluation of the study, or of one rung, is feasible and has a finite loss yet."""

    def __init__(
        self,
        evaluations: int,
        rung: int | None = None,
        infeasible: int = 0,
        missing: str = "best evaluation",
        rejected: int = 0,
        stopped: int = 0,
    ) -> None:
        self.evaluations = evaluations
        self.rung = rung
        self.stopped = stopped
        self.infeasible = infeasible
        self.rejected = rejected
        where = "" if rung is None else f" on rung {rung}"
        if evaluations:
            found = f"none of the {evaluations} evaluations{where} has a finite result"
            if evaluations == 1:
                found = f"the only evaluation{where} has no finite result"
            why = f"{found}. See why with `study.failures()`."
            if infeasible or rejected or stopped:
                reasons = [f"{infeasible} violate a constraint"] * bool(infeasible)
                reasons += [f"the precheck rejected {rejected}"] * bool(rejected)
                reasons += [f"the training of {stopped} was stopped early"] * bool(stopped)
                why = (
                    f"of {counted(evaluations, 'evaluation')}{where}, none is feasible with a "
                    f"finite result, and {' and '.join(reasons)}. See `study.evaluations`."
                )
        else:
            why = f"nothing has been evaluated{where}. Run the study first, with `study.optimize`."
        super().__init__(f"there is no {missing}{where} yet: {why}")


class ObjectiveError(DeepbandError):
    """The first evaluations all failed, so the objective itself is probably wrong."""

    def __init__(self, errors: Sequence[str], hint: str = "") -> None:
        self.errors = tuple(errors)
        failed = f"the first {len(errors)} evaluations all failed"
        if len(errors) == 1:
            failed = "the first evaluation failed"
        super().__init__(
            f"{failed}; nothing was recorded. {hint}Fix the "
            "objective and run again, or accept the failures with first_failures=0. The first "
            f"error:\n{errors[0].strip()}"
        )


class BatchError(ObjectiveError):
    """The results that an objective returned for a batch do not fit its configs."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        DeepbandError.__init__(
            self,
            f"{errors[0].strip()}\nNothing was recorded for these configs; valid results of others "
            "are kept. Fix the objective and run again to continue.",
        )


class ClosedError(DeepbandError):
    """The study was closed."""

    def __init__(self) -> None:
        super().__init__("the study is closed; open it again with deepband.open_study(...)")


class FactError(DeepbandError):
    """Facts that contradict each other: a damaged study, or a bug in deepband."""


class StorageError(DeepbandError):
    """A study file that cannot be read or written."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class TornError(StorageError):
    """A process died during a commit. The file is readable once a process that may write to it
    has rolled the commit back."""

    def __init__(self, path: object) -> None:
        super().__init__(
            path,
            "a process died while it was writing to the file. Run `deepband status`, or open the "
            "study, to roll that write back.",
        )


class LockedError(StorageError):
    """Another process has locked the study."""

    def __init__(self, path: object, holder: Mapping[str, object]) -> None:
        self.holder = dict(holder)
        locked = "is locked by another process"
        if holder:
            locked = (
                f"is locked by process {holder.get('pid')} on host {holder.get('host')} "
                f"since {holder.get('since')}"
            )
        super().__init__(
            path, f"{locked}. Only one process at a time can write to a study: wait, or stop it."
        )
        self.args = (f"the study {path} {self.problem}",)


class GoneError(StorageError):
    """The file of an open study was moved, deleted or replaced.

    The study stays readable, and results reported since then are kept in memory.
    """

    def __init__(self, path: object, reason: str) -> None:
        self.reason = reason
        super().__init__(
            path,
            f"{reason} while the study was open. The study is complete in memory: write it to a "
            "new file with study.save_as(path), or put the original file back and try again.",
        )


class SmallSpaceWarning(UserWarning):
    """A discrete space has fewer values than the run needs configs, so some will repeat."""


class BatchWarning(UserWarning):
    """A call of the objective with several configs raised, or its worker died. The configs were
    evaluated in smaller batches."""


class FailedEvaluationsWarning(UserWarning):
    """Some evaluations of a run failed. They are recorded, and the run continued."""


class IdleWorkersWarning(UserWarning):
    """A sampler that learns cannot supply all workers with configs."""


class MissingCurvesWarning(UserWarning):
    """`stop_training` has no effect, because learning curves are missing or not comparable."""


class UnseededWarning(UserWarning):
    """An objective takes no context, so that the seeds of `Study.confirm` cannot reach it."""


class DeviceWarning(UserWarning):
    """The GPU that a device names was not found on this machine."""


class QueueWarning(UserWarning):
    """Slurm does not answer, or jobs wait in its queue for a reason that does not pass by
    itself."""


class ObserverWarning(UserWarning):
    """An observer failed. The run continues."""


class BusyWarning(UserWarning):
    """Another program has locked the study file. deepband waits until the lock is released."""


class WaitingWarning(UserWarning):
    """An added config or result waits for the next extension: the current run has no slot for it,
    or is done."""


def user_level() -> int:
    """The `stacklevel` of the user's code, for the function that calls this one."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def show_warning(text: str, kind: type[Warning], stacklevel: int = 3) -> None:
    """Show a warning, even where warnings are turned into errors: it must not end a run."""
    try:
        warnings.warn(text, kind, stacklevel=stacklevel)
    except kind:
        with warnings.catch_warnings():
            warnings.simplefilter("always", kind)
            warnings.warn(text, kind, stacklevel=stacklevel)
