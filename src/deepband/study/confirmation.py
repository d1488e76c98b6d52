"""Evaluating the best configs again with other seeds, with the loop that runs every other job."""

from __future__ import annotations

from collections.abc import Sequence

from deepband.analysis.confirmations import Confirmations, confirmations
from deepband.core.exact_numbers import check_count
from deepband.errors import InputError
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.study.confirmation_session import ConfirmationSession
from deepband.study.repetitions import Repetition, check_seeds, missing, repetitions, selected
from deepband.study.session import Session
from deepband.study.user_warnings import warn_of_missing_context


def confirm(
    session: Session,
    objective: Objective,
    top: int,
    seeds: int,
    limits: Limits,
    options: RunOptions,
) -> Confirmations:
    """Evaluate the best configs again, as often as there are seeds, and return their means."""
    top, seeds = check_count("top", top), check_seeds(seeds)
    if options.precheck is not None:
        raise InputError(
            "confirm takes no precheck: it repeats configs that have already been trained."
        )
    seeded = options.gives_context(objective)
    with session.confirming.lock:  # a second thread waits, and then finds everything recorded
        wanted = repetitions(selected(session.state, top), seeds)
        if missing(session.state, wanted):
            if not seeded:
                warn_of_missing_context()
            session.lock()  # which reads what another process has written since
            wanted = repetitions(selected(session.state, top), seeds)
            _run_repetitions(session, wanted, objective, limits, options)
    return confirmations(session.state, selected(session.state, top))


def _run_repetitions(
    session: Session,
    wanted: Sequence[Repetition],
    objective: Objective,
    limits: Limits,
    options: RunOptions,
) -> None:
    """Run those of the repetitions that are not recorded, and record their results."""
    confirmation = ConfirmationSession(session, wanted)
    try:
        run_jobs(confirmation, objective, limits, options)
    finally:
        if session.persistent:
            confirmation.remove_empty_folders()
