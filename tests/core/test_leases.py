"""Leases as facts: which jobs are available depends on the facts and the time alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
from deepband import InputError, JobError
from deepband.analysis.export import canonical
from deepband.core import hyperband, leases
from deepband.core.facts import JobKey, JobsLeased, Owner
from deepband.core.state import State
from deepband.study.observers import history

SPACE = {"x": (0.0, 1.0)}
OWNER = Owner("host", 7, "boot 1")


def new_state() -> State:
    return deepband.open_study(space=SPACE, max_budget=9).session.state


def keys_of(state: State, now: float | None = None) -> list[JobKey]:
    return list(hyperband.ready_jobs(state, None, now))


def leased(*keys: JobKey, token: str = "0a0a0a0a", until: float = 100.0) -> JobsLeased:
    return JobsLeased(keys, token, OWNER, until)


def test_a_leased_job_is_available_again_at_its_end() -> None:
    state = new_state()
    every = keys_of(state)
    state.apply([leased(every[0], every[2])])
    assert keys_of(state) == every  # without a time, leases do not matter
    assert keys_of(state, 99.9) == [every[1], *every[3:]]
    assert keys_of(state, 100.0) == every
    assert leases.leased_jobs(state, 99.0) == [every[0], every[2]]
    assert leases.abandoned_jobs(state, 101.0) == [every[0], every[2]]
    assert not hyperband.is_ready(state, *every[0], now=99.0)
    assert hyperband.is_ready(state, *every[0], now=100.0)


def test_the_last_fact_with_a_token_counts() -> None:
    state = new_state()
    key = keys_of(state)[0]
    state.apply([leased(key), leased(key, until=200.0)])
    assert state.is_leased(key, 150.0)
    state.apply([leased(key, until=leases.RELEASED)])
    assert not state.is_leased(key, 1.0)
    assert leases.find_lease(state, leases.job_token(key, "0a0a0a0a"))[0] == key


def test_a_result_ends_all_leases_of_its_job() -> None:
    study = deepband.open_study(space=SPACE, max_budget=9)
    job = study.ask()
    assert job is not None
    state = study.session.state
    state.apply([leased(job.key), leased(job.key, token="0b0b0b0b")])
    study.tell(job, 0.5)
    assert state.leases == {}
    state.apply([leased(job.key)])
    assert state.leases == {}
    with pytest.raises(JobError, match="already recorded"):
        leases.find_lease(state, leases.job_token(job.key, "0a0a0a0a"))


@pytest.mark.parametrize(
    "bad", ["", "0-0-0", "0-0-0.XYZ", "0-0-0.0a0a0a0a ", "-1-0-0.0a0a0a0a", "00-0-0.0a0a0a0a", 7]
)
def test_what_is_no_token_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="is not a job"):
        leases.read_token(bad)


def test_a_foreign_token_is_refused() -> None:
    with pytest.raises(InputError, match="belongs to another study"):
        leases.find_lease(new_state(), "0-0-0.0a0a0a0a")
    with pytest.raises(InputError, match="belongs to another study"):
        leases.find_lease(new_state(), "99-0-99.0a0a0a0a")


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**8))
def test_a_token_names_its_job(bracket: int, index: int, rung: int) -> None:
    key = bracket, index, rung
    assert leases.read_token(leases.job_token(key, "0123abcd")) == (key, "0123abcd")


def test_a_lease_that_ended_is_superseded_by_another() -> None:
    state = new_state()
    key = keys_of(state)[0]
    state.apply([leased(key)])
    assert not leases.is_superseded(state, key, "0a0a0a0a", 150.0)  # nobody else had it
    state.apply([leased(key, token="0b0b0b0b", until=300.0)])
    assert not leases.is_superseded(state, key, "0a0a0a0a", 50.0)
    assert leases.is_superseded(state, key, "0a0a0a0a", 150.0)


def test_leases_are_no_part_of_exports_and_copies() -> None:
    study = deepband.open_study(space=SPACE, max_budget=9)
    assert study.ask(lease=60) is not None
    other = deepband.open_study(space=SPACE, max_budget=9)
    assert list(canonical(study.session.state)) == list(canonical(other.session.state))
    assert study.session.state.leases
    assert study.copy().session.state.leases == {}
    assert not any(isinstance(fact, JobsLeased) for fact in history(study.session.state))


@given(st.lists(st.tuples(st.integers(0, 21), st.floats(0, 200)), max_size=30), st.floats(0, 200))
def test_a_job_is_available_if_no_lease_is_in_force(
    given_leases: list[tuple[int, float]], now: float
) -> None:
    state = new_state()
    every = keys_of(state)
    last: dict[tuple[JobKey, str], float] = {}
    for number, (place, until) in enumerate(given_leases):
        key, token = every[place % len(every)], f"{number % 3:08x}"
        state.apply([leased(key, token=token, until=until)])
        last[key, token] = until
    held = {key for (key, _), until in last.items() if until > now}
    assert keys_of(state, now) == [key for key in every if key not in held]
