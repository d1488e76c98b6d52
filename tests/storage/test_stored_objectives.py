"""Several objectives and constraints in study files: what is stored, hostile and older files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import StorageError, Study
from deepband.analysis import export
from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.execution.outbox import Outbox
from deepband.storage import state_of
from deepband.storage.checksums import checksum
from deepband.storage.schema import FORMAT, KEYS, LISTED
from deepband.storage.sqlite import SqliteStorage
from driving import finish, noisy
from older import FORMATS
from trade_off import SPACE, TWO, evaluate, finished

BOUNDS: dict[str, tuple[float | None, float | None]] = {"memory_mb": (None, 600)}
WRITTEN = sorted(FORMATS.glob("objectives_*.sqlite"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with two objectives and a constraint."""
    place = tmp_path_factory.mktemp("whole") / "a.study"
    with finished(TWO, BOUNDS, place) as study:
        study.deepen("efficient")
        finish(study, evaluate)
    return place


@pytest.fixture
def place(whole: Path, tmp_path: Path) -> Path:
    shutil.copy(whole, tmp_path / "a.study")
    return tmp_path / "a.study"


def forge(place: Path, statement: str) -> None:
    """Change a study file, with checksums that are right."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute(statement)
        for table, count in KEYS.items():
            names = LISTED[table].split(", ")[:count]
            where = " AND ".join(f"{name} = ?" for name in names)
            for row in connection.execute(f"SELECT {LISTED[table]} FROM {table}").fetchall():
                values = (checksum(table, row), *row[:count])
                connection.execute(f"UPDATE {table} SET checksum = ? WHERE {where}", values)
        totals = " + ".join(f"(SELECT coalesce(sum(checksum), 0) FROM {table})" for table in KEYS)
        connection.execute(f"UPDATE studies SET contents = {totals}")
        (row,) = connection.execute(f"SELECT {LISTED['studies']} FROM studies")
        connection.execute("UPDATE studies SET checksum = ?", (checksum("studies", row),))


def test_a_forged_file_has_the_right_checksums(place: Path) -> None:
    forge(place, "UPDATE studies SET objective = 'other.py:train'")
    assert deepband.open_study(place).session.state.objective == "other.py:train"


LOSSES = [
    "5",
    '"12"',
    "{",
    "[]",
    "[0.5]",
    "[0.5, 0.5, 0.5]",
    "[0.5, null]",
    "[0.5, true]",
    '[0.5, "0.5"]',
    '[0.5, "nan"]',
    "[0.5, NaN]",
    '[0.5, "-inf"]',
    "[0.5, -Infinity]",
    "[0.5, 1e999]",
    '{"error": 0.5, "speed": 0.5}',
    "[[0.5, 0.5]]",
    "",
    "[" * 100_000,
]
STUDIES = [
    *(f"objectives = '{each}'" for each in ("5", "{", "[]", "[5]", '[["error"]]', "{}", "")),
    """objectives = '[["error", "down"], ["speed", "maximize"]]'""",
    """objectives = '[["error", "minimize"], ["error", "maximize"]]'""",
    """objectives = '[["loss", "minimize"], ["speed", "maximize"]]'""",
    """objectives = '[["", "minimize"], ["speed", "maximize"]]'""",
    """objectives = '[[5, "minimize"], ["speed", "maximize"]]'""",
    """objectives = '[["a", "minimize"], ["b", "minimize"], ["c", "minimize"]]'""",
    """objectives = '[["error", "minimize"]]'""",
    "objectives = NULL",
    "maximize = 1",
    *(f"constraints = '{each}'" for each in ("5", "{", "[]", "[5]", '[["memory_mb"]]')),
    """constraints = '[["memory_mb", 5]]'""",
    """constraints = '[["memory_mb", [null, null]]]'""",
    """constraints = '[["memory_mb", ["low", 5]]]'""",
    """constraints = '[["memory_mb", [5, 1]]]'""",
    """constraints = '[["memory_mb", [true, 1]]]'""",
    """constraints = '[["memory_mb", [null, 1e999]]]'""",
    """constraints = '[["memory_mb", [NaN, 1]]]'""",
]


@pytest.mark.parametrize("losses", LOSSES, ids=lambda losses: losses[:20])
def test_losses_that_are_not_one_number_for_each_objective_are_refused(
    place: Path, losses: str
) -> None:
    forge(place, f"UPDATE evaluations SET objectives = '{losses}' WHERE objectives IS NOT NULL")
    check_refused(place)


@pytest.mark.parametrize("change", STUDIES)
def test_criteria_that_no_user_can_give_are_refused(place: Path, change: str) -> None:
    forge(place, f"UPDATE studies SET {change}")
    check_refused(place)


@pytest.mark.parametrize(
    "change",
    [
        "loss = 0.5, objectives = NULL WHERE objectives IS NOT NULL",
        "loss = 9e999, objectives = NULL WHERE objectives IS NOT NULL",
        "loss = 0.5 WHERE objectives IS NOT NULL",
        "error = 'ValueError' WHERE objectives IS NOT NULL",
    ],
)
def test_a_loss_beside_those_of_objectives_is_refused(place: Path, change: str) -> None:
    forge(place, f"UPDATE evaluations SET {change}")
    check_refused(place)


def check_refused(place: Path) -> None:
    before = place.read_bytes()
    with pytest.raises(StorageError, match="is damaged") as caught:
        deepband.open_study(place)
    assert str(place) in str(caught.value)
    assert SqliteStorage(place, looks_only=True).problems()
    assert place.read_bytes() == before


@pytest.mark.parametrize("metrics", ['{"memory_mb": "much"}', '{"memory_mb": NaN}', "{}"])
def test_a_metric_with_bounds_that_is_not_a_number_is_a_violation(
    place: Path, metrics: str
) -> None:
    """As in results that were imported without it."""
    top = deepband.open_study(place).session.state.schedule.top
    forge(place, f"UPDATE evaluations SET metrics = '{metrics}' WHERE rung = {top}")
    study = deepband.open_study(place)
    assert not any(each.feasible for each in study.evaluations if each.rung == top)
    assert study.front(rung=top) == []


def test_a_study_with_one_objective_has_no_losses_of_several(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    with deepband.open_study(place, space=SPACE, max_budget=3) as study:
        finish(study, noisy(1))
    forge(place, "UPDATE evaluations SET objectives = '[0.5, 0.5]', loss = NULL")
    check_refused(place)


@pytest.mark.parametrize("loss", [0.5, (0.5, 0.5, 0.5), float("inf")])
def test_a_result_in_the_outbox_with_another_number_of_losses_is_not_recorded(
    tmp_path: Path, loss: Any
) -> None:
    with deepband.open_study(
        tmp_path / "a.study", space=SPACE, max_budget=3, objectives=TWO
    ) as study:
        job = study.ask_all()[0]
        study.session.lock()
        outbox = Outbox(study.session.files)
        outbox.make()
        with outbox.hold([job.key], "abcd", None) as held:
            held.put([Attempt(job, Outcome(loss))])
        study.close()
    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(lambda config, budget: {"error": config["x"], "speed": config["y"]})
        assert study.done
        assert all(each.objectives["error"] == each.config["x"] for each in study.evaluations)
    assert deepband.open_study(tmp_path / "a.study").done


@pytest.mark.parametrize("written", WRITTEN, ids=lambda written: written.stem)
def test_a_written_file_holds_what_it_held_and_continues(tmp_path: Path, written: Path) -> None:
    place = tmp_path / "a.study"
    shutil.copy(written, place)
    held = [json.loads(line) for line in written.with_suffix(".jsonl").read_text().splitlines()]
    study = deepband.open_study(place)
    now = [json.loads(line) for line in export.jsonl(study.session.state)]
    for before, after in zip(held, now, strict=True):
        assert {name: after[name] for name in before} == before
    assert len(study.runs) == 2
    origins = Counter(each.origin for each in study.evaluations)
    assert origins["precheck"] > 1
    assert origins["a paper"] == 1
    assert {each.feasible for each in study.evaluations} == {True, False}
    assert any(each.error for each in study.evaluations)
    assert study.front()
    assert place.read_bytes() == written.read_bytes()
    with study:
        study.deepen("efficient")
        finish(study, result)
    assert len(deepband.open_study(place).runs) == 3


def result(job: deepband.Job) -> object:
    x = job.config["x"]
    return {"error": x / job.budget, "accuracy ü": 1 - x, "memory": 10 * x}


def test_there_is_a_written_file_of_the_current_format() -> None:
    assert FORMATS / f"objectives_{FORMAT}.sqlite" in WRITTEN


def test_a_follower_sees_an_upgrade_by_another_process(tmp_path: Path) -> None:
    """A page that follows a file of format 5 while it is upgraded and written to."""
    place = tmp_path / "a.study"
    shutil.copy(FORMATS / "format_5.sqlite", place)
    follower = SqliteStorage(place, looks_only=True)
    followed = state_of(follower)
    with deepband.open_study(place) as study:
        study.session.lock()  # upgrades the file, and writes nothing else
        followed = catch_up(follower, followed)
        assert same(followed, study)
        for job in study.ask_all():
            study.tell(job, noisy(1)(job))
            followed = catch_up(follower, followed)
            assert same(followed, study)
    fresh = state_of(SqliteStorage(place, looks_only=True))
    assert list(export.canonical(fresh)) == list(export.canonical(followed))


def catch_up(follower: SqliteStorage, state: Any) -> Any:
    news = follower.news(state)
    if news is None:
        return state_of(follower)
    state.apply(news)
    return state


def same(state: Any, study: Study) -> bool:
    return list(export.canonical(state)) == list(export.canonical(study.session.state))
