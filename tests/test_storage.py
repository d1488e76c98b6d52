"""What holds for every storage."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from deepband.checkpoints import read_keep
from deepband.drawing import Drawer
from deepband.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
    StudyCreated,
)
from deepband.samplers import Uniform
from deepband.space import Space
from deepband.state import State
from deepband.storage import MemoryStorage, SqliteStorage, Storage
from deepband.study import Study
from driving import finish, noisy

SPACE = Space({"x": (0.0, 1.0), "kind": ["a", None, 3, 0.5, True, [1, "b"]]})
CREATED = StudyCreated(
    "id", SPACE.description, 3, Fraction(1), Fraction(9), 2**70, False, True, "uniform", 64
)
CONFIGS = tuple({"x": 0.1 * index, "kind": [1, "b"]} for index in range(9))
FACTS: list[Fact] = [
    CREATED,
    RunStarted(0, Fraction(9), None),
    ObjectiveNamed("train.py:objective"),
    ConfigsDrawn(0, 0, CONFIGS[:4]),
    JobsStarted(((0, 0, 0), (0, 1, 0))),
    JobFinished(0, 0, 0, 0, 0.1 + 0.2, None, {"accuracy": 0.9}, 1.5, None, ((1.0, 0.5),)),
    JobReleased((0, 1, 0)),
    JobFinished(0, 1, 0, 0, None, "ValueError: bad\n\ntraceback"),
    JobFinished(0, 2, 0, 0, math.inf),
    JobFinished(0, 3, 0, 0, None, "nan: the objective returned nan"),
    JobsReopened(((0, 3, 0),)),
    ConfigsDrawn(0, 4, CONFIGS[4:]),
]

Make = Callable[[], Storage]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the same storage, again and again."""
    if request.param == "sqlite":
        return lambda: SqliteStorage(tmp_path / "a.study")
    memory = MemoryStorage()
    return lambda: memory


def same(one: State, other: State) -> bool:
    return (one.created, one.objective, one.configs, one.results, one.leaders) == (
        other.created,
        other.objective,
        other.configs,
        other.results,
        other.leaders,
    ) and [run.arrived for run in one.runs] == [run.arrived for run in other.runs]


class TestEveryStorage:
    """The contract."""

    def test_a_new_one_is_empty(self, make: Make) -> None:
        assert list(make().load()) == []

    def test_facts_lead_to_the_same_state(self, make: Make) -> None:
        storage = make()
        storage.lock()
        storage.append(FACTS[:2])
        for number, fact in enumerate(FACTS[2:], start=3):
            storage.append([fact])
            durable = [f for f in FACTS[:number] if not isinstance(f, JobsStarted | JobReleased)]
            assert same(State(make().load()), State(durable))

    def test_many_facts_at_once(self, make: Make) -> None:
        storage = make()
        storage.lock()
        storage.append(FACTS)
        storage.close()
        durable = [f for f in FACTS if not isinstance(f, JobsStarted | JobReleased)]
        assert same(State(make().load()), State(durable))

    def test_a_whole_study_comes_back(self, make: Make) -> None:
        storage = make()
        storage.lock()
        storage.append(FACTS[:2])
        study = Study(
            storage,
            State(storage.load()),
            Drawer(CREATED, SPACE, Uniform(64)),
            read_keep("newest"),
        )
        objective = noisy(3, failures=0.2)
        finish(study, objective, random.Random(0))
        study.deepen("discarding")
        finish(study, objective, random.Random(1))
        study.deepen("efficient", to=243)
        jobs = study.ask_all()
        study.tell_all([(job, objective(job)) for job in jobs[::2]])
        assert same(State(make().load()), study.state)

    def test_closing_twice_does_nothing(self, make: Make) -> None:
        storage = make()
        storage.lock()
        storage.append(FACTS[:2])
        storage.close()
        storage.close()
        assert State(make().load()).created == CREATED

    def test_locking_says_whether_the_study_changed(self, make: Make) -> None:
        storage = make()
        storage.lock()
        storage.append(FACTS[:2])
        assert not storage.lock()
        storage.close()
        if isinstance(storage, MemoryStorage):
            return
        early, late = make(), make()
        list(early.load())
        list(late.load())
        assert not early.lock()
        early.append([FACTS[3]])
        early.close()
        assert late.lock()


def test_a_file_descriptor_is_not_left_behind(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        storage = SqliteStorage(tmp_path / "a.study")
        list(storage.load())
        storage.lock()
        storage.append(FACTS[:2] if not storage.path.exists() else [FACTS[2]])
        storage.close()
    assert len(os.listdir("/proc/self/fd")) == before
