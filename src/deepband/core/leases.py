"""Leases: jobs that are reserved in the study itself, so that other processes know of them.

A job that a process received from `ask` is known to this process only, which therefore keeps the
study locked. A leased job is a fact of the study: any number of processes can lease jobs and record
their results, each call locking the study for a moment. A lease is in force until the time it
names, unless it is released before; whether a job is available thus depends on the facts and on the
time, which callers pass as `now`. A result is accepted after the end of its lease, too, as long as
the job has none.

The token of a leased job, such as `0-5-1.3fa9c1d2`, consists of its bracket, its index, its rung
and the token of the lease.
"""

from __future__ import annotations

import re

from deepband.core.facts import JobKey, JobsLeased
from deepband.core.state import State
from deepband.errors import InputError, JobError, shown

RELEASED = 0.0
"""The `until` of a lease that was released."""
_NUMBER = "(0|[1-9][0-9]{0,8})"
_TOKEN = re.compile(rf"{_NUMBER}-{_NUMBER}-{_NUMBER}\.([0-9a-f]{{8}})", re.ASCII)


def job_token(key: JobKey, token: str) -> str:
    """The token of a job in a lease."""
    bracket, index, rung = key
    return f"{bracket}-{index}-{rung}.{token}"


def read_token(given: object) -> tuple[JobKey, str]:
    """The job and the lease that a token names, or an InputError."""
    found = _TOKEN.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise InputError(
            f"{shown(given)} is not a job: give what `ask` returned, or the token of a leased job, "
            "such as '0-5-1.3fa9c1d2'."
        )
    bracket, index, rung = map(int, found.groups()[:3])
    return (bracket, index, rung), found[4]


def find_lease(state: State, given: object) -> tuple[JobKey, JobsLeased]:
    """The job that a token names and its lease, in force or not. Raises if the study has no such
    lease, or the job has a result."""
    key, token = read_token(given)
    lease = state.leases.get(key, {}).get(token)
    if lease is not None:
        return key, lease
    if state.result(*key) is not None:
        raise JobError(*key, "its result is already recorded.")
    raise InputError(
        f"the study has no lease with the token {shown(given)}: the token is mistyped or belongs "
        "to another study, or a failure that was recorded with it was withdrawn. Ask for the job "
        "again."
    )


def leased_jobs(state: State, now: float) -> list[JobKey]:
    """The jobs that are leased at this time."""
    return [key for key in state.leases if state.is_leased(key, now)]


def abandoned_jobs(state: State, now: float) -> list[JobKey]:
    """The jobs that were leased and have no result, and whose leases have all ended."""
    return [key for key in state.leases if not state.is_leased(key, now)]


def is_superseded(state: State, key: JobKey, token: str, now: float) -> bool:
    """Whether a lease of a job has ended, and the job was leased with another token, too: another
    process may be using its folder for checkpoints."""
    leases = state.leases.get(key, {})
    own = leases.get(token)
    return (own is None or own.until <= now) and any(other != token for other in leases)
