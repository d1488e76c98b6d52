"""Every error that deepband raises on purpose.

    DeepbandError
    ├── InputError            something given is wrong; nothing was spent (also a ValueError)
    │   ├── BudgetError       eta, min_budget, max_budget or a budget to deepen to
    │   ├── SpaceError        a search space that cannot be read or drawn from
    │   ├── UnknownNameError  a strategy or sampler that does not exist
    │   └── ResultError       what an objective returned is not a loss
    ├── JobError              a job that this study does not wait for
    ├── UnfinishedError       the current run must be finished first
    ├── NoResultError         no evaluation has a finite loss yet, so none is the best
    ├── ObjectiveError        the first evaluations of an objective all failed
    ├── ClosedError           the study was closed
    ├── FactError             facts that do not fit together
    └── StorageError          a study file that cannot be read or written
        ├── HeldError         another driver holds the study
        └── GoneError         the file of an open study was moved, deleted or replaced

Each keeps its facts as attributes and says what happened, what was given and what to do.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any

__all__ = [
    "BudgetError",
    "BusyWarning",
    "ClosedError",
    "DeepbandError",
    "FactError",
    "GoneError",
    "HeldError",
    "InputError",
    "JobError",
    "NoResultError",
    "ObjectiveError",
    "ObserverWarning",
    "ResultError",
    "SmallSpaceWarning",
    "SpaceError",
    "StorageError",
    "UnfinishedError",
    "UnknownNameError",
]


def shown(given: object, most: int = 80) -> str:
    """What was given, for a message: never too long, whatever its repr does."""
    try:
        text = repr(given)
    except Exception:
        text = f"a {type(given).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


class DeepbandError(Exception):
    """The root of every error that deepband raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the finished error. By default Python would call `__init__` with the message,
        which most subclasses build from other arguments."""
        attributes = {name: _portable(value) for name, value in vars(self).items()}
        return _restored, (type(self), self.args), attributes


def _restored(kind: type[DeepbandError], args: tuple[object, ...]) -> DeepbandError:
    """An error with this message; unpickling then sets its attributes."""
    return kind.__new__(kind, *args)


def _portable(value: object) -> object:
    """The value or, if it does not survive pickling, its text: an error about a value that cannot
    reach another process must still be able to."""
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return shown(value)
    return value


class InputError(DeepbandError, ValueError):
    """Something given is wrong; nothing was spent."""


class BudgetError(InputError):
    """A budget or an eta that makes no schedule."""

    def __init__(self, name: str, given: object, advice: str) -> None:
        self.name = name
        self.given = given
        super().__init__(f"{name} is {shown(given)}: {advice}")


def read_index(name: str, given: object, count: int) -> int:
    """A whole number from 0 to count - 1."""
    whole = int(given) if isinstance(given, Integral) and not isinstance(given, bool) else -1
    if not 0 <= whole < count:
        raise InputError(f"there is no {name} {shown(given)}: give one from 0 to {count - 1}.")
    return whole


class SpaceError(InputError):
    """A search space that cannot be read or drawn from."""


class UnknownNameError(InputError):
    """A name that is not in the table it was looked up in."""

    def __init__(self, kind: str, given: object, valid: Iterable[str]) -> None:
        self.kind = kind
        self.given = given
        self.valid = tuple(valid)
        close = get_close_matches(given, self.valid, n=1) if isinstance(given, str) else []
        hint = f" Did you mean {close[0]!r}?" if close else ""
        names = ", ".join(repr(name) for name in self.valid)
        super().__init__(f"there is no {kind} {shown(given)}; there are {names}.{hint}")


class ResultError(InputError):
    """What an objective returned is not a loss, or is too large to be recorded."""

    def __init__(self, given: object, advice: str, problem: str = "") -> None:
        self.given = given
        if not problem:
            problem = f"{shown(given)} ({type(given).__name__}) is not a loss"
        super().__init__(f"the result {problem}: {advice}")


class JobError(DeepbandError):
    """A job that this study does not wait for."""

    def __init__(self, bracket: object, index: object, rung: object, reason: str) -> None:
        self.bracket = bracket
        self.index = index
        self.rung = rung
        super().__init__(
            f"the job of bracket {bracket}, index {index}, rung {rung} is not open: {reason}"
        )


class UnfinishedError(DeepbandError):
    """The current run must be finished first."""

    def __init__(self, action: str, open_jobs: int) -> None:
        self.action = action
        self.open_jobs = open_jobs
        jobs = "1 job is" if open_jobs == 1 else f"{open_jobs} jobs are"
        super().__init__(
            f"cannot {action}: the current run is not finished, {jobs} open (and may lead to "
            "more on the rungs above). Run it to its end first: with `study.optimize`, "
            "`deepband run`, or by ask and tell until `study.done`."
        )


class NoResultError(DeepbandError):
    """No evaluation has a finite loss, on a rung or at all, so none is the best."""

    def __init__(self, evaluations: int, rung: int | None = None) -> None:
        self.evaluations = evaluations
        self.rung = rung
        where = "" if rung is None else f" on rung {rung}"
        if evaluations:
            why = (
                f"none of the {evaluations} evaluations{where} has a finite loss. Their errors are "
                "in `study.evaluations`."
            )
        else:
            why = f"nothing has been evaluated{where}. Run the study first, with `study.optimize`."
        super().__init__(f"there is no best evaluation{where} yet: {why}")


class ObjectiveError(DeepbandError):
    """The first evaluations of an objective all failed, so it is the objective that is wrong."""

    def __init__(self, errors: Sequence[str]) -> None:
        self.errors = tuple(errors)
        super().__init__(
            f"the first {len(errors)} evaluations all failed; nothing was recorded. Mend the "
            "objective and run again, or believe them with first_failures=0. The first one:\n"
            f"{errors[0].strip()}"
        )


class ClosedError(DeepbandError):
    """The study was closed."""

    def __init__(self) -> None:
        super().__init__("the study is closed; open it again with deepband.open_study(...)")


class FactError(DeepbandError):
    """Facts that do not fit together: a damaged study, or a bug of ours."""


class StorageError(DeepbandError):
    """A study file that cannot be read or written."""

    def __init__(self, path: object, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}")


class TornError(StorageError):
    """A driver died in the middle of a commit, which somebody who may write must undo first."""

    def __init__(self, path: object) -> None:
        super().__init__(
            path,
            "was left in the middle of a commit by a driver that died. Whoever opens it next, such "
            "as `deepband status`, undoes that commit.",
        )


class HeldError(StorageError):
    """Another driver holds the study."""

    def __init__(self, path: object, holder: Mapping[str, object]) -> None:
        self.holder = dict(holder)
        who = "held by another process"
        if holder:
            who = (
                f"held by process {holder.get('pid')} on host {holder.get('host')} "
                f"since {holder.get('since')}"
            )
        super().__init__(path, f"{who}. One driver a study: wait for it, or stop it.")


class GoneError(StorageError):
    """The file of an open study was moved, deleted or replaced by another one.

    The study stays readable, and results reported after this happened are kept in memory.
    """

    def __init__(self, path: object, reason: str) -> None:
        self.reason = reason
        super().__init__(
            path,
            f"{reason} while the study was open. The study is complete in memory: write it to a "
            "new file with study.save_as(path), or put the original file back and try again.",
        )


class SmallSpaceWarning(UserWarning):
    """A discrete space has fewer values than the run needs configs: some will repeat."""


class ObserverWarning(UserWarning):
    """An observer failed. The study goes on without it."""


class BusyWarning(UserWarning):
    """Another program locks the study file. The study waits until it is released."""


def show_warning(text: str, kind: type[Warning]) -> None:
    """Show a warning without raising it, even where warnings are errors: it must not end a run."""
    try:
        warnings.warn(text, kind, stacklevel=3)
    except kind:
        with warnings.catch_warnings():
            warnings.simplefilter("always", kind)
            warnings.warn(text, kind, stacklevel=3)
