"""Damaged study files: whatever is flipped, zeroed, lost or truncated, a file either reads as
before or is refused, and is then not written to."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from click.testing import CliRunner

import deepband
from deepband import DeepbandError, StorageError, Study
from deepband.analysis.export import jsonl
from deepband.interfaces.cli import main
from deepband.storage.sqlite import SqliteStorage
from driving import noisy

PAGE = 4096
Result = TypeVar("Result")


class Whole(NamedTuple):
    """A study file at three moments, and its final content."""

    versions: list[bytes]
    held: list[str]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A study with every kind of content, and several pages of each."""
    place = tmp_path_factory.mktemp("whole") / "a.study"
    space = {"x": (0.0, 1.0), "kind": ["a", None, 3, "ü" * 40]}
    versions = []
    with deepband.open_study(place, space=space, max_budget=27, seed=5) as study:
        study.session.name_objective("train.py:train")
        study.enqueue({"x": 0.25, "kind": None})
        study.add_evaluations({"x": 0.5, "kind": 3}, [(1, 0.5), (3, 0.0)], "a paper")
        for jobs in iter(study.ask_all, []):
            study.tell_all([(job, result(job)) for job in jobs])
            versions.append(place.read_bytes())
        study.deepen("preserving")
        jobs = study.ask_all()
        study.tell_all([(job, result(job)) for job in jobs[::2]])
        for job in jobs[1::2]:
            study.release(job)
        study.ask_all(limit=20, lease=3600)
        study.confirm(confirmation, top=3, seeds=40)
        held = held_by(study)
    return Whole([*versions[-2:], place.read_bytes()], held)


def result(job: deepband.Job) -> object:
    loss = noisy(5, failures=0.1)(job)
    return {"loss": loss, "accuracy": 0.5} if isinstance(loss, float) else loss


def confirmation(config: object, budget: float, context: deepband.Context) -> object:
    return {"loss": context.seed, "name": "ü" * 40}


def held_by(study: Study) -> list[str]:
    return [*jsonl(study.session.state), *confirmed(study), *leased(study)]


def leased(study: Study) -> list[str]:
    found = study.session.state.leases
    return sorted(f"{key}: {lease[1:]}" for key, by in found.items() for lease in by.values())


def confirmed(study: Study) -> list[str]:
    return [str(fact) for _, fact in sorted(study.session.state.confirmations.items())]


def flip_a_bit(whole: Whole, draw: random.Random) -> bytes:
    damaged = bytearray(whole.versions[-1])
    damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def flip_a_bit_of_the_header(whole: Whole, draw: random.Random) -> bytes:
    damaged = bytearray(whole.versions[-1])
    damaged[draw.randrange(120)] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def scribble(whole: Whole, draw: random.Random) -> bytes:
    damaged = bytearray(whole.versions[-1])
    start, length = draw.randrange(len(damaged)), draw.choice([1, 2, 4, 8, 64, 512])
    end = min(start + length, len(damaged))
    damaged[start:end] = draw.randbytes(end - start)
    return bytes(damaged)


def zero(whole: Whole, draw: random.Random) -> bytes:
    damaged = bytearray(whole.versions[-1])
    length = draw.choice([1, 16, 512, PAGE])
    start = draw.randrange(len(damaged) // length) * length
    damaged[start : start + length] = bytes(length)
    return bytes(damaged)


def lose_a_write(whole: Whole, draw: random.Random) -> bytes:
    """One page is as it was before the last commits."""
    older, newest = draw.choice(whole.versions[:-1]), whole.versions[-1]
    start = draw.randrange(len(older) // PAGE) * PAGE
    return newest[:start] + older[start : start + PAGE] + newest[start + PAGE :]


def misplace_a_page(whole: Whole, draw: random.Random) -> bytes:
    damaged = bytearray(whole.versions[-1])
    source, target = (draw.randrange(len(damaged) // PAGE) * PAGE for _ in range(2))
    damaged[target : target + PAGE] = damaged[source : source + PAGE]
    return bytes(damaged)


def cut_or_lengthen(whole: Whole, draw: random.Random) -> bytes:
    newest = whole.versions[-1]
    if draw.random() < 0.3:
        return newest + bytes(draw.choice([1, 512, PAGE]))
    return newest[: draw.randrange(len(newest))]


DAMAGE = [
    flip_a_bit,
    flip_a_bit_of_the_header,
    scribble,
    zero,
    lose_a_write,
    misplace_a_page,
    cut_or_lengthen,
]
Damage = Callable[[Whole, random.Random], bytes]


def check(whole: Whole, damaged: bytes, place: Path) -> str:
    """Read a damaged file and write to it; return what happened."""
    place.write_bytes(damaged)
    problems, _ = attempt(SqliteStorage(place, looks_only=True).problems)
    assert place.read_bytes() == damaged
    found = read_and_write(whole, damaged, place)
    if (problems == []) != (found == "written"):  # `deepband doctor` finds what a driver finds
        # Only a newer format of SQLite may be read and not written without damage.
        assert damaged[18] > 1, (found, problems)
    return found


def read_and_write(whole: Whole, damaged: bytes, place: Path) -> str:
    study, refusal = attempt(lambda: deepband.open_study(place))
    if study is None:
        assert str(place) in refusal
        assert place.read_bytes() == damaged
        return "not read"
    with study:
        assert held_by(study) == whole.held
        job, refusal = attempt(lambda: write(study))
    if job is None:
        assert str(place) in refusal
        assert place.read_bytes() == damaged
        return "not written"
    check_whole(whole, place, job)
    return "written"


def attempt(action: Callable[[], Result]) -> tuple[Result | None, str]:
    """The result of an action, or None and the error that refused it."""
    try:
        return action(), ""
    except DeepbandError as error:
        return None, str(error)


def write(study: Study) -> deepband.Job:
    job = study.ask()
    assert job is not None
    study.tell(job, 0.125)
    return job


def check_whole(whole: Whole, place: Path, job: deepband.Job) -> None:
    """The written file is intact, with its former content and the new result."""
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with deepband.open_study(place) as study:
        lines = {
            (e.bracket, e.index, e.rung): line
            for e, line in zip(study.evaluations, jsonl(study.session.state), strict=True)
        }
        assert lines.pop(job.key)
        assert [*lines.values(), *confirmed(study), *leased(study)] == whole.held


def try_all(whole: Whole, damage: Damage, place: Path, seeds: range) -> dict[str, int]:
    found = {"not read": 0, "not written": 0, "written": 0}
    for seed in seeds:
        try:
            found[check(whole, damage(whole, random.Random(seed)), place)] += 1
        except Exception as error:
            raise AssertionError(f"{damage.__name__} with seed {seed}: {error!r}") from error
        shutil.rmtree(place.with_name(place.name + ".files"), ignore_errors=True)
    return found


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_read_as_it_was_or_refused(
    whole: Whole, damage: Damage, tmp_path: Path
) -> None:
    found = try_all(whole, damage, tmp_path / "a.study", range(15))
    assert found["not read"]


@pytest.mark.heavy
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_damaged_in_many_ways_is_read_as_it_was_or_refused(
    whole: Whole, damage: Damage, tmp_path: Path
) -> None:
    try_all(whole, damage, tmp_path / "a.study", range(1000, 2000))


def test_a_damaged_reference_is_noticed_by_a_driver_as_by_the_doctor(
    whole: Whole, tmp_path: Path
) -> None:
    """SQLite reads and writes such a file, and fails only when it checks references."""
    place, intact = tmp_path / "a.study", whole.versions[-1]
    damaged = intact.replace(b"REFERENCES configs (bracket,", b"REFERENCES configs (cracket,")
    assert damaged != intact
    assert check(whole, damaged, place) == "not read"
    with pytest.raises(StorageError, match="the definition of the table evaluations"):
        deepband.open_study(place)


def doctor(place: Path) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["doctor", str(place), "--json"])
    found: dict[str, Any] = json.loads(done.output)
    assert done.exit_code == (0 if found["good"] else 1)
    return found


def test_the_doctor_checks_the_file(whole: Whole, tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    assert doctor(place)["study"] == "there is none"
    place.write_bytes(whole.versions[-1])
    assert doctor(place)["study"] == "whole"
    with deepband.open_study(place) as study:  # also while a driver runs
        study.session.lock()
        assert doctor(place)["problems"] == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE evaluations SET loss = 0.125 WHERE rung = 1", "does not match its checksum"),
        ("DELETE FROM evaluations WHERE rung = 1", "missing or extra rows"),
        ("DELETE FROM configs WHERE bracket = 1", "refers to a row of configs that is missing"),
        ("UPDATE studies SET commits = 5", "studies does not match its checksum"),
        (
            "INSERT INTO runs VALUES (2, '81', '', '', 1, '', 1, 0)",
            "does not match its checksum",
        ),
        ("PRAGMA user_version = 2", "format number does not match"),
        ("DROP TABLE runs", "no such table"),
    ],
)
def test_the_doctor_says_what_is_damaged(
    whole: Whole, tmp_path: Path, damage: str, problem: str
) -> None:
    place = tmp_path / "a.study"
    place.write_bytes(whole.versions[-1])
    with closing(sqlite3.connect(place)) as connection:
        connection.execute(damage)
        connection.commit()
    before = place.read_bytes()
    found = doctor(place)
    assert found["study"] == "damaged"
    assert any(problem in each for each in found["problems"])
    assert "restore a backup" in CliRunner().invoke(main, ["doctor", str(place)]).output
    assert place.read_bytes() == before


def test_the_doctor_looks_into_pages(whole: Whole, tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    newest = bytearray(whole.versions[-1])
    newest[5 * PAGE : 6 * PAGE] = bytes(PAGE)
    place.write_bytes(newest)
    assert doctor(place)["problems"]
    place.write_text("no database")
    assert "not a database" in doctor(place)["problems"][0]


def test_a_schema_that_is_no_text_is_a_damaged_file(whole: Whole, tmp_path: Path) -> None:
    """SQLite quotes it in its message, which is then not valid text either."""
    place = tmp_path / "a.study"
    for name in (b"TABLE evaluations", b"run INTEGER PRIMARY KEY", b"WITHOUT ROWID"):
        newest = whole.versions[-1]
        start = newest.index(name)
        place.write_bytes(newest[: start + 2] + b"\xff\xfe" + newest[start + 4 :])
        problem = r"is damaged: its schema is not text|malformed database schema"
        with pytest.raises(deepband.StorageError, match=problem):
            deepband.open_study(place)
