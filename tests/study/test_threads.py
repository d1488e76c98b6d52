"""Studies that several threads use."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread

import pytest

import deepband
from deepband import NoResultError, Study
from deepband.analysis.export import canonical
from deepband.study.thread_safety import synchronized
from driving import SPACE, noisy


@pytest.fixture(params=["memory", "file"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    place = tmp_path / "a.study" if request.param == "file" else None
    return deepband.open_study(place, space=SPACE, max_budget=27)


def in_a_thread(action: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(action).result()


def test_each_call_may_come_from_another_thread(study: Study) -> None:
    def step() -> None:
        job = study.ask()
        assert job is not None
        study.tell(job, noisy(1)(job))

    for _ in range(5):
        in_a_thread(step)
    step()
    assert len(study.evaluations) == 6
    in_a_thread(study.close)


def test_many_threads_come_to_the_same_study(study: Study) -> None:
    """Each job is handed out once, whoever asks, and readers see whole steps."""
    start = Barrier(5)

    def drive_one_by_one() -> None:
        start.wait()
        while not study.done:
            if (job := study.ask()) is not None:
                study.tell(job, noisy(1)(job))

    def drive_in_batches() -> None:
        start.wait()
        while not study.done:
            jobs = study.ask_all()
            for job in jobs[3:]:
                study.release(job)
            study.tell_all([(job, noisy(1)(job)) for job in jobs[:3]])

    def read() -> None:
        start.wait()
        while not study.done:
            assert len(study.evaluations) <= len(study.copy().evaluations)
            assert study.runs[0].evaluations >= 0
            with suppress(NoResultError):
                assert study.best.loss is not None

    with ThreadPoolExecutor(5) as pool:
        actions = [drive_one_by_one, drive_one_by_one, drive_in_batches, drive_in_batches, read]
        for future in [pool.submit(action) for action in actions]:
            future.result()
    alone = deepband.open_study(space=SPACE, max_budget=27)
    while job := alone.ask():
        alone.tell(job, noisy(1)(job))
    assert list(canonical(study.session.state)) == list(canonical(alone.session.state))
    study.close()


def test_a_study_can_be_read_while_it_optimizes(study: Study) -> None:
    """A thread that reads does not wait until the run is done."""
    started, looked = Barrier(2), Barrier(2)

    def train(config: dict[str, float], budget: float) -> float:
        if not study.evaluations:
            started.wait(60)
            looked.wait(60)
        return config["x"]

    driver = Thread(target=study.optimize, args=(train,))
    driver.start()
    started.wait(60)
    assert study.evaluations == []
    with pytest.raises(NoResultError):
        _ = study.best
    looked.wait(60)
    driver.join()
    assert study.done
    study.close()


def test_a_copy_has_a_lock_of_its_own() -> None:
    study = deepband.open_study(space=SPACE, max_budget=3)
    for other in (copy.deepcopy(study), pickle.loads(pickle.dumps(study)), study.copy()):
        assert other.ask() is not None


def test_a_class_must_have_the_methods_that_are_free() -> None:
    with pytest.raises(TypeError, match="renamed"):

        @synchronized(free={"gone"})
        class _Renamed:
            def here(self) -> None: ...
