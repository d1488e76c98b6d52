"""Leased jobs: any number of open studies ask and tell, each call locking the file for a moment."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from deepband import InputError, Job, JobError, LockedError, StorageError, Study
from deepband.analysis.export import canonical
from deepband.core.leases import read_token
from deepband.storage import driver_lock
from deepband.study.leased_jobs import lease_context
from deepband.system import file_locks, process_identity

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}
HOUR = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def open_study(path: Path | None, **settings: Any) -> Study:
    return deepband.open_study(path, space=SPACE, max_budget=9, **settings)


def loss(job: Job) -> float:
    return float(job.config["x"]) / job.budget


def exported(study: Study) -> list[str]:
    return list(canonical(study.session.state))


def undisturbed(**settings: Any) -> list[str]:
    study = open_study(None, **settings)
    while job := study.ask():
        study.tell(job, loss(job))
    return exported(study)


def test_two_open_studies_share_the_work(path: Path) -> None:
    first, second = open_study(path), open_study(path)
    one, two = first.ask(lease=HOUR), second.ask(lease=HOUR)
    assert one is not None
    assert two is not None
    assert one.key != two.key
    first.tell(two, loss(two))  # any process may report it
    second.tell(one.token, loss(one))
    for number in range(100):
        study = (first, second)[number % 2]
        if job := study.ask(lease=HOUR):
            study.tell(job, loss(job))
    assert second.ask(lease=HOUR) is None
    assert first.ask(lease=HOUR) is None
    assert first.done
    assert second.done
    assert exported(first) == exported(second) == undisturbed()
    first.close()
    second.close()
    assert os.listdir(path.parent) == ["a.study"]


def test_a_lease_survives_closing_the_study(path: Path) -> None:
    with open_study(path) as study:
        jobs = study.ask_all(limit=3, lease=HOUR)
    carried = pickle.loads(pickle.dumps(jobs))
    with deepband.open_study(path) as study:
        others = study.ask_all(lease=HOUR)
        assert not {job.key for job in others} & {job.key for job in jobs}
        study.tell_all([(job, loss(job)) for job in carried])
    with deepband.open_study(path) as study:
        assert len(study.evaluations) == 3


def test_a_driver_does_not_run_leased_jobs(path: Path) -> None:
    with open_study(path) as study:
        job = study.ask(lease=HOUR)
        assert job is not None
    ran: list[object] = []

    def train(config: dict[str, Any], budget: float) -> float:
        ran.append(config)
        return float(config["x"]) / budget

    with deepband.open_study(path) as study:
        study.optimize(train)
        assert not study.done
        assert job.config not in ran
        assert study.ask() is None
        study.tell(job, loss(job))
        study.optimize(train)
        assert exported(study) == undisturbed()


def test_an_expired_lease_makes_its_job_available_and_its_result_is_accepted(path: Path) -> None:
    with open_study(path) as study:
        late = study.ask(lease=1e-6)
        again = study.ask(lease=1e-6)
        assert late is not None
        assert again is not None
        assert late.key == again.key
        assert late.token != again.token
        study.tell(late, loss(late))
        with pytest.raises(JobError, match="already recorded"):
            study.tell(again, 7.0)
        with pytest.raises(JobError, match="already recorded"):
            study.tell(late, 7.0)
        assert [each.loss for each in study.evaluations] == [loss(late)]


def test_a_released_job_is_available_again(path: Path) -> None:
    with open_study(path) as study:
        job = study.ask(lease=HOUR)
        assert job is not None
    with deepband.open_study(path) as study:
        study.release(job.token)
        study.release(job)  # twice does nothing
        again = study.ask(lease=HOUR)
        assert again is not None
        assert again.key == job.key
        study.tell(job, loss(job))  # it was paid for, and nobody else has reported one
        with pytest.raises(JobError, match="already recorded"):
            study.release(again)


def test_a_lease_can_be_renewed(path: Path) -> None:
    with open_study(path) as study:
        job = study.ask(lease=1e-6)
        assert job is not None
        study.renew(job, HOUR)
        other = study.ask(lease=HOUR)
        assert other is not None
        assert other.key != job.key


def test_tokens_of_another_study_are_refused(path: Path) -> None:
    with open_study(path) as study, open_study(path.with_name("b.study"), seed=1) as other:
        job = other.ask(lease=HOUR)
        assert job is not None
        for given_job in (job, job.token):
            with pytest.raises(InputError, match="belongs to another study"):
                study.tell(given_job, 0.5)
            with pytest.raises(InputError, match="belongs to another study"):
                study.release(given_job)
        mine = study.ask(lease=HOUR)
        assert mine is not None
        forged = job._replace(token=mine.token)
        with pytest.raises(JobError, match="another study"):
            study.tell(forged, 0.5)
        with pytest.raises(JobError, match="that of another job"):
            study.tell(mine._replace(index=5), 0.5)
        assert len(study.evaluations) == 0


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "60", True])
def test_a_lease_that_is_no_time_is_refused(path: Path, bad: Any) -> None:
    with open_study(path) as study:
        with pytest.raises(InputError, match="number of seconds above 0"):
            study.ask(lease=bad)
        with pytest.raises(InputError, match="give `lease`, too"):
            study.ask(detached=True)


def test_a_call_waits_for_the_lock_and_then_says_who_has_it(
    path: Path,
) -> None:
    with open_study(path) as study:
        job = study.ask(lease=HOUR)
        assert job is not None
        with deepband.open_study(path) as driver:
            driver.ask()
            with pytest.raises(LockedError, match=f"process {os.getpid()}"):
                study.session.turn(0.01).__enter__()
        study.tell(job, loss(job))


def test_a_study_that_a_call_has_locked_stays_locked(path: Path) -> None:
    with open_study(path) as study:
        assert study.ask() is not None
        job = study.ask(lease=HOUR)
        assert job is not None
        with deepband.open_study(path) as other, pytest.raises(LockedError):
            other.session.turn(0.01).__enter__()
        study.tell(job, loss(job))


CODE = """
import deepband, sys, time
study = deepband.open_study(sys.argv[1])
print(study.ask(lease=3600).token, flush=True)
sys.stdin.read()
"""


def process_with_a_lease(path: Path) -> tuple[subprocess.Popen[str], str]:
    given_code = [sys.executable, "-c", CODE, str(path)]
    process = subprocess.Popen(given_code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_the_end_of_a_process_ends_its_leases(path: Path) -> None:
    open_study(path).close()
    process, token = process_with_a_lease(path)
    with process, deepband.open_study(path) as study:
        study.ask_all(lease=HOUR)
        assert study.ask(lease=HOUR) is None
        process.kill()
        process.wait()
        job = study.ask(lease=HOUR)
        assert job is not None
        assert read_token(job.token)[0] == read_token(token)[0]
        study.tell(token, 0.5)  # even though the process is gone


@pytest.mark.parametrize("name", ["ask", "ask_all", "ask_batch", "optimize"])
def test_a_locked_study_takes_over_the_jobs_of_a_dead_process(path: Path, name: str) -> None:
    open_study(path).close()
    process, token = process_with_a_lease(path)
    process.kill()
    process.wait()
    with process, deepband.open_study(path) as study:
        if name == "optimize":
            study.optimize(lambda config, budget: float(config["x"]) / budget)
            assert study.done
            assert exported(study) == undisturbed()
            return
        assert len(study.ask_all()) == 9 + 5 + 3 - 1
        job = getattr(study, name)()
        found = job if isinstance(job, Job) else job[0]
        assert found.key == read_token(token)[0]


def test_a_lost_lease_cannot_be_renewed(path: Path) -> None:
    with open_study(path) as study:
        released, lost = study.ask(lease=HOUR), study.ask(lease=1e-3)
        assert released is not None
        assert lost is not None
        study.release(released)
        with pytest.raises(JobError, match="cannot be renewed"):
            study.renew(released, HOUR)
        time.sleep(0.01)
        study.renew(lost, 1e-3)  # it has ended, but nobody else has the job
        time.sleep(0.01)
        assert lost.key in {job.key for job in study.ask_all(lease=HOUR)}
        with pytest.raises(JobError, match="cannot be renewed"):
            study.renew(lost, HOUR)


def test_a_refused_call_leaves_the_folders_of_jobs_alone(path: Path) -> None:
    with open_study(path) as study:
        first = study.ask(lease=1e-3)
        assert first is not None
        time.sleep(0.01)
        second = next(job for job in study.ask_all(lease=HOUR) if job.key == first.key)
        folder = lease_context(study.session, second).path
        (folder / "weights").write_text("1")
        with pytest.raises(JobError, match="twice"):
            study.tell_all([(first, 0.1), (second, 0.2)])
        assert (folder / "weights").read_text() == "1"


def test_a_detached_lease_outlives_its_process(path: Path) -> None:
    code = CODE.replace("lease=3600", "lease=3600, detached=True")
    open_study(path).close()
    subprocess.run([sys.executable, "-c", code, str(path)], input="", text=True, check=True)
    with deepband.open_study(path) as study:
        assert len(study.ask_all(lease=HOUR)) == 9 + 5 + 3 - 1
        assert study.ask(lease=HOUR) is None


def test_a_process_is_known_by_its_start() -> None:
    own = process_identity.this_process()
    assert not process_identity.is_dead(own)
    assert process_identity.is_dead(own._replace(started=own.started + "1"))  # its id was reused
    assert process_identity.is_dead(own._replace(pid=2**22 + 1))
    assert not process_identity.is_dead(own._replace(host="another"))
    assert not process_identity.is_dead(own._replace(started="another-boot 1"))
    assert not process_identity.is_dead(process_identity.NO_PROCESS)


def test_a_file_system_without_locks_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_study(path) as study:
        monkeypatch.setattr(driver_lock, "excludes_others", lambda *_: False)
        with pytest.raises(StorageError, match="deepband doctor"):
            study.ask(lease=HOUR)


@pytest.mark.parametrize(
    ("kind", "options", "safe"),
    [
        ("ext4", "rw", True),
        ("nfs4", "rw,vers=4.2,local_lock=none", True),
        ("nfs", "rw,nolock,local_lock=all", False),
        ("nfs", "rw,local_lock=flock", False),
        ("lustre", "rw,flock", True),
        ("lustre", "rw", False),
        ("lustre", "rw,localflock", False),
        ("fuse.sshfs", "rw", False),
        ("cifs", "rw,nobrl", False),
    ],
)
def test_mount_options_that_keep_locks_on_one_machine(
    kind: str, options: str, safe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw 0 0\nserver:/x /data\\040x {kind} {options} 0 0\n")
    monkeypatch.setattr(file_locks, "MOUNTS", mounts)
    found = file_locks.mount_of(Path("/data x/y"))
    assert found == (kind, frozenset(options.split(",")))
    assert file_locks.is_shared_safely(*found) == safe


@settings(max_examples=min(40, settings().max_examples), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sampler=st.sampled_from(["uniform", "tpe"]),
    reuse=st.booleans(),
)
def test_any_order_of_processes_comes_to_the_same_study(
    seed: int, sampler: str, reuse: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Several processes ask, tell late, release, forget jobs and reopen the study at random."""
    chosen, path = random.Random(seed), tmp_path_factory.mktemp("any") / "a.study"
    options: dict[str, Any] = {"sampler": sampler, "reuse_identical": reuse, "parallel": 3}
    studies = [open_study(path, **options)]
    studies[0].session.storage.end_turn()
    studies += [deepband.open_study(path) for _ in range(2)]
    held: list[Job] = []
    while not studies[0].done:
        study, action = chosen.choice(studies), chosen.random()
        if action < 0.5:
            length = chosen.choice([HOUR, 1e-6])
            held += study.ask_all(limit=chosen.choice([1, 2, None]), lease=length)
        elif action < 0.9 and held:
            job = held.pop(chosen.randrange(len(held)))
            if chosen.random() < 0.8:
                tell_once(study, job)
            else:
                release_once(study, job)
        else:
            place = chosen.randrange(len(studies))
            studies[place].close()
            studies[place] = deepband.open_study(path)
    assert exported(studies[0]) == undisturbed(**options)
    for study in studies:
        study.close()
    assert deepband.open_study(path).session.state.leases == {}


def tell_once(study: Study, job: Job) -> None:
    with suppress(JobError):
        study.tell(job.token, loss(job))


def release_once(study: Study, job: Job) -> None:
    with suppress(JobError):
        study.release(job)


def test_the_journal_stays_between_turns_and_not_after_them(path: Path) -> None:
    journal = path.with_name("a.study-journal")
    first, second = open_study(path), open_study(path)
    for study in (first, second, first):
        job = study.ask(lease=HOUR)
        assert job is not None
        study.tell(job, loss(job))
        assert journal.exists()
    first.close()
    job = second.ask(lease=HOUR)  # the journal is written again
    assert job is not None
    second.tell(job, loss(job))
    second.close()
    assert os.listdir(path.parent) == ["a.study"]


def test_a_journal_of_another_file_is_not_deleted(path: Path) -> None:
    study, journal = open_study(path), path.with_name("a.study-journal")
    assert study.ask(lease=HOUR) is not None
    path.rename(path.with_name("b.study"))
    path.write_bytes(b"another file")
    journal.write_bytes(b"another journal")
    study.close()
    assert journal.read_bytes() == b"another journal"


def test_a_leased_job_takes_no_shared_result(path: Path) -> None:
    """After `retry_failed`, an equal config can be evaluated before the one that is leased."""
    same: dict[str, Any] = {"space": {"k": ["a"]}, "max_budget": 3, "reuse_identical": True}
    with deepband.open_study(path, **same) as study:
        first = study.ask(lease=HOUR)
        assert first is not None
        study.tell(first, RuntimeError("unlucky"))
        leased = study.ask(lease=HOUR)
        assert leased is not None
        assert leased.key == (0, 1, 0)
        assert study.retry_failed() == 1
    with deepband.open_study(path) as study:
        again = study.ask(lease=HOUR)
        assert again is not None
        assert again.key == first.key
        study.tell(again, 0.5)
        study.tell(leased, 0.25)
        found = {each.index: each.loss for each in study.evaluations if each.bracket == 0}
        assert found == {0: 0.5, 1: 0.25, 2: 0.5}
