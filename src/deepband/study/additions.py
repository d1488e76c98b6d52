"""What users add to a study: configs, results from elsewhere, and repetitions of failed jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deepband.core import hyperband
from deepband.core.exact_numbers import Budget
from deepband.core.facts import ConfigsDrawn, JobKey, JobsReopened, RunStopped
from deepband.core.placement import facts_to_add, free_place
from deepband.core.results import read_results
from deepband.errors import read_index
from deepband.study.session import Session, check_text
from deepband.study.user_warnings import warn_of_waiting


def retry_failed(session: Session) -> int:
    """Make failed evaluations available again if nothing depends on them, and return how many. If
    the run was stopped, it continues with them."""
    session.lock()
    run, failed = session.state.run, tuple(hyperband.failed_jobs(session.state, session.virtual))
    if failed:
        continued = [] if run.stopped is None else [RunStopped(run.number, None)]
        session.record([*continued, JobsReopened(failed)])
    return len(failed)


def add_config(session: Session, config: Mapping[str, Any], bracket: int) -> tuple[int, int]:
    """Add a config to the next free slot of a bracket, and return its (bracket, index)."""
    session.lock()
    bracket = read_index("bracket", bracket, len(session.state.progress))
    place = free_place(session.state, bracket)
    session.record([ConfigsDrawn(*place, (session.space.config(config),), "enqueued")])
    if session.state.is_ahead(*place):
        warn_of_waiting(f"the current run has no free slot in bracket {bracket}: the config")
    return place


def add_results(
    session: Session,
    config: Mapping[str, Any],
    results: Iterable[tuple[Budget, object]],
    origin: str,
    place: tuple[int, int] | None = None,
) -> list[JobKey]:
    """Record results of one config that come from elsewhere, and return their jobs."""
    check_text("origin", origin, "give a text that says where results come from.")
    session.lock()
    wanted = "results are pairs, [(budget, result), ...]"
    read = list(read_results(results, wanted, session.state.criteria))
    values = session.space.config(config)
    keys, facts = facts_to_add(session.state, values, read, origin, place)
    done = session.done
    session.record(facts)
    bracket, index, _ = keys[0]
    if session.state.is_ahead(bracket, index):
        why = f"the current run has no free slot in bracket {bracket}"
        warn_of_waiting(f"{why}: the result is recorded, and")
    elif done:
        warn_of_waiting("the current run is done: the result is recorded, and")
    return keys
