"""Every error that deepband raises on purpose.

    DeepbandError
    ├── InputError            something given is wrong; nothing was spent (also a ValueError)
    │   ├── BudgetError       eta, min_budget, max_budget or a budget to deepen to
    │   ├── SpaceError        a search space that cannot be read or drawn from
    │   ├── UnknownNameError  a strategy or sampler that does not exist
    │   └── ResultError       what an objective returned is not a loss
    ├── JobError              a job that this study does not wait for
    ├── UnfinishedError       the current run must be finished first
    └── ClosedError           the study was closed

Each keeps its facts as attributes and says what happened, what was given and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "BudgetError",
    "ClosedError",
    "DeepbandError",
    "InputError",
    "JobError",
    "ResultError",
    "SmallSpaceWarning",
    "SpaceError",
    "UnfinishedError",
    "UnknownNameError",
]


class DeepbandError(Exception):
    """The root of every error that deepband raises on purpose."""


class InputError(DeepbandError, ValueError):
    """Something given is wrong; nothing was spent."""


class BudgetError(InputError):
    """A budget or an eta that makes no schedule."""

    def __init__(self, name: str, given: object, advice: str) -> None:
        self.name = name
        self.given = given
        super().__init__(f"{name} is {given!r}: {advice}")


class SpaceError(InputError):
    """A search space that cannot be read or drawn from."""


class UnknownNameError(InputError):
    """A name that is not in the table it was looked up in."""

    def __init__(self, kind: str, given: object, valid: Iterable[str]) -> None:
        self.kind = kind
        self.given = given
        self.valid = tuple(valid)
        close = get_close_matches(str(given), self.valid, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        names = ", ".join(repr(name) for name in self.valid)
        super().__init__(f"there is no {kind} {given!r}; there are {names}.{hint}")


class ResultError(InputError):
    """What an objective returned is not a loss."""

    def __init__(self, given: object, advice: str) -> None:
        self.given = given
        shown = repr(given)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        super().__init__(f"the result {shown} ({type(given).__name__}) is not a loss: {advice}")


class JobError(DeepbandError):
    """A job that this study does not wait for."""

    def __init__(self, bracket: object, index: object, rung: object, reason: str) -> None:
        self.bracket = bracket
        self.index = index
        self.rung = rung
        super().__init__(
            f"the job of bracket {bracket}, index {index}, rung {rung} cannot be told: {reason}"
        )


class UnfinishedError(DeepbandError):
    """The current run must be finished first."""

    def __init__(self, action: str, open_jobs: int) -> None:
        self.action = action
        self.open_jobs = open_jobs
        jobs = "1 job is" if open_jobs == 1 else f"{open_jobs} jobs are"
        super().__init__(
            f"cannot {action}: the current run is not finished, {jobs} open (and may lead to "
            "more on the rungs above). Ask and tell until `study.done` is True, then try again."
        )


class ClosedError(DeepbandError):
    """The study was closed."""

    def __init__(self) -> None:
        super().__init__("the study is closed; open it again with deepband.open_study(...)")


class SmallSpaceWarning(UserWarning):
    """A discrete space has fewer values than the run needs configs: some will repeat."""
