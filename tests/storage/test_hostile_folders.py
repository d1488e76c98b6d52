"""A study from an untrusted source, with anything in place of the files that deepband uses.

Every path in a study's folder is replaced by links, FIFOs, sockets, folders, garbage and JSON of
wrong types, one at a time; then the live page is asked and every command is run. Nothing outside of
the study may be changed, deleted or shown, nothing may hang, and each command works or says in
plain words what is wrong.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import deepband
import odd_files
from commands import Commands, Ended
from deepband import Job
from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.execution import attempt_codec
from deepband.execution.orphans import Orphans
from deepband.execution.outbox import Outbox
from deepband.storage import schema
from deepband.storage.checksums import checksum
from deepband.storage.sidecars import MAGIC
from deepband.system import plain_files
from driving import wait_until
from odd_files import FILES, FOLDERS, LINKS, SECRET, SPECIAL, Maker, holding, snapshot
from serving import Server, serving

TRAIN = """
space = {"x": (0.0, 1.0)}

def train(config, budget, context):
    print("trained", config)
    (context.path / "weights").write_text(str(budget))
    return config["x"] / budget
"""
NOTE: dict[str, Any] = {"pid": 4_000_000, "host": "elsewhere", "started": 0.0, "deadline": None}
WRONG = ["text", -1, 0, 1, True, None, [], {}, [[]], {"a": 1}, 1e300, -1e300, 10**30, float("nan")]
"""Values that are wrong for most fields."""

NUMBERS = itertools.count()
ANY_FILE: Mapping[str, Maker] = {**LINKS, **SPECIAL, **FOLDERS, **FILES}
ANY_FOLDER: Mapping[str, Maker] = {**LINKS, **SPECIAL, "empty_file": odd_files.empty_file}


RESULT: dict[str, Any] = {
    "job": [0, 2, 0, 1, {"x": 0.5}, ""],
    "loss": "0.5",
    "error": None,
    "metrics": None,
    "seconds": 1.0,
    "resumed_from": None,
    "curve": [],
}
FILE_PATHS = [
    ["lock"],
    ["driver.json", "new", "new-journal", ".driver-0123456789abcdef"],
    ["jobs/0-2-0.abcd", "jobs/.1-1-1.abcd", "jobs/0-2-0.inline", "jobs/9999999999-0-0.a", "jobs/a"],
    ["outbox/0-2-0.abcd", "outbox/.0-2-0.abcd", "outbox/0-3-0.abcd", "outbox/a"],
    ["output/0-0-0", "output/0-1-0", "output/0-2-0"],
    ["-journal", "-wal", "-shm"],
    ["checkpoints/ID/0/0/0.json"],
    ["checkpoints/ID/attempts/0-2-0.abcd", "checkpoints/ID/attempts/0-2-0.partial"],
    ["checkpoints/ID/attempts/0-2-0.abcd.json", "checkpoints/ID/attempts/a"],
]
FOLDER_PATHS = ["", "jobs", "outbox", "output", "checkpoints", "checkpoints/ID"]
FOLDER_PATHS += ["checkpoints/ID/0", "checkpoints/ID/0/0", "checkpoints/ID/0/0/0"]
FOLDER_PATHS += ["checkpoints/ID/attempts"]


class Case(NamedTuple):
    """What is wrong in a study's folder."""

    paths: tuple[str, ...]
    """Below that folder; "" is the folder itself, and "-journal" is beside the study. ID stands for
    the id of the study."""
    kind: str
    make: Maker


def values_of(folder: str, fields: Mapping[str, Any]) -> Case:
    """JSON files in which one field is wrong, and some that are not an object at all."""
    values = [*WRONG, *({**fields, name: value} for name in fields for value in WRONG)]

    def make(place: Path, outside: Path) -> None:
        place.mkdir()
        for number, value in enumerate(values):
            holding(value)(place / f"0-2-0.{number}", outside)
            os.utime(place / f"0-2-0.{number}", (0, 0 if number % 2 else 4e9))

    return Case((folder,), "wrong_types", make)


def cases() -> Iterator[Any]:
    """Every kind of thing at every path. A fifth of them is not heavy: among these is every path,
    and every kind."""
    places: list[tuple[list[str], Mapping[str, Maker]]]
    places = [(paths, ANY_FILE) for paths in FILE_PATHS]
    places += [([path], ANY_FOLDER) for path in FOLDER_PATHS]
    for row, (paths, kinds) in enumerate(places):
        for column, (kind, make) in enumerate(kinds.items()):
            marks = () if (row + column) % 5 == 0 else pytest.mark.heavy
            yield pytest.param(Case(tuple(paths), kind, make), marks=marks)
    yield values_of("jobs", NOTE)
    yield values_of("outbox", RESULT)


def place_of(study: Path, path: str) -> Path:
    if path.startswith("-"):
        return study.with_name(study.name + path)
    files = study.with_name(study.name + ".files")
    return files / path.replace("ID", id_of(study)) if path else files


def id_of(study: Path) -> str:
    return deepband.open_study(study).session.state.created.study


def checkpoints_of(study: Path) -> Path:
    return place_of(study, "checkpoints/ID")


def make_outside(study: Path, folder: Path) -> Path:
    """Files outside of the study, among them checkpoints that look like those of the study,
    whatever folder a link to them replaces."""
    outside = odd_files.make_outside(folder / "outside")
    kept = checkpoints_of(study)
    for part in (kept.parent, kept, kept / "0", kept / "0" / "0", kept / "0" / "0" / "0"):
        shutil.copytree(part, outside, dirs_exist_ok=True)
    return outside


def put(case: Case, study: Path, outside: Path) -> None:
    """Replace what is at the paths of a case."""
    for place in (place_of(study, path) for path in case.paths):
        if place.is_dir():
            shutil.rmtree(place)
        place.parent.mkdir(exist_ok=True, parents=True)
        place.unlink(missing_ok=True)
        case.make(place, outside)


def ask(server: Server, study: Path) -> list[tuple[int, str]]:
    """Status and text of every page of a study, and its first server-sent event."""
    listing = server.ask("/")[1].decode()
    found = re.search(rf'href="(/studies/\w+)"[^>]*><bdi>{re.escape(study.name)}<', listing)
    assert found, listing
    paths = ["", "/evaluations", "/configs/0/0", "/configs/0/1"]
    answers = [server.ask(found[1] + path) for path in paths]
    event, data = next(server.events(found[1]))
    shown = [(answer.status, body.decode()) for answer, body in answers]
    return [(200, listing), *shown, (200, f"{event} {data}")]


def check_pages(pages: list[tuple[int, str]]) -> None:
    """Each page shows the study or says what is wrong with it, and nothing from outside."""
    for status, text in pages:
        assert SECRET not in text
        assert status in (200, 503), text


def check_ended(all_ended: list[Ended]) -> None:
    """Each command worked, or said in plain words why not."""
    for ended in all_ended:
        assert not ended.trace, f"{ended.command}: {ended.trace}"
        assert SECRET not in ended.output
        assert ended.code in (0, 1, 2), ended
        assert ended.code == 0 or re.search(r"^Error: ", ended.output, re.MULTILINE), ended


def work_on(commands: Commands, study: Path) -> list[Ended]:
    """Every command that uses the study's folder."""
    name = str(study)
    return [
        commands.run("status", name),
        commands.run("run", name, "train.py:train", "--timeout", "50", "--max-cost", "2"),
        commands.run("run", name, "train.py:train"),
        commands.run("quote", name),
        commands.run("logs", name),
        commands.run("logs", name, "--job", "0,0,0"),
        commands.run("checkpoints", name, "--keep", "none"),
        commands.run("export", name, "-o", str(study.with_name("out.csv"))),
        commands.run("status", name, "--json"),
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "train.py").write_text(TRAIN)
    (folder / "served").mkdir()
    return folder


@pytest.fixture(scope="module")
def commands(place: Path) -> Iterator[Commands]:
    running = Commands(place)
    yield running
    running.close()


@pytest.fixture(scope="module")
def whole(place: Path, commands: Commands) -> Path:
    """A half-finished study, with a checkpoint and output."""
    study = place / "whole.study"
    arguments = ("--max-budget", "3", "--timeout", "50", "--max-cost", "2", "--keep", "all")
    ended = commands.run("run", str(study), "train.py:train", *arguments)
    assert ended.code == 0, ended
    with deepband.open_study(study) as opened:
        assert len(opened.evaluations) == 2
        assert (opened.session.files / "output" / "0-0-0").exists()
    return study


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with serving(place / "served") as running:
        yield running


@pytest.fixture
def study(whole: Path, place: Path) -> Iterator[Path]:
    """A copy of the study in the folder that is served."""
    copy = place / "served" / f"{next(NUMBERS)}.study"  # the server keeps what it has read
    shutil.copy(whole, copy)
    shutil.copytree(f"{whole}.files", f"{copy}.files")
    yield copy
    for path in (place / "served").iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.paths[0]}-{case.kind}")
def test_a_folder_with_anything_in_it_is_safe_to_use(
    case: Case, study: Path, tmp_path: Path, commands: Commands, server: Server
) -> None:
    outside = make_outside(study, tmp_path)
    put(case, study, outside)
    before = snapshot(outside)
    check_pages(ask(server, study))
    check_ended(work_on(commands, study))
    assert snapshot(outside) == before


def super_journal(place: Path, outside: Path) -> None:
    """A journal that deletes a file when it is rolled back: the header of one that changes nothing,
    and the name of a super-journal (SQLite file format, sections 3.1 and 3.2)."""
    name = str(outside / "secret").encode()
    pages = place.with_name(place.name.removesuffix("-journal")).stat().st_size // 4096
    header = MAGIC + struct.pack(">IIIII", 0, 0, pages, 512, 4096)
    record = struct.pack(">I", 2**30 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name))
    place.write_bytes(header.ljust(512, b"\0") + record + MAGIC)


def test_a_journal_cannot_name_a_file_to_delete(
    study: Path, tmp_path: Path, commands: Commands, server: Server
) -> None:
    outside = odd_files.make_outside(tmp_path / "outside")
    before = snapshot(outside)
    super_journal(place_of(study, "-journal"), outside)
    check_pages(ask(server, study))
    ended = work_on(commands, study)
    check_ended(ended)
    assert all("names another file" in each.output for each in ended)
    assert snapshot(outside) == before


@pytest.mark.parametrize("kind", [*LINKS, *SPECIAL, *FOLDERS, *FILES])
def test_a_study_file_that_is_anything_else_is_refused(
    kind: str, study: Path, tmp_path: Path, commands: Commands
) -> None:
    outside = odd_files.make_outside(tmp_path / "outside")
    before = snapshot(outside)
    study.unlink()
    ANY_FILE[kind](study, outside)
    ended = work_on(commands, study)
    check_ended(ended)
    assert all(each.code for each in ended)
    assert snapshot(outside) == before


HOSTILE_SQL = {
    "view": "ALTER TABLE runs RENAME TO r; CREATE VIEW runs AS WITH RECURSIVE forever(n) AS "
    "(SELECT 1 UNION ALL SELECT n + 1 FROM forever) SELECT n AS run, n AS max_budget, "
    "n AS strategy, n AS started, n AS checksum FROM forever;",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON evaluations BEGIN DELETE FROM evaluations; END;",
    "id": "UPDATE studies SET study = '../../outside';",
    "absolute id": "UPDATE studies SET study = '/tmp';",
}


@pytest.mark.parametrize("kind", HOSTILE_SQL)
def test_a_study_file_with_code_or_an_id_that_is_a_path_is_refused(
    kind: str, study: Path, commands: Commands, server: Server
) -> None:
    with closing(sqlite3.connect(study)) as connection:
        connection.executescript(HOSTILE_SQL[kind])
    check_pages(ask(server, study))
    ended = work_on(commands, study)
    check_ended(ended)
    assert all(each.code for each in ended)


def test_an_id_that_is_a_path_is_refused_even_with_the_right_checksum(study: Path) -> None:
    with closing(sqlite3.connect(study, isolation_level=None)) as connection:
        connection.execute("UPDATE studies SET study = '../../outside'")
        values = connection.execute(f"SELECT {', '.join(schema.STUDY)} FROM studies").fetchone()
        connection.execute("UPDATE studies SET checksum = ?", (checksum("studies", values),))
    with pytest.raises(deepband.StorageError, match="not a valid name of a folder"):
        deepband.open_study(study)


def test_what_the_user_links_at_the_top_is_used(
    whole: Path, tmp_path: Path, commands: Commands
) -> None:
    """A folder above the study, and the study's folder on another disk."""
    disk, home = tmp_path / "disk", tmp_path / "home"
    disk.mkdir()
    home.mkdir()
    shutil.copy(whole, home / "a.study")
    shutil.copytree(f"{whole}.files", disk / "a.study.files")
    (home / "a.study.files").symlink_to(disk / "a.study.files")
    (tmp_path / "link").symlink_to(home)
    ended = work_on(commands, tmp_path / "link" / "a.study")
    assert [each.code for each in ended] == [0] * len(ended), ended
    assert (disk / "a.study.files" / "driver.json").exists()


def test_a_process_is_ended_only_if_it_holds_the_job(tmp_path: Path) -> None:
    """The job file names an unrelated process; another one has locked it."""
    outbox = Outbox(tmp_path)
    outbox.make()
    with sleeping() as innocent, holding_job(tmp_path) as holder:
        path = outbox.job_file((0, 0, 0), "abcd")
        note = json.loads(path.read_text())
        assert note["pid"] == holder.pid
        path.write_text(json.dumps({**note, "pid": innocent.pid, "deadline": 0}))
        orphans = Orphans(outbox)
        found = orphans.find()
        assert orphans.keys == [(0, 0, 0)]
        assert orphans.ended() == []  # it is late
        orphans.give_up(found)
        assert innocent.poll() is None
        assert holder.poll() is None
        holder.communicate()  # closes its standard input
        assert holder.wait(60) == 0
        assert innocent.poll() is None


def test_a_worker_that_holds_its_job_is_ended(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.make()
    with holding_job(tmp_path) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        orphans = Orphans(outbox)
        orphans.give_up(orphans.find())
        assert holder.wait(60) == -signal.SIGKILL
        wait_until(lambda: not is_running(child))  # although it has its own session


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def holding_job(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a job until its input ends, and has started a child."""
    code = f"""
import pathlib, subprocess, sys
from deepband.execution.outbox import Outbox
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
with Outbox(pathlib.Path({str(folder)!r})).hold([(0, 0, 0)], "abcd", None):
    print("holds", flush=True)
    child = subprocess.Popen(sleep, start_new_session=True)
    print(child.pid, flush=True)
    sys.stdin.read()
    child.kill()
    child.wait()
"""
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "holds\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ANY_FILE)
def test_who_holds_a_study_is_told_whatever_the_file_says(
    kind: str, study: Path, tmp_path: Path, commands: Commands
) -> None:
    outside = odd_files.make_outside(tmp_path / "outside")
    with deepband.open_study(study) as opened:
        opened.session.lock()
        put(Case(("driver.json",), kind, ANY_FILE[kind]), study, outside)
        ended = commands.run("run", str(study), "train.py:train")
    assert (ended.code, ended.trace) == (75, "")
    assert "locked by another process" in ended.output
    assert SECRET not in ended.output


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("checkpoints", "link_to_folder"),
        pytest.param("checkpoints/ID/0/0/0.json", "fifo", marks=pytest.mark.heavy),
        pytest.param("jobs", "fifo", marks=pytest.mark.heavy),
    ],
)
def test_a_report_reads_nothing_but_the_study(
    path: str, kind: str, study: Path, tmp_path: Path, commands: Commands
) -> None:
    outside = make_outside(study, tmp_path)
    before = snapshot(outside)
    assert commands.run("run", str(study), "train.py:train").code == 0  # the report needs a quote
    put(Case((path,), kind, ANY_FILE[kind]), study, outside)
    ended = commands.run("report", str(study), "-o", str(tmp_path / "report.html"))
    check_ended([ended])
    assert ended.code == 0
    assert SECRET not in (tmp_path / "report.html").read_text()
    assert snapshot(outside) == before


@pytest.mark.parametrize(
    "metrics",
    [
        '{"m": {"deepband:tuple": [Infinity]}}',
        '{"m": {"deepband:dict": [[1, 2], ["a", 3]]}}',
        '{"deepband:dict": [[1, 2]]}',
        '{"m": {"deepband:float": "much"}}',
        '{"m": {"deepband:float": [1]}}',
    ],
)
def test_metrics_that_no_objective_returns_are_no_result(metrics: str) -> None:
    row = (
        '{"job": [0, 0, 0, 1, {}, "ab"], "loss": "0.5", "error": null, "metrics": METRICS, '
        '"seconds": 1.0, "resumed_from": null, "curve": [], "saved": null, "environment": false}'
    )
    assert attempt_codec.decode(row.replace("METRICS", '{"m": 1}').encode()) != []
    assert attempt_codec.decode(row.replace("METRICS", metrics).encode()) == []


def test_a_result_that_cannot_be_read_now_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails once: an error that no test can cause on a real one."""
    outbox = Outbox(tmp_path)
    outbox.make()
    with outbox.hold([(0, 0, 0)], "abcd", None) as held:
        held.put([Attempt(Job(0, 0, 0, 1, {}, "ab"), Outcome(0.5))])

    def fails(*_: object, **__: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(plain_files, "read_file", fails)
        with pytest.raises(deepband.StorageError, match="Input/output error"):
            outbox.waiting()
    assert len(outbox.waiting()) == 1
