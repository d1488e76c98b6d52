"""Studies in files: reopened, locked, damaged, moved, on full disks."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path
from typing import IO, Any

import pytest

import deepband
import preloaded
from deepband import InputError, LockedError, SpaceError, StorageError, Study
from deepband.storage.schema import FORMAT
from deepband.storage.sqlite import SqliteStorage
from driving import SPACE, finish, noisy
from preloaded import Process, pipe


def make(path: Path, **settings: Any) -> Study:
    return deepband.open_study(path, **{"space": SPACE, "max_budget": 9, "eta": 3, **settings})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mlp.study"


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Start another process that runs this code."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def driver_of(code: str, *arguments: object) -> tuple[Process, IO[str]]:
    """Start another process that runs this code and has imported deepband; what it prints."""
    out, writer = pipe()
    with writer:
        return Process(["-c", textwrap.dedent(code), *arguments], stdout=writer), out


HOLD = """
    import sys, time, deepband
    study = deepband.open_study(sys.argv[1])
    study.ask()
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_study_goes_on_where_it_was(path: Path) -> None:
    with make(path, seed=3) as study:
        jobs = study.ask_all()
        study.tell_all([(job, job.index) for job in jobs[:5]])
    with deepband.open_study(path) as study:
        assert len(study.evaluations) == 5
        again = study.ask_all()
        assert [job.key for job in again] == [job.key for job in jobs[5:]]
        assert [job.config for job in again] == [job.config for job in jobs[5:]]
        study.tell_all([(job, job.index) for job in jobs[5:]])
        finish(study, lambda job: job.index)
        study.deepen("efficient")
    with deepband.open_study(path) as study:
        finish(study, lambda job: job.index)
        assert [run.cost for run in study.runs] == [78, 345]
        assert study.best in study.evaluations


def test_a_stored_study_equals_one_in_memory(path: Path) -> None:
    memory = deepband.open_study(space=SPACE, max_budget=9)
    with make(path) as stored:
        for study in (memory, stored):
            finish(study, noisy(1, failures=0.2))
            study.deepen("preserving")
            finish(study, noisy(1, failures=0.2))
    assert deepband.open_study(path).evaluations == memory.evaluations
    assert deepband.open_study(path).runs == memory.runs


def test_reading_takes_no_lock_and_writes_nothing(path: Path) -> None:
    with make(path):
        reader = deepband.open_study(path)
        assert reader.evaluations == []
        assert not reader.done
        reader.plan()
        reader.close()
    before = path.read_bytes()
    assert not path.with_name("mlp.study.files").exists()
    deepband.open_study(path).close()
    assert path.read_bytes() == before
    assert not path.with_name("mlp.study.files").exists()


def test_a_reader_that_starts_to_write_sees_what_came_since(path: Path) -> None:
    first = make(path)
    second = deepband.open_study(path)
    job = first.ask()
    assert job is not None
    first.tell(job, 0.5)
    first.close()
    other = second.ask()
    assert other is not None
    assert other.index == 1
    assert len(second.evaluations) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"eta": 2}, "created with eta 3, and 2 is given"),
        ({"min_budget": 3}, "created with min_budget 1, and 3 is given"),
        ({"max_budget": 27}, "created with first max_budget 9, and 27 is given"),
        ({"seed": 1}, "created with seed 0, and 1 is given"),
        ({"maximize": True}, "created with maximize False, and True is given"),
        ({"integer_budgets": False}, "created with integer_budgets True, and False is given"),
        ({"width": 2}, "created with first width 1, and 2 is given.*with `widen`"),
        ({"brackets": 2}, "created with first number of brackets None, and 2 is given"),
        ({"space": {"x": (0.0, 2.0)}}, r"parameter 'x' was .*1\.0.*, now .*2\.0"),
        ({"space": {"x": (0.0, 1.0), "y": (1, 2)}}, "parameter 'y' was not there, now"),
        ({"sampler": "unifrom"}, "Did you mean 'uniform'"),
        ({"keep": "top"}, "keep is 'top': give 'newest'"),
    ],
)
def test_other_settings_are_refused_and_both_are_shown(
    path: Path, given: dict[str, Any], message: str
) -> None:
    make(path).close()
    with pytest.raises(InputError, match=message):
        deepband.open_study(path, **given)
    same: dict[str, Any] = {"space": SPACE, "eta": 3, "min_budget": 1.0, "max_budget": 9, "seed": 0}
    deepband.open_study(path, **same, maximize=False, sampler="uniform")


def test_max_budget_is_compared_with_the_first_run_s(path: Path) -> None:
    with make(path) as study:
        finish(study, noisy(0))
        study.deepen("efficient")
    make(path).close()
    assert deepband.open_study(path).max_budget == 27


@pytest.mark.parametrize("missing", ["space", "max_budget"])
def test_a_new_study_needs_a_space_and_a_max_budget(path: Path, missing: str) -> None:
    with pytest.raises(InputError, match=f"mlp.study is a new study: give {missing} to create it"):
        make(path, **{missing: None})
    assert list(path.parent.iterdir()) == []


def test_choices_that_a_file_cannot_keep_are_refused(path: Path) -> None:
    for choice in (object(), float("inf"), [{1.5}], ({"a": len},)):
        with pytest.raises(SpaceError, match="parameter 'x' has the value"):
            make(path, space={"x": [choice, "b"]})
    make(path, space={"x": [None, 1, 0.5, "a", False, [1, [2]]]}).close()
    assert path.exists()


def test_choices_come_back_with_the_types_that_they_had(path: Path) -> None:
    choices = [(50,), (100, 50), [50], {"a": (1, 2)}, {1: "one"}, {"deepband:tuple": [1]}, ()]
    space = {"x": choices, "y": (0.0, 1.0)}
    with make(path, space=space) as study:
        finish(study, noisy(0))
        drawn = [each.config for each in study.evaluations]
    with make(path, space=None) as study:
        assert repr([each.config for each in study.evaluations]) == repr(drawn)
        assert repr(study.session.space.description["hyperparameters"][0]["choices"]) == repr(
            choices
        )
    with make(path, space=space) as study:
        study.deepen()
        finish(study, noisy(0))
        deeper = [each.config["x"] for each in study.evaluations]
    assert {repr(each) for each in deeper} == set(map(repr, choices))
    with pytest.raises(InputError, match="has another space"):
        make(path, space={"x": [*choices[:-1], [100, 50]], "y": (0.0, 1.0)})


def test_a_second_driver_is_told_who_holds_the_study(path: Path) -> None:
    make(path).close()
    other, out = driver_of(HOLD, path)
    try:
        assert out.readline() == "held\n"
        study = deepband.open_study(path)
        start = time.monotonic()
        with pytest.raises(LockedError, match=f"locked by process {other.pid} on host .* since 20"):
            study.ask()
        os.kill(other.pid, signal.SIGSTOP)  # it stays locked while the process sleeps
        with pytest.raises(LockedError):
            study.ask()
        assert time.monotonic() - start < 10
        assert study.evaluations == []  # it can still be read
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        assert study.ask() is not None  # nothing to clean up
    finally:
        other.kill()
        other.wait()
        out.close()


def test_a_child_of_a_dead_driver_does_not_hold_the_study(path: Path) -> None:
    make(path).close()
    driver, out = driver_of(
        """
        import os, sys, time, deepband
        study = deepband.open_study(sys.argv[1])
        study.ask()
        if os.fork() == 0:
            print(os.getpid(), flush=True)  # the child, which has let go of the lock by now
        time.sleep(60)
        """,
        path,
    )
    child = int(out.readline())
    try:
        driver.kill()
        driver.wait()
        os.kill(child, 0)
        assert deepband.open_study(path).ask() is not None
    finally:
        os.kill(child, signal.SIGKILL)
        out.close()


def test_a_study_that_nobody_closes_lets_go_of_its_file(path: Path) -> None:
    study = make(path)
    assert study.ask() is not None
    assert isinstance(study.session.storage, SqliteStorage)
    connection = study.session.storage._connection
    assert connection is not None
    del study
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    with deepband.open_study(path) as other:
        assert other.ask() is not None


@pytest.mark.heavy
def test_a_script_that_closes_nothing_is_told_nothing(path: Path) -> None:
    make(path).close()
    code = "import sys, deepband; study = deepband.open_study(sys.argv[1]); study.ask()"
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


def test_what_is_no_study_is_refused_and_left_alone(path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.study"
    make(whole).close()
    foreign = sqlite3.connect(tmp_path / "foreign.study")
    foreign.execute("CREATE TABLE t (x)")
    foreign.commit()
    foreign.close()
    (tmp_path / "empty.study").touch()
    (tmp_path / "text.study").write_text("hello " * 1000)
    (tmp_path / "folder.study").mkdir()
    (tmp_path / "link.study").symlink_to(whole)
    (tmp_path / "dangling.study").symlink_to(tmp_path / "nowhere")
    for name, message in {
        "foreign": "not a deepband study",
        "empty": "is empty",
        "text": "is not an intact study file: file is not a database",
        "folder": "is not a file",
        "link": "symbolic link",
        "dangling": "symbolic link",
    }.items():
        bad = tmp_path / f"{name}.study"
        before = bad.read_bytes() if bad.is_file() else None
        with pytest.raises(StorageError, match=message) as caught:
            make(bad)
        assert caught.value.path == bad
        assert before == (bad.read_bytes() if bad.is_file() else None)
    with pytest.raises(StorageError, match="does not exist"):
        make(tmp_path / "no" / "folder.study")


def test_a_file_cut_anywhere_is_refused_and_left_alone(path: Path) -> None:
    with make(path, max_budget=81) as study:
        finish(study, noisy(0))
    whole = path.read_bytes()
    page = 4096
    assert len(whole) > 8 * page
    for size in [*range(page, len(whole), page), 1, 100, page + 7, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(StorageError):
            make(path, max_budget=81)
        assert path.read_bytes() == whole[:size]
    path.write_bytes(whole)
    assert deepband.open_study(path).done


def test_a_file_with_rows_that_do_not_fit_is_refused(path: Path) -> None:
    with make(path) as study:
        finish(study, noisy(0))
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM evaluations WHERE bracket = 0 AND rung = 0 AND loss IS NOT 7")
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="is damaged: there are missing or extra rows"):
        deepband.open_study(path)


def test_a_file_of_a_newer_version_is_refused_and_not_changed(path: Path) -> None:
    with make(path) as study:
        finish(study, noisy(0))
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StorageError, match=f"format {FORMAT + 1}; this version writes.*Update"):
        deepband.open_study(path)
    assert path.read_bytes() == content


def test_the_tables_can_be_queried_by_a_person(path: Path) -> None:
    with make(path) as study:
        jobs = study.ask_all()
        study.tell(jobs[0], {"loss": 0.25, "accuracy": 0.9})
        study.tell(jobs[1], RuntimeError("no"))
        connection = sqlite3.connect(path)
        rows = connection.execute(
            'SELECT bracket, "index", rung, run, loss, error, metrics FROM evaluations'
        ).fetchall()
        assert rows == [
            (0, 0, 0, 0, 0.25, None, '{"accuracy":0.9}'),
            (0, 1, 0, 0, None, "RuntimeError: no", None),
        ]
        ((config,),) = connection.execute(
            'SELECT config FROM configs WHERE bracket = 0 AND "index" = 1'
        )
        assert json.loads(config) == jobs[1].config
        ((journal,),) = connection.execute("PRAGMA journal_mode")
        assert journal in ("delete", "truncate")
        connection.close()


def test_a_moved_study_goes_on(path: Path, tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        (context.path / "state").write_text(str(budget))
        assert (context.previous is None) == (context.previous_budget == 0)
        if context.previous is not None:
            assert (context.previous / "state").read_text() == str(context.previous_budget)
        return float(config["x"])

    with make(path) as study:
        study.optimize(train)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("mlp.study", "mlp.study.files"):
        shutil.move(path.with_name(name), elsewhere / name)
    with deepband.open_study(elsewhere / "mlp.study") as study:
        study.deepen("efficient")
        study.optimize(train)
        assert all(run.trained == run.cost_resumed for run in study.runs)


def test_a_full_disk_is_said_and_nothing_is_lost(path: Path) -> None:
    """A limit on file sizes simulates the disk; once it is lifted, the study continues."""
    code = textwrap.dedent(
        """
        import resource, sys, deepband
        path, space = sys.argv[1], {"x": (0.0, 1.0)}
        study = deepband.open_study(path, space=space, max_budget=81)
        size = (lambda: __import__("os").path.getsize(path))
        reported = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size() + 4096, resource.RLIM_INFINITY))
        try:
            while job := study.ask():
                study.tell(job, job.config["x"])
                reported += 1
            print("no error")
        except deepband.StorageError as error:
            print(reported, len(study.evaluations), error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        study.release(job)  # it was asked for when the disk was full
        while job := study.ask():
            study.tell(job, job.config["x"])
        print(len(study.evaluations))
        """
    )
    done = preloaded.run(["-c", code, path], path.parent)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    reported, known, message = first.split(" ", 2)
    assert reported == known
    assert "cannot be used now" in message
    assert last == "206"
    assert deepband.open_study(path).done


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_spent(tmp_path: Path) -> None:
    (tmp_path / "mlp.study.files").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be locked for writing"):
        make(tmp_path / "mlp.study")


def test_a_study_that_was_left_behind_catches_up_before_it_deepens(path: Path) -> None:
    with make(path) as study:
        finish(study, noisy(0))
    late = deepband.open_study(path)
    with deepband.open_study(path) as study:
        study.deepen("efficient")
        finish(study, noisy(0))
    late.deepen("efficient", to=27)
    assert len(late.runs) == 2
    late.close()
    assert deepband.open_study(path).done


def test_what_goes_on_in_a_study_that_somebody_else_wrote_to_is_refused(path: Path) -> None:
    study = make(path)
    jobs = study.ask_all()
    shutil.rmtree(path.with_name("mlp.study.files"))  # and with it the lock
    with deepband.open_study(path) as other:
        other.tell(jobs[0]._replace(study=""), 0.5)
    with pytest.raises(StorageError, match="changed by a program that ignores the lock"):
        study.tell(jobs[1], 0.5)
    study.tell(jobs[1], 0.5)  # it has caught up
    assert len(study.evaluations) == 2


def test_a_forked_child_cannot_write(path: Path) -> None:
    study = make(path)
    jobs = study.ask_all()
    child = os.fork()
    if child == 0:
        try:
            study.tell(jobs[0], 0.5)
        except StorageError:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    study.tell(jobs[0], 0.5)
    assert len(deepband.open_study(path).evaluations) == 1


def test_a_journal_without_its_study_is_not_mixed_into_a_new_one(path: Path) -> None:
    journal = path.with_name("mlp.study-journal")
    journal.write_bytes(b"left over")
    with pytest.raises(StorageError, match=r"does not exist, but its journal mlp\.study-journal"):
        make(path)
    assert journal.read_bytes() == b"left over"


def test_checkpoints_of_a_deleted_study_are_not_those_of_a_new_one(path: Path) -> None:
    seen: list[bool] = []

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        seen.append(context.previous is None and context.partial is None)
        (context.path / "state").write_text(str(budget))
        return float(config["x"])

    with make(path, keep="all") as study:
        study.optimize(train)
    path.unlink()
    seen.clear()
    with make(path, seed=5) as study:
        study.tell_all([(job, job.config["x"]) for job in study.ask_all()])
        study.optimize(train)
        assert all(seen[:3])
        assert all(each.resumed_from is None for each in study.evaluations if each.rung == 1)


@pytest.mark.parametrize(
    "bad", ["", "/", "a\0b", "x" * 300, "\udcff.study", b"bytes.study", 5, "folder/"]
)
def test_what_is_no_path_is_refused(
    bad: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError):
        make(bad)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b.study", "100%.study", "what?.study", "#1.study", "ü.study"])
def test_odd_names_are_good_names(name: str, tmp_path: Path) -> None:
    make(tmp_path / name).close()
    assert deepband.open_study(tmp_path / name).max_budget == 9


def test_a_relative_path_is_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        os.chdir("/")
        (context.path / "state").write_text("x")
        return float(config["x"])

    with deepband.open_study("here.study", space=SPACE, max_budget=9) as study:
        study.optimize(train)
        assert all(each.error is None for each in study.evaluations)
    assert deepband.open_study(tmp_path / "here.study").done


@pytest.mark.parametrize(
    "damage",
    [
        'DELETE FROM configs WHERE bracket = 0 AND "index" = 3',
        "UPDATE configs SET config = '[1]'",
        "UPDATE configs SET config = '{'",
        "UPDATE studies SET max_budget = '1/0'",
        "UPDATE studies SET space = '5', eta = 1",
        "UPDATE evaluations SET metrics = '5'",
        "UPDATE evaluations SET curve = '[5]'",
        "DELETE FROM studies",
        "DROP TABLE configs",
        "UPDATE runs SET max_budget = '10'",
        "UPDATE runs SET strategy = 'other'",
        "UPDATE runs SET strategy = 'frugal'",
        "UPDATE runs SET strategy = 'frugal' WHERE run = 1",
        "UPDATE runs SET max_budget = '9' WHERE run = 1",
    ],
)
def test_damaged_rows_are_a_damaged_study(path: Path, damage: str) -> None:
    with make(path) as study:
        finish(study, noisy(0))
        study.deepen("efficient")
        finish(study, noisy(0))
    connection = sqlite3.connect(path)
    connection.execute(damage)
    connection.commit()
    connection.close()
    with pytest.raises(StorageError, match="damaged"):
        deepband.open_study(path)


def test_a_failed_commit_is_not_half_known(path: Path) -> None:
    """The file refuses one commit; the same study continues afterwards."""
    with make(path) as study:
        connection = sqlite3.connect(path)
        connection.execute(
            'CREATE TRIGGER full BEFORE INSERT ON evaluations WHEN new."index" = 4 '
            "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
        connection.commit()
        with pytest.raises(StorageError, match="disk full"):
            study.optimize(lambda config, budget: config["x"])
        connection.execute("DROP TRIGGER full")
        connection.commit()
        connection.close()
        known = len(study.evaluations)
        study.optimize(lambda config, budget: config["x"])
        assert study.done
        assert known == 4


LOCK = """
    import sqlite3, sys
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute(sys.argv[2])
    connection.execute("SELECT * FROM studies").fetchall()
    print("locked", flush=True)
    sys.stdin.readline()
    connection.execute("ROLLBACK")
"""


def lock(path: Path, statement: str) -> subprocess.Popen[str]:
    """Another program that locks a file until it reads a line, or ends."""
    other = python(LOCK, path, statement)
    assert other.stdout is not None
    assert other.stdout.readline() == "locked\n"
    return other


@pytest.mark.parametrize("statement", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_driver_waits_for_a_program_that_locks_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """A reader has a SHARED lock, others a RESERVED or an EXCLUSIVE one."""
    monkeypatch.setattr("deepband.storage.connections.BUSY_SECONDS", 0.5)
    with make(path) as study:
        job = study.ask()
        assert job is not None
        other = lock(path, statement)
        assert other.stdin is not None
        shown: list[warnings.WarningMessage] = []

        def release(*warning: Any, **_: Any) -> None:
            shown.append(warning[0])
            other.communicate("\n")

        monkeypatch.setattr(warnings, "showwarning", release)
        with warnings.catch_warnings():
            warnings.simplefilter("always", deepband.BusyWarning)
            study.tell(job, 0.5)
    assert len(shown) == 1
    by = f" (process {other.pid})" if sys.platform == "linux" else ""
    assert f"mlp.study is locked by another program{by}, such as" in str(shown[0])
    assert [each.loss for each in deepband.open_study(path).evaluations] == [0.5]


def test_readers_are_let_in_while_a_driver_waits(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deepband.storage.connections.BUSY_SECONDS", 0.5)
    with make(path) as study:
        jobs = study.ask_all()
        other = lock(path, "BEGIN")

        def read(*_: Any, **__: Any) -> None:
            code = "import sys, deepband; deepband.open_study(sys.argv[1])"
            assert Process(["-c", code, path]).wait(60) == 0
            other.communicate("\n")

        monkeypatch.setattr(warnings, "showwarning", read)
        with warnings.catch_warnings():
            warnings.simplefilter("always", deepband.BusyWarning)
            study.tell(jobs[0], 0.5)
        assert len(study.evaluations) == 1


WAIT = """
    import sys, threading, time, deepband
    from deepband.system import interrupts
    from deepband.storage import connections
    connections.BUSY_SECONDS = 0.0
    study = deepband.open_study(sys.argv[1])
    job = study.ask()

    def note():
        while not any(each.asked for each in interrupts._entered):
            time.sleep(0.01)
        print("asked", flush=True)

    threading.Thread(target=note, daemon=True).start()
    try:
        if sys.argv[2] == "tell":
            study.tell(job, 0.5)
        else:
            study.optimize(lambda config, budget: 0.5)
    except KeyboardInterrupt:
        print("interrupted", len(study.evaluations), flush=True)
"""


@pytest.mark.parametrize("how", ["tell", "optimize"])
def test_the_wait_for_a_lock_can_be_interrupted(path: Path, how: str) -> None:
    make(path).ask_all()  # so that configs are drawn
    other = lock(path, "BEGIN")
    driver = python(WAIT, path, how)
    try:
        assert driver.stdout is not None
        assert driver.stderr is not None
        assert "is locked by another program" in driver.stderr.readline()
        driver.send_signal(signal.SIGINT)
        if how == "optimize":  # the first one lets it record its results
            assert driver.stdout.readline() == "asked\n"
            driver.send_signal(signal.SIGINT)
        out, _ = driver.communicate(timeout=60)
        assert out == "interrupted 0\n"
    finally:
        driver.kill()
        other.communicate("\n")
    with deepband.open_study(path) as study:
        assert study.evaluations == []
        finish(study, noisy(1))


OPEN = """
import sys
import deepband

events = []
def hook(event, arguments):
    if event.startswith(("pickle.", "subprocess.", "os.system", "os.exec", "os.fork")):
        events.append(event)
    if event == "import" and arguments[0] == "hostile_train":
        events.append(event)

sys.addaudithook(hook)
study = deepband.open_study(sys.argv[1])
assert study.session.state.objective == "hostile_train.py:train"
print(study.best, study.plan(), len(study.evaluations))
assert events == [], events
"""


def test_opening_a_study_runs_no_code(path: Path, tmp_path: Path) -> None:
    (tmp_path / "hostile_train.py").write_text("raise SystemExit('the objective was imported')\n")
    with make(path) as study:
        study.session.name_objective("hostile_train.py:train")
        finish(study, noisy(0))
    assert Process(["-c", OPEN, path], cwd=tmp_path).wait() == 0
