"""Warnings about a study. Each names the line of the user's code that called deepband."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from deepband.analysis import summary
from deepband.analysis.failures import FailureWatch
from deepband.errors import (
    FailedEvaluationsWarning,
    SmallSpaceWarning,
    UnseededWarning,
    WaitingWarning,
    counted,
    show_warning,
)
from deepband.study.session import Session

PACKAGE = str(Path(__file__).parents[1])


def warn_of_small_space(session: Session) -> None:
    """Warn if the current run needs more configs than there are in the space, unless equal ones
    share results."""
    needed = summary.plan(session.state).configs
    if session.space.size < needed and not session.state.created.reuse_identical:
        warnings.warn(
            f"the space has at most {counted(int(session.space.size), 'different config')} and the "
            f"run needs {needed}: some will be evaluated more than once. Enlarge the space, raise "
            "min_budget for fewer configs, or create the study with reuse_identical=True, so that "
            "equal configs share results.",
            SmallSpaceWarning,
            _user_level(),
        )


def warn_of_failures(watch: FailureWatch, session: Session) -> None:
    """Warn of what failed since the watch began."""
    found = watch.summary(session.state)
    if found is not None:
        text = f"{found}\nstudy.failures() shows their configs and tracebacks."
        warnings.warn(text, FailedEvaluationsWarning, _user_level())


def warn_of_missing_context() -> None:
    """Warn that the objective of a confirmation cannot know its seed."""
    warnings.warn(
        "the objective takes no context, so the seeds of the repetitions cannot reach it. If it is "
        "not random, or always uses the same seed, every repetition has the same result. Add a "
        "parameter named context, and seed your training with context.seed.",
        UnseededWarning,
        _user_level(),
    )


def warn_of_waiting(what: str) -> None:
    """Warn that what was added has no effect on the current run."""
    show_warning(
        f"{what} waits for the next extension. Start one with study.deepen() or study.widen(), and "
        "then call study.optimize(...).",
        WaitingWarning,
        _user_level() + 1,
    )


def _user_level() -> int:
    """The `stacklevel` of the user's code, for the function that calls this one."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
