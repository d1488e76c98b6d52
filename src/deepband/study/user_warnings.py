"""Warnings about a study. Each names the line of the user's code that called deepband."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from deepband.analysis.failures import FailureWatch, failures
from deepband.analysis.plan import plan
from deepband.errors import (
    FailedEvaluationsWarning,
    IdleWorkersWarning,
    MissingCurvesWarning,
    SmallSpaceWarning,
    UnseededWarning,
    WaitingWarning,
    counted,
    show_warning,
    user_level,
)
from deepband.execution.worker_output import first_with_output
from deepband.study.session import Session

if TYPE_CHECKING:
    from deepband.study.omissions import Omissions


def warn_of_small_space(session: Session) -> None:
    """Warn if the current run needs more configs than there are in the space, unless equal ones
    share results."""
    needed = plan(session.state).configs
    if session.space.size < needed and not session.state.created.reuse_identical:
        warnings.warn(
            f"the space has at most {counted(int(session.space.size), 'different config')} and the "
            f"run needs {needed}: some will be evaluated more than once. Enlarge the space, raise "
            "min_budget for fewer configs, or create the study with reuse_identical=True, so that "
            "equal configs share results.",
            SmallSpaceWarning,
            user_level(),
        )


def warn_of_idle_workers(session: Session, workers: int | None) -> None:
    """Warn if there are more workers than the sampler can supply with configs."""
    parallel = session.parallel
    if parallel is not None and workers is not None and workers > parallel:
        warnings.warn(
            f"the sampler {session.state.created.sampler!r} samples for {parallel} of {workers} "
            f"workers at a time, because the study was created with parallel={parallel}: the "
            f"others will often be idle. For {workers} workers, create a study with "
            f"parallel={workers}.",
            IdleWorkersWarning,
            user_level(),
        )


def warn_of_small_batches(session: Session, batch: bool | int | None) -> None:
    """Warn if batches could be larger than the sampler's groups of configs."""
    parallel = session.parallel
    if parallel is not None and batch and parallel < (2 if batch is True else batch):
        configs = counted(parallel, "config")
        warnings.warn(
            f"the sampler {session.state.created.sampler!r} samples {configs} at a time, because "
            f"the study was created with parallel={parallel}: batches of new configs are no "
            "larger. Create a study with parallel equal to the size of your batches.",
            IdleWorkersWarning,
            user_level(),
        )


def warn_of_missing_curves(omissions: Omissions | None) -> None:
    """Warn that no training could be stopped early."""
    if omissions is not None and omissions.lacks_curves:
        warnings.warn(
            "stop_training had no effect, because the objective reports no learning curves, or "
            "none that are comparable: call context.report(step, loss) after every unit of the "
            "budget, with the number of units so far, and return the loss reported last.",
            MissingCurvesWarning,
            user_level(),
        )


def warn_of_failures(watch: FailureWatch, session: Session) -> None:
    """Warn of what failed since the watch began."""
    found = watch.summary(session.state)
    if found is not None:
        text = f"{found}\nstudy.failures() shows their configs and tracebacks."
        job = first_with_output(session.files, failures(session.state))
        if job is not None:
            text += f"\nstudy.output{job} shows what the worker of such a job printed."
        warnings.warn(text, FailedEvaluationsWarning, user_level())


def warn_of_missing_context() -> None:
    """Warn that the objective of a confirmation cannot know its seed."""
    warnings.warn(
        "the objective takes no context, so the seeds of the repetitions cannot reach it. If it is "
        "not random, or always uses the same seed, every repetition has the same result. Add a "
        "parameter named context, and seed your training with context.seed.",
        UnseededWarning,
        user_level(),
    )


def warn_of_waiting(what: str) -> None:
    """Warn that what was added has no effect on the current run."""
    show_warning(
        f"{what} waits for the next extension. Start one with study.deepen() or study.widen(), and "
        "then call study.optimize(...).",
        WaitingWarning,
        user_level() + 1,
    )
