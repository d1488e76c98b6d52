"""Leasing jobs of an open study, and recording and releasing leased jobs.

Each function locks the study for its own duration only, so that any number of processes can use it.
The end of a process also ends its leases: the first process on the same host that finds no other
job notices.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from deepband.core.exact_numbers import is_finite
from deepband.core.facts import JobKey, JobsLeased, Outcome, Owner
from deepband.core.jobs import check_open, jobs_of
from deepband.core.leases import RELEASED, find_lease, is_superseded, job_token, read_token
from deepband.core.records import Job
from deepband.errors import InputError, JobError, shown
from deepband.study.session import Session
from deepband.system.process_identity import NO_PROCESS, is_dead, this_process

if TYPE_CHECKING:
    from deepband.execution.checkpoint_cleanup import CheckpointCleanup
    from deepband.execution.context import Context

Leased: TypeAlias = Job | str
"""A leased job, or its token."""


def read_lease(given: object) -> float:
    """The length of a lease in seconds, or an InputError."""
    if not is_finite(given) or not float(given) > 0:  # type: ignore[arg-type] # it is a number
        raise InputError(f"lease is {shown(given)}: give a number of seconds above 0.")
    return float(given)  # type: ignore[arg-type] # it is a number


def lease_jobs(
    session: Session, seconds: float, limit: int | None = None, detached: bool = False
) -> list[Job]:
    """Jobs that can start, at most this many, leased for this long."""
    seconds, owner = read_lease(seconds), NO_PROCESS if detached else this_process()
    with session.turn():
        keys = session.startable(limit)
        if not keys and end_dead_leases(session):
            keys = session.startable(limit)
        return lease_keys(session, keys, owner, time.time() + seconds)


def lease_keys(session: Session, keys: Sequence[JobKey], owner: Owner, until: float) -> list[Job]:
    """The jobs with these keys, which can start, leased with a new token. Within a turn."""
    if not keys:
        return []
    return session.lease(keys, JobsLeased(tuple(keys), secrets.token_hex(4), owner, until))


def take_over(session: Session) -> bool:
    """Make the jobs that processes on this host had leased when they ended available again, and
    return whether there were any."""
    if not session.state.leases:
        return False
    with session.turn():
        return end_dead_leases(session)


def end_dead_leases(session: Session) -> bool:
    """Release the leases of processes on this host that have ended, and return whether there were
    any. A job that a worker of such a process is still running stays leased. Within a turn."""
    now, state = time.time(), session.state
    valid = [
        (key, lease)
        for key, leases in state.leases.items()
        for lease in leases.values()
        if lease.until > now
    ]
    dead = {owner for owner in {lease.owner for _, lease in valid} if is_dead(owner)}
    ended = [(key, lease) for key, lease in valid if lease.owner in dead]
    if not ended:
        return False
    running = running_keys(session)
    facts = [_ended(key, lease) for key, lease in ended if key not in running]
    if facts:
        session.renew(facts)
    return bool(facts)


def running_keys(session: Session) -> set[JobKey]:
    """The jobs that living workers of any process are running."""
    if not session.persistent:
        return set()
    from deepband.execution.outbox import Outbox

    return {key for each in Outbox(session.files).running() for key in each.keys}


def _ended(key: JobKey, lease: JobsLeased) -> JobsLeased:
    return lease._replace(jobs=(key,), until=RELEASED)


def record_leased(session: Session, pairs: Iterable[tuple[Leased, Outcome]]) -> None:
    """Record the outcomes of leased jobs: all of them, or none if it raises. What was saved in the
    folder of a job becomes its checkpoint."""
    with session.turn():
        found = [(leased_job(session, given), outcome) for given, outcome in pairs]
        for job, _ in found:
            check_open(session.state, job, session.learns)
        _check_different([job for job, _ in found])
        cleanup = _cleanup(session)
        for job, outcome in found:
            _accept_saved(session, job, outcome)
        session.record_outcomes(found)
        if cleanup:
            cleanup.prune([job for job, _ in found])


def _check_different(jobs: Sequence[Job]) -> None:
    seen: set[JobKey] = set()
    for job in jobs:
        if job.key in seen:
            raise JobError(*job.key, "the same job appears twice in this call.")
        seen.add(job.key)


def leased_job(session: Session, given: Leased) -> Job:
    """The job that a token names, which the study must know, or a job without a token. Within a
    turn."""
    if not isinstance(given, Job | str):
        check_open(session.state, given, session.learns)  # which raises
    if isinstance(given, Job) and not given.token:
        return given
    key, lease = find_lease(session.state, given.token if isinstance(given, Job) else given)
    if not isinstance(given, Job):
        return jobs_of(session.state, [key])[0]._replace(token=job_token(key, lease.token))
    if given.key != key:
        raise JobError(*given.key, f"its token {given.token} is that of another job.")
    return given


def release_leased(session: Session, given: Leased) -> None:
    """End the lease of a job, which becomes available again."""
    with session.turn():
        key, lease = find_lease(session.state, given.token if isinstance(given, Job) else given)
        if lease.until > RELEASED:
            session.renew([_ended(key, lease)])


def renew_leased(session: Session, jobs: Iterable[Leased], seconds: float) -> None:
    """Let the leases of jobs end this many seconds from now."""
    until = time.time() + read_lease(seconds)
    with session.turn():
        tokens = [given.token if isinstance(given, Job) else given for given in jobs]
        found = [_held_lease(session, token) for token in tokens]
        if found:
            facts = [lease._replace(jobs=(key,), until=until) for key, lease in found]
            session.renew(facts)


def _held_lease(session: Session, token: str) -> tuple[JobKey, JobsLeased]:
    """The lease that a token names, unless the job may be with another process by now."""
    key, lease = find_lease(session.state, token)
    if lease.until <= RELEASED or is_superseded(session.state, key, lease.token, time.time()):
        raise JobError(*key, "its lease has ended and cannot be renewed. Ask for another job.")
    return key, lease


def is_taken_over(session: Session, job: Job) -> bool:
    """Whether the lease of a job has ended, and another process has leased it since."""
    key, token = read_token(job.token)
    return is_superseded(session.state, key, token, time.time())


def lease_context(session: Session, job: Job) -> Context:
    """The seed and the checkpoints of a leased job. Its folder is named after its token."""
    from deepband.execution.task_factory import TaskFactory

    return TaskFactory(session, session.checkpoints).context(job, read_token(job.token)[1])


def _accept_saved(session: Session, job: Job, outcome: Outcome) -> None:
    """Turn what was saved in the folder of a leased job into its checkpoint."""
    from deepband.execution.objective import seal_attempt
    from deepband.storage.retention import Keep

    if not session.persistent:
        return
    checkpoints = session.checkpoints
    folder = checkpoints.attempts / job.token
    if os.path.lexists(folder):
        keeps = session.keep != Keep(False, 0) and not outcome.failed
        if seal_attempt(folder, keeps):
            with suppress(OSError):  # then it has a result without a checkpoint
                checkpoints.accept(job.key, folder.name)


def _cleanup(session: Session) -> CheckpointCleanup | None:
    """What removes superfluous checkpoints, if there are any."""
    if not session.persistent or not session.checkpoints.folder.is_dir():
        return None
    from deepband.execution.checkpoint_cleanup import CheckpointCleanup

    return CheckpointCleanup(session, session.checkpoints)
