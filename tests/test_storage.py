"""What holds for every storage."""

from __future__ import annotations

import math
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import deepband
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
from deepband.storage import MemoryStorage, SqliteStorage, Storage, state_of
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


def test_news_are_what_came_since(tmp_path: Path) -> None:
    """A reader that follows a driver commit by commit always has what a new one would read."""
    place = tmp_path / "a.study"
    driver = deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9)
    reader = SqliteStorage(place)
    state = state_of(reader)
    assert reader.news(state) == []
    draw, objective = random.Random(3), noisy(3, failures=0.2)
    for strategy in (None, "discarding", "preserving"):
        if strategy:
            driver.deepen(strategy)
        while jobs := driver.ask_all():
            draw.shuffle(jobs)
            for job in jobs:
                driver.tell(job, objective(job))
                if draw.random() < 0.3:
                    follow(reader, state)
    follow(reader, state)
    assert len(state.runs) == 3
    assert len(driver.evaluations) == sum(map(len, state.results.values()))


def follow(reader: SqliteStorage, state: State) -> None:
    news = reader.news(state)
    assert news is not None
    state.apply(news)
    whole = state_of(SqliteStorage(reader.path))
    assert state.results == whole.results
    assert state.configs == whole.configs
    assert state.fronts == whole.fronts
    assert state.runs == whole.runs
    assert state.leaders == whole.leaders


def test_news_with_work_ahead(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    driver = deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=3)
    reader = SqliteStorage(place)
    state = state_of(reader)
    driver.optimize(lambda config, budget: config["x"], workers=2, ahead=True)
    follow(reader, state)
    driver.deepen("efficient")
    driver.optimize(lambda config, budget: config["x"])
    follow(reader, state)


def test_news_are_none_when_something_was_taken_back(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "a.study")
    storage.lock()
    storage.append(FACTS[:-2])
    reader = SqliteStorage(storage.path)
    state = state_of(reader)
    storage.append(FACTS[-2:])
    assert reader.news(state) is None
    state = state_of(reader)
    assert reader.news(state) == []
    storage.append([JobFinished(0, 3, 0, 0, 0.5)])
    assert reader.news(state) == [
        ObjectiveNamed("train.py:objective"),
        JobFinished(0, 3, 0, 0, 0.5),
    ]


def test_news_are_none_when_it_is_another_study(tmp_path: Path) -> None:
    for name in ("a", "b"):
        study = deepband.open_study(tmp_path / name, space={"x": (0.0, 1.0)}, max_budget=3)
        finish(study, noisy(1))
        study.close()
    reader = SqliteStorage(tmp_path / "a")
    state = state_of(reader)
    (tmp_path / "b").replace(tmp_path / "a")
    assert reader.news(state) is None


def make_old(place: Path) -> None:
    """A file as it was written before format 2."""
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(
            "DROP INDEX evaluations_by_commit;"
            "ALTER TABLE evaluations DROP COLUMN commits;"
            "ALTER TABLE studies DROP COLUMN reopened;"
            "PRAGMA user_version = 1;"
        )


def test_a_file_of_format_1_is_read_and_written(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    with deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=3) as study:
        job = study.ask()
        assert job
        study.tell(job, 0.5)
    make_old(place)
    reader = SqliteStorage(place)
    state = state_of(reader)
    assert reader.news(state) is None
    with deepband.open_study(place) as study:
        assert len(study.evaluations) == 1
        finish(study, noisy(1))
    assert reader.news(state) is not None
    whole = state_of(SqliteStorage(place))
    assert sum(map(len, whole.results.values())) == 6
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
