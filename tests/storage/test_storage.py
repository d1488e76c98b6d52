"""The contract that every storage fulfils."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband.analysis.export import jsonl
from deepband.core.facts import (
    ConfigsDrawn,
    Confirmed,
    Fact,
    JobFinished,
    JobReleased,
    JobsReopened,
    JobsStarted,
    ObjectiveNamed,
    RunStarted,
    StudyCreated,
)
from deepband.core.state import State
from deepband.execution.context import training_seed
from deepband.samplers import Uniform
from deepband.samplers.source import ConfigSource
from deepband.space.search_space import Space
from deepband.storage import MemoryStorage, Storage, state_of
from deepband.storage.retention import read_keep
from deepband.storage.schema import FORMAT
from deepband.storage.sqlite import SqliteStorage
from deepband.study.session import Session
from deepband.study.study import Study
from driving import finish, noisy
from older import FORMATS, WRITTEN, held_by, make_format_2

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
    ConfigsDrawn(0, 4, CONFIGS[4:8]),
    ConfigsDrawn(0, 8, CONFIGS[8:], "enqueued"),
    JobFinished(0, 8, 0, 0, 0.5, origin="another study"),
    Confirmed(0, 0, 0, 1, 0.25, None, {"accuracy": 0.9}, 1.5),
    Confirmed(0, 0, 0, 7, None, "ValueError: bad\n\ntraceback"),
    Confirmed(0, 8, 0, 1, math.inf),
]

Make = Callable[[], Storage]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Opens the same storage each time it is called."""
    if request.param == "sqlite":
        return lambda: SqliteStorage(tmp_path / "a.study")
    memory = MemoryStorage()
    return lambda: memory


def same(one: State, other: State) -> bool:
    return (
        (one.created, one.objective, one.configs, one.results, one.standings.leaders)
        == (
            other.created,
            other.objective,
            other.configs,
            other.results,
            other.standings.leaders,
        )
        and one.confirmations == other.confirmations
        and [run.arrived for run in one.runs] == [run.arrived for run in other.runs]
    )


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
        source = ConfigSource(State(storage.load()), SPACE, Uniform(64))
        study = Study(Session(storage, State(storage.load()), source, read_keep("newest")))
        objective = noisy(3, failures=0.2)
        finish(study, objective, random.Random(0))
        study.deepen("discarding")
        finish(study, objective, random.Random(1))
        study.deepen("efficient", to=243)
        jobs = study.ask_all()
        study.tell_all([(job, objective(job)) for job in jobs[::2]])
        assert same(State(make().load()), study.session.state)

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
    """A reader that follows a driver commit by commit always sees what a new reader would."""
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
    assert state.progress == whole.progress
    assert state.runs == whole.runs
    assert state.standings.leaders == whole.standings.leaders
    assert state.confirmations == whole.confirmations


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
    storage.append(FACTS[:-7])
    reader = SqliteStorage(storage.path)
    state = state_of(reader)
    storage.append(FACTS[-7:])
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


def test_news_that_could_not_be_read_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = deepband.open_study(tmp_path / "a", space={"x": (0.0, 1.0)}, max_budget=3)
    reader = SqliteStorage(tmp_path / "a")
    state = state_of(reader)
    finish(driver, noisy(1))
    with monkeypatch.context() as patch:
        patch.setattr("deepband.storage.row_reader.read_since", lambda *_: 1 / 0)
        with pytest.raises(deepband.StorageError, match="damaged"):
            reader.news(state)
    follow(reader, state)
    assert len(state.results[0, 0]) == 3


def test_news_are_none_when_a_backup_went_on(tmp_path: Path) -> None:
    place = tmp_path / "a"
    driver = deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9)
    for job in [driver.ask(), driver.ask()]:
        assert job
        driver.tell(job, 1.0)
    backup = place.read_bytes()
    finish(driver, noisy(1))
    driver.close()
    reader = SqliteStorage(place)
    state = state_of(reader)
    place.write_bytes(backup)
    with deepband.open_study(place) as driver:
        finish(driver, noisy(2))
        driver.deepen("efficient")
        finish(driver, noisy(2))
    assert reader.news(state) is None


def kill_in_commit(place: Path) -> None:
    """Leave the files of a driver that died during a commit."""
    code = (
        "import os, sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('PRAGMA cache_size = 1')\n"
        "connection.execute('PRAGMA cache_spill = 1')\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "for number in range(2000):\n"
        "    row = 0, 900 + number, 'x' * 500, None, 0\n"
        "    connection.execute('INSERT INTO configs VALUES (?, ?, ?, ?, ?)', row)\n"
        "os._exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(place)], check=False)
    assert place.with_name(place.name + "-journal").exists()


def test_who_only_looks_does_not_undo_a_torn_commit(tmp_path: Path) -> None:
    place = tmp_path / "a"
    deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=3).close()
    looking, follower = (SqliteStorage(place, looks_only=True) for _ in range(2))
    state = state_of(follower)
    kill_in_commit(place)
    torn = place.read_bytes()
    for ask in (looking.load, looking.summary, lambda: follower.news(state)):
        with pytest.raises(deepband.StorageError, match=r"deepband status.*roll that write back"):
            ask()
    assert place.read_bytes() == torn
    assert not (tmp_path / "a.files").exists()  # it was not locked
    assert deepband.open_study(place).evaluations == []
    assert looking.load()
    assert follower.news(state) == []


def format_of(place: Path) -> int:
    with closing(sqlite3.connect(place)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)


def as_exported_then(study: Study, held: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The evaluations of a study, without what the export of that time did not have."""
    lines = [json.loads(line) for line in jsonl(study.session.state)]
    return [{name: line[name] for name in held[0]} for line in lines]


def test_every_format_has_a_file() -> None:
    assert {format_of(written) for written in WRITTEN} == set(range(1, FORMAT + 1))


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.stem)
def test_a_file_of_every_format_is_read_and_continued(tmp_path: Path, written: Path) -> None:
    place, held = tmp_path / "a.study", held_by(written)
    shutil.copy(written, place)
    version = format_of(place)
    reader = SqliteStorage(place)
    state = state_of(reader)
    assert reader.news(state) == []
    with deepband.open_study(place) as study:
        assert as_exported_then(study, held) == held
        assert place.read_bytes() == written.read_bytes()  # reading changes nothing
        finish(study, noisy(1))
        study.deepen("efficient")
        finish(study, noisy(1))
    assert format_of(place) == FORMAT
    if version < FORMAT:
        assert reader.news(state) is None  # its checksums were computed again
    with deepband.open_study(place) as again:
        assert again.done
        assert len(again.evaluations) > len(held)
        now = as_exported_then(again, held)
        assert all(line in now for line in held)


def test_a_study_of_a_removed_sampler_continues_with_uniform(tmp_path: Path) -> None:
    """The first run of this study, which is not complete, sampled with `de`."""
    place = tmp_path / "a.study"
    shutil.copy(FORMATS / "removed_sampler.sqlite", place)
    removed: Any = "de"
    with deepband.open_study(place, sampler=removed) as study:
        held = configs_of(study)
        finish(study, noisy(1))
        study.deepen("discarding")
        finish(study, noisy(1))
        continued = configs_of(study)
        created, space = study.session.state.created, Space.described(study.session.state.space)
    drawn = Uniform(created.chunk).draw
    sampled = {place: drawn(space, (), *place[:1], place[1:], 0)[0] for place in continued}
    assert continued == sampled | held
    assert continued != sampled
    with pytest.raises(deepband.InputError, match="no sampler 'de'"):
        deepband.open_study(space=space.configspace, max_budget=9, sampler=removed)


def configs_of(study: Study) -> dict[tuple[int, int], Any]:
    """The configs of a study by bracket and index."""
    return {(each.bracket, each.index): each.config for each in study.evaluations}


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.stem)
def test_a_file_of_every_format_holds_what_it_held(tmp_path: Path, written: Path) -> None:
    place, held = tmp_path / "a.study", held_by(written)
    shutil.copy(written, place)
    own = {(0, 0): "enqueued", (0, 1): "a paper"} if "origin" in held[0] else {}
    shares = format_of(place) >= 5
    own |= {(0, 3): "enqueued"} if shares else {}
    origins = {None, "a paper", "same as (0, 0)"} if shares else {None, "a paper"}
    for _ in range(2):  # as it was written, then in the current format
        with deepband.open_study(place) as study:
            assert as_exported_then(study, held) == held
            assert study.session.state.objective == "train.py:train"
            assert study.session.state.origins == own
            assert {each.origin for each in study.evaluations} <= origins
            assert study.session.state.created.reuse_identical == shares
            study.session.lock()


def test_a_file_of_format_5_holds_confirmations_and_shared_results(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    shutil.copy(FORMATS / "format_5.sqlite", place)
    with deepband.open_study(place) as study:
        assert "same as (0, 0)" in [each.origin for each in study.evaluations]
        facts = [fact for _, fact in sorted(study.session.state.confirmations.items())]
        assert len(facts) == 6
        assert {fact.rung for fact in facts} == {max(study.session.state.standings.leaders)}
        assert [fact.repetition for fact in facts] == [1, 2, 3] * 2
        assert {fact.loss is None for fact in facts} == {True, False}
        for fact in facts:
            seed = training_seed(2**70, *fact.key)
            assert fact.loss == (None if seed % 3 == 0 else seed / 2**32)
            assert (fact.error or "").startswith("ValueError: unlucky" if seed % 3 == 0 else "")
            assert fact.metrics == (None if seed % 3 == 0 else {"name": "ü"})
            assert fact.seconds is not None


def test_a_file_of_format_7_holds_skips_and_stops(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    shutil.copy(FORMATS / "format_7.sqlite", place)
    runs = deepband.open_study(place).session.state.runs
    assert [run.stopped for run in runs] == [0.125, None, None]
    skips = [skip for run in runs for skip in run.skips()]
    assert [skip[:4] for skip in skips] == [(0, 3, 1, 1), (1, 4, 2, 1)]
    assert all(0 < skip.risk < 0.4 for skip in skips)


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.stem)
def test_a_file_of_every_format_can_be_confirmed(tmp_path: Path, written: Path) -> None:
    place = tmp_path / "a.study"
    shutil.copy(written, place)
    with deepband.open_study(place) as study:
        found = study.confirm(lambda config, budget, context: context.seed, top=1, seeds=4)
    with deepband.open_study(place) as study:
        assert study.confirmations.configs[: len(found.configs)] == found.configs


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.stem)
def test_an_older_file_gets_checksums_when_it_is_first_written_to(
    tmp_path: Path, written: Path
) -> None:
    place = tmp_path / "a.study"
    shutil.copy(written, place)
    with deepband.open_study(place) as study:
        study.session.lock()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("UPDATE evaluations SET loss = 7 WHERE loss IS NOT NULL")
        connection.commit()
    with pytest.raises(deepband.StorageError, match="evaluations does not match its checksum"):
        deepband.open_study(place)


@pytest.mark.parametrize("damage", ["DELETE FROM configs", "UPDATE runs SET max_budget = '5'"])
def test_an_older_file_that_is_damaged_gets_no_checksums(tmp_path: Path, damage: str) -> None:
    place = tmp_path / "a.study"
    make_format_2(place)
    study = deepband.open_study(place)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(damage)
        connection.commit()
    before = place.read_bytes()
    with pytest.raises(deepband.StorageError, match="damaged"):
        study.session.lock()
    assert place.read_bytes() == before


def test_a_reader_that_still_has_a_cursor_locks_nothing(tmp_path: Path) -> None:
    """Such as in a traceback that is kept for longer than the reader."""
    path = tmp_path / "a.study"
    with deepband.open_study(path, space={"x": (0.0, 1.0)}, max_budget=9) as study:
        jobs = study.ask_all()
        study.tell_all([(job, 0.5) for job in jobs])
        reader = SqliteStorage(path)
        with reader._reading() as connection:
            cursor = connection.execute("SELECT * FROM evaluations")
            assert cursor.fetchone()
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN EXCLUSIVE")
        study.tell(study.ask_all()[0], 0.25)
        del cursor
