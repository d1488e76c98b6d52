"""The dashboard over a real connection: what it shows, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deepband
import hostile
from deepband.analysis.importance import Importance, Sample
from deepband.analysis.quote import quote_table
from deepband.core.extension import options
from deepband.interfaces.cli import main
from deepband.interfaces.dashboard.app import make_app
from deepband.interfaces.dashboard.evaluation_list import ROWS_PER_PAGE
from deepband.interfaces.dashboard.guard import HEADERS
from deepband.interfaces.dashboard.parameter_charts import MOST_AXES, MOST_LINES, MOST_POINTS
from deepband.interfaces.dashboard.server import check_safe, host_names
from deepband.interfaces.dashboard.watchlist import Watched, Watchlist
from deepband.storage.schema import SCHEMA
from driving import extended, finish, noisy, wait_until
from older import turn_into_format_1
from serving import Server, serving

SPACE = {"lr": (1e-4, 1e-1, "log"), "kind": ["a", "b"]}


def make(place: Path, max_budget: int = 27, failures: float = 0.1) -> deepband.Study:
    study = deepband.open_study(place, space=SPACE, max_budget=max_budget)
    finish(study, noisy(1, failures))
    return study


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("served") / "a.study"
    make(place).close()
    return place


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with serving(place) as server:
        yield server


# What is refused


PATHS = [
    "/static/../app.py",
    "/static/%2e%2e/app.py",
    "/static/..%2fapp.py",
    "/static/%2fetc%2fpasswd",
    "/static/nothing.js",
    "//evil.example/",
    "/studies/../../etc/passwd",
    "/studies/%2e%2e%2f%2e%2e%2fa.study",
    "/studies/a.study",
    "/studies/0000000000000000",
    "/studies/0000000000000000/events",
    "STUDY/configs/-1/0",
    "STUDY/configs/0/-1",
    "STUDY/configs/0/99999999999999999999999",
    "STUDY/configs/99/0",
    "STUDY/configs/0/../../etc",
    "STUDY/configs/0/%2e%2e",
    "STUDY/output/0-0-0",
    "STUDY.files/lock",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths_lead_nowhere(server: Server, path: str) -> None:
    answer, body = server.ask(path.replace("STUDY", server.study()))
    assert answer.status == 404
    assert body == b"Not Found"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a@127.0.0.1", "", "x y"],
)
def test_a_foreign_host_is_refused(server: Server, host: str) -> None:
    answer, body = server.ask(server.study(), headers={"Host": host})
    assert answer.status == 400
    assert b"a.study" not in body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_names_of_this_machine_are_accepted(server: Server, host: str) -> None:
    port = server.host.split(":")[1]
    for name in (host, f"{host}:{port}"):
        assert server.ask(server.study(), headers={"Host": name})[0].status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "https://HOST", "http://127.0.0.1:1", "file://"]
)
def test_a_foreign_origin_is_refused(server: Server, origin: str) -> None:
    path = f"{server.study()}/evaluations"
    answer, _ = server.ask(path, headers={"Origin": origin.replace("HOST", server.host)})
    assert answer.status == 403
    own = {"Origin": f"http://{server.host}"}
    assert server.ask(path, headers=own)[0].status == 200


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNEXT"]
)
def test_only_looking_is_possible(server: Server, method: str) -> None:
    answer, _ = server.ask(server.study(), method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("STUDY/evaluations?text=" + "x" * 3100, 414),
        ("/" + "x" * 600, 414),
        ("STUDY/evaluations?sort=nothing", 400),
        ("STUDY/evaluations?sort=p9", 400),
        ("STUDY/evaluations?page=-1", 400),
        ("STUDY/evaluations?page=1e9", 400),
        ("STUDY/evaluations?page=99999999999", 400),
        ("STUDY/evaluations?bracket=%D9%A3", 400),  # a digit, but not one of ours
        ("STUDY/evaluations?outcome=drop", 400),
        ("STUDY/evaluations?path=/etc/passwd", 400),
        ("STUDY/evaluations?page=99999999", 200),
        ("STUDY/evaluations?text=%00%ff", 200),
    ],
)
def test_queries(server: Server, path: str, status: int) -> None:
    answer, _ = server.ask(path.replace("STUDY", server.study()))
    assert answer.status == status


def test_a_websocket_is_refused(server: Server) -> None:
    asked = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    asked["Sec-WebSocket-Key"] = "x3JJHMbDL1EzLkh9GBhXDw=="
    answer, _ = server.ask("/", headers=asked)
    assert answer.status != 101


def test_a_request_that_is_no_http(server: Server) -> None:
    host, port = server.host.split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n\r\n")  # without a host
        assert b"400" in raw.recv(100)
    assert server.ask(server.study())[0].status == 200


def test_every_answer_says_what_a_browser_may_do(server: Server) -> None:
    study = server.study()
    for path in ("/", study, f"{study}/evaluations", "/static/study.js", "/nothing"):
        answer, _ = server.ask(path)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "Server" not in answer.headers
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert server.ask(study, "HEAD")[1] == b""


# Access from other machines


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_an_open_address_needs_a_token(host: str, place: Path) -> None:
    result = CliRunner().invoke(main, ["serve", str(place), "--host", host])
    assert result.exit_code == 2
    assert "every visitor sees all configs" in result.output
    with pytest.raises(deepband.InputError, match="guessed"):
        check_safe(host, "short")
    check_safe(host, "x" * 16)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_an_own_address_needs_none(host: str) -> None:
    check_safe(host, None)


def test_the_names_that_are_answered_to() -> None:
    assert host_names("127.0.0.1") == ["127.0.0.1", "[::1]", "localhost"]
    wide = host_names("0.0.0.0", ["tuning.example.org"])
    assert {"tuning.example.org", socket.gethostname()} <= set(wide)
    assert not {"0.0.0.0", "*"} & set(wide)
    with pytest.raises(deepband.InputError, match="each host name"):
        host_names("0.0.0.0", ["*.example.org"])


def test_a_token_is_asked_for_once(place: Path) -> None:
    token = "a secret of many words"
    first, second = (make_app(place, [], each) for each in (token, "another one of many words"))
    assert first.cookie != second.cookie
    with serving(place, "--host", "0.0.0.0", "--token", token) as server:
        port = server.host.split(":")[1]
        here = f"http://{socket.gethostname()}:{port}/"
        assert server.url == f"{here}?token=a+secret+of+many+words"
        inside = replace(server, url=f"http://127.0.0.1:{port}/")
        for path in ("/", "/?token=wrong", "/static/study.js", "/?token="):
            assert inside.ask(path)[0].status == 403
        answer, _ = inside.ask("//evil.example/?page=1&token=a+secret+of+many+words")
        assert answer.status == 303
        assert answer.headers["Location"] == "/evil.example/?page=1"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        pair = cookie.split(";")[0]
        assert "secret" not in cookie
        name = pair.split("=")[0]
        assert inside.ask("/", headers={"Cookie": f"{name}=wrong"})[0].status == 403
        assert inside.ask("/", headers={"Cookie": pair})[0].status == 303  # to the study


TOKEN = "a secret of many words"


def test_a_token_comes_from_the_environment_or_a_file(tmp_path: Path, place: Path) -> None:
    """On the command line, every user of the machine would see it."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    from_file = ["--token-file", str(tmp_path / "token")]
    for given, environment in ((from_file, {}), ([], {"DEEPBAND_TOKEN": TOKEN})):
        with serving(place, *given, environment=environment, from_scratch=True) as server:
            assert server.url.endswith("/?token=a+secret+of+many+words")
            command = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            assert b"secret" not in command
            assert server.ask("/")[0].status == 403
            assert server.ask("/?token=a+secret+of+many+words")[0].status == 303


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        (["--token", TOKEN, "--token-file", "token"], {}, "not both"),
        (["--token-file", "nothing"], {}, "cannot be read"),
        (["--token-file", "."], {}, "cannot be read"),
        (["--token-file", "empty"], {}, "is empty"),
        (["--token-file", "binary"], {}, "cannot be read"),
        ([], {"DEEPBAND_TOKEN": "short"}, "guessed"),
        (["--host", "0.0.0.0"], {"DEEPBAND_TOKEN": ""}, "Put a secret into DEEPBAND_TOKEN"),
    ],
)
def test_a_token_that_cannot_be_had(
    given: list[str],
    environment: dict[str, str],
    message: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(TOKEN)
    Path("empty").write_text("\n")
    Path("binary").write_bytes(b"\xff" * 20)
    result = CliRunner().invoke(main, ["serve", str(place), *given], env=environment)
    assert result.exit_code == 2, result.output
    assert message in result.output


# What it shows


def test_the_first_event_is_the_study(server: Server, place: Path) -> None:
    name, overview = next(server.events(server.study()))
    study = deepband.open_study(place)
    assert name == "overview"
    assert overview["best"]["value"] == study.best.value
    assert overview["status"]["evaluations"] == len(study.evaluations)
    assert overview["status"]["failed"] == sum(each.loss is None for each in study.evaluations)
    assert overview["status"]["spent"] == study.runs[0].cost
    assert overview["status"]["left"] == 0
    quotes = [study.session.quote(*option) for option in options(study.session.state)]
    assert [overview["quotes"]["header"], *overview["quotes"]["rows"]] == quote_table(quotes)
    assert sum(sum(cell["evaluated"]) for cell in overview["cells"]) == len(study.evaluations)


def test_events_follow_a_study_and_its_deepening(tmp_path: Path) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    with serving(tmp_path / "a.study") as server:
        events = server.events(server.study())
        assert next(events)[1]["status"]["evaluations"] == 0
        finish(study, noisy(1))
        overview = latest(events, 6)
        assert overview["status"]["done"]
        study.deepen("efficient")
        assert len(next(events)[1]["runs"]) == 2
        finish(study, noisy(1))
        assert latest(events, len(study.evaluations))["status"]["done"]


def latest(
    events: Iterator[tuple[str, dict[str, dict[str, object]]]], count: int
) -> dict[str, dict[str, object]]:
    """The first event with `count` evaluations."""
    for name, overview in events:
        assert name == "overview"
        if overview["status"]["evaluations"] == count:
            return overview
    raise AssertionError("the stream ended")


def test_a_study_that_is_lost_and_found(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    make(place, 3).close()
    with serving(tmp_path) as server:
        _, page = server.ask("/")
        path = page.decode().split('href="/studies/')[1].split('"')[0]
        events = server.events(f"/studies/{path}")
        assert next(events)[0] == "overview"
        content = place.read_bytes()
        place.write_bytes(content[: len(content) // 2])
        assert next(events)[0] == "trouble"
        assert server.ask(f"/studies/{path}/evaluations")[0].status == 503
        assert "is not an intact study file" in server.ask("/")[1].decode()
        place.write_bytes(content)
        _, overview = next(event for event in events if event[0] == "overview")
        assert overview["status"]["evaluations"] == 6
        place.unlink()
        assert next(events)[0] == "trouble"
        assert server.ask(f"/studies/{path}")[0].status == 404
        assert "No file in this folder" in server.ask("/")[1].decode()


def test_leased_jobs_are_shown_as_running(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "a.study")
    with make(watched.path, 3) as study:
        study.deepen()
    with deepband.open_study(watched.path) as study:
        jobs = study.ask_all(lease=3600)
        shown = json.loads(watched.overview())
        assert shown["status"]["running"] == len(jobs) > 1
        assert sum(flags & 4 > 0 for c in shown["cells"] for _, _, flags in c["marks"]) == len(jobs)
        assert watched.row()["kind"] == "running"
        for job in jobs:
            study.renew(job, 0.01)
    wait_until(lambda: json.loads(watched.overview())["status"]["running"] == 0)
    assert watched.row()["kind"] == "waiting"


def test_a_folder_of_studies(tmp_path: Path) -> None:
    make(tmp_path / "a.study", 3).close()
    make(tmp_path / "b.study", 9).close()
    (tmp_path / "c.study").write_text("no study")
    (tmp_path / "link.study").symlink_to(tmp_path / "a.study")
    (tmp_path / "note.txt").write_text("no study")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.study")).touch()
    with closing(sqlite3.connect(tmp_path / "d.study")) as empty:
        empty.executescript(SCHEMA)
    with serving(tmp_path) as server:
        _, page = server.ask("/")
        text = page.decode()
    assert text.count('href="/studies/') == 4
    assert "is not an intact study file" in text
    assert "is damaged" in text
    assert "link.study" not in text
    assert [each.name for each in Watchlist(tmp_path).studies()] == [
        "a.study",
        "b.study",
        "c.study",
        "d.study",
    ]


def test_sorting_filtering_and_paging(server: Server, place: Path) -> None:
    path = f"{server.study()}/evaluations"
    everything = deepband.open_study(place).evaluations

    def ask(query: str) -> Any:
        return json.loads(server.ask(f"{path}?{query}")[1])

    def keys(query: str) -> list[tuple[object, object, object]]:
        return [(row["bracket"], row["index"], row["rung"]) for row in ask(query)["rows"]]

    def expected(found: list[deepband.Evaluation]) -> list[tuple[int, int, int]]:
        return [(each.bracket, each.index, each.rung) for each in found[:ROWS_PER_PAGE]]

    assert ask("")["total"] == len(everything)
    assert keys("") == expected(everything)
    assert keys("page=1") == expected(everything[ROWS_PER_PAGE:])
    assert keys("page=9") == []
    good = [each for each in everything if each.loss is not None]
    bad = [each for each in everything if each.loss is None]
    by_loss = sorted(good, key=lambda each: each.loss or 0.0)
    assert keys("sort=value") == expected(by_loss)
    assert (
        keys("sort=value&descending=1")[:5]
        == expected(sorted(good, key=lambda each: -(each.loss or 0.0)))[:5]
    )
    assert keys("sort=p1") == expected(sorted(everything, key=lambda e: e.config["lr"]))
    assert keys("sort=p0")[0] == expected([e for e in everything if e.config["kind"] == "a"])[0]
    assert keys("outcome=failed") == expected(bad)
    assert keys("rung=1&bracket=1") == expected(
        [each for each in everything if (each.rung, each.bracket) == (1, 1)]
    )
    assert keys("run=1") == []
    assert keys("text=KIND%3Db") == expected([e for e in everything if e.config["kind"] == "b"])
    assert keys("text=on%20purpose") == expected(
        [each for each in bad if "on purpose" in (each.error or "")]
    )


def test_values_are_in_the_users_sign(tmp_path: Path) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3, maximize=True)
    finish(study, lambda job: float(job.index))
    with serving(tmp_path / "a.study") as server:
        _, overview = next(server.events(server.study()))
        assert overview["best"]["value"] == overview["incumbent"]["steps"][-1][2] == 2.0
        _, body = server.ask(f"{server.study()}/evaluations?sort=value&descending=1")
        assert json.loads(body)["rows"][0]["value"] == "2"


def test_the_page_of_a_config(tmp_path: Path) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)

    def train(config: dict[str, object], budget: int) -> dict[str, float]:
        print(f"trained for {budget}")
        return {"loss": 1 / budget, "accuracy": 0.5}

    study.optimize(train, workers=2)
    with serving(tmp_path / "a.study") as server:
        _, body = server.ask(f"{server.study()}/configs/0/0")
    text = body.decode()
    for verdict in study.explain(0, 0):
        assert str(verdict) in text
    assert "trained for 1" in text
    assert "accuracy" in text
    assert repr(study.evaluations[0].config["lr"]) in text


def test_a_study_that_was_extended_in_every_direction(tmp_path: Path) -> None:
    study = extended(str(tmp_path / "a.study"))
    with serving(tmp_path) as server:
        _, listed = server.ask("/")
        row = listed.decode().split("<tbody>")[1]
        assert "<td>3<small>max_budget 27, width 2, brackets 2</small></td>" in row
        assert f"<strong>{study.best.value:.6g}</strong>" in row
        assert '<span class="state done">done</span>' in row
        path = "/studies/" + row.split('href="/studies/')[1].split('"')[0]
        _, overview = next(server.events(path))
        _, body = server.ask(f"{path}/configs/1/0")
        status = [server.ask(f"{path}/configs/{bracket}/0")[0].status for bracket in (0, 1, 2)]
    assert overview["status"]["name"] == "run 3, max_budget 27, width 2, brackets 2, efficient"
    assert [run["how"] for run in overview["runs"]] == [
        "",
        "widened by efficient to width 2",
        "extended by preserving to 9, 2 brackets",
        "deepened by efficient to 27",
    ]
    assert [text for _, text in overview["incumbent"]["extensions"]] == [
        "to width 2",
        "to 9, 2 brackets",
        "to 27",
    ]
    assert {cell["bracket"] for cell in overview["cells"]} == {0, 1}
    assert quote_table([study.quote("efficient", width=3)])[1] in overview["quotes"]["rows"]
    assert status == [200, 200, 404]
    for verdict in study.explain(1, 0):
        assert str(verdict) in body.decode()


def test_hostile_names_are_escaped_in_every_page(tmp_path: Path) -> None:
    place = tmp_path / "<img src=x onerror=alert(9)>.study"
    hostile.make(place, workers=2).close()
    with serving(tmp_path) as server:
        _, listed = server.ask("/")
        study = "/studies/" + listed.decode().split('href="/studies/')[1].split('"')[0]
        pages = [listed, *(server.ask(f"{study}{rest}")[1] for rest in ("", "/configs/0/0"))]
        for page in pages:
            hostile.check_harmless(page.decode())
        _, body = server.ask(f"{study}/evaluations?text=" + "%3Cscript%3E")
        assert json.loads(body)["total"] > 0
        assert "\\u202e" not in body.decode().replace("\\\\u202e", "")  # shown as text, not turned


def test_importance_is_computed_for_new_results_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def counting(given: Sample) -> Importance:
        computed.append(given)
        return Importance(given.rung, len(given.found), {"lr": 0.75, "kind": 0.25}, ())

    monkeypatch.setattr("deepband.interfaces.dashboard.watchlist.importance_of", counting)
    monkeypatch.setattr("deepband.interfaces.dashboard.watchlist.SECONDS_PER_READ", 0.0)
    study = make(tmp_path / "a.study", 3)
    watched = Watched(tmp_path / "a.study")
    assert watched.importance()["shares"] == [["lr", 0.75], ["kind", 0.25]]
    watched.importance()
    assert len(computed) == 1
    study.deepen("efficient")
    finish(study, noisy(1))
    watched.importance()  # too soon
    assert len(computed) == 1
    monkeypatch.setattr("deepband.interfaces.dashboard.watchlist.SECONDS_PER_IMPORTANCE", 0.0)
    watched.importance()
    watched.importance()
    assert len(computed) == 2


def test_importance_says_why_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    with serving(tmp_path / "a.study") as server:
        _, body = server.ask(f"{server.study()}/importance")
    assert json.loads(body) == {
        "shares": [],
        "note": "The results so far do not show which parameters matter.",
    }
    finish(study, noisy(1))
    monkeypatch.setitem(sys.modules, "optuna", None)
    found = Watched(tmp_path / "a.study").importance()
    assert found["shares"] == []
    assert "importance needs Optuna" in found["note"]


def test_curves_and_coordinates_are_limited(tmp_path: Path) -> None:
    """However large a study is, a page draws few lines, and says so."""
    space = {f"p{number:02}": (0.0, 1.0) for number in range(30)}
    study = deepband.open_study(tmp_path / "a.study", space=space, max_budget=27, width=30)
    finish(study, noisy(1))
    found = json.loads(Watched(tmp_path / "a.study").overview())["parallel"]
    assert (len(found["axes"]), len(found["lines"])) == (MOST_AXES, MOST_LINES)
    count = sum(each.rung == 3 for each in study.evaluations)
    assert found["note"] == (
        f"The best 200 of {count} configs on rung 3 (budget 27), 20 of 30 parameters"
    )


def test_a_config_that_starts_over_has_a_curve_in_parts(tmp_path: Path) -> None:
    def train(config: dict[str, float], budget: int, context: deepband.Context) -> float:
        for step in range(1, 400 * budget + 1):
            context.report(step, config["lr"] / step)
        return config["lr"] / budget

    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    study.optimize(train)
    curves = json.loads(Watched(tmp_path / "a.study").overview())["reported"]
    parts = next(each["points"] for each in curves if each["bracket"] == 0)
    assert [part[0][0] for part in parts] == [1, 1]
    assert [part[-1][0] for part in parts] == [400, 1200]
    assert all(len(part) <= MOST_POINTS + 1 for part in parts)


# How it reads studies


def test_reset_failures_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepband.interfaces.dashboard.watchlist.SECONDS_PER_READ", 0.0)
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    job = study.ask()
    assert job
    study.tell(job, ValueError("no"))
    watched = Watched(tmp_path / "a.study")
    first = watched.look()
    assert watched.look() == first
    study.retry_failed()
    assert watched.look() > first
    assert watched.read(lambda state: len(state.results[0, 0])) == 0


def test_a_study_is_read_at_a_limited_rate(tmp_path: Path) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3)
    watched = Watched(tmp_path / "a.study")
    first = watched.look()
    finish(study, noisy(1))
    assert watched.look() == first
    wait_until(lambda: watched.look() > first)


def test_a_file_of_format_1_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepband.interfaces.dashboard.watchlist.SECONDS_PER_READ", 0.0)
    make(tmp_path / "a.study", 3).close()
    turn_into_format_1(tmp_path / "a.study")
    watched = Watched(tmp_path / "a.study")
    assert watched.read(lambda state: sum(map(len, state.results.values()))) == 6
    assert watched.read(lambda state: sum(map(len, state.results.values()))) == 6


def test_notes_of_workers_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    make(tmp_path / "a.study", 3).close()
    jobs = tmp_path / "a.study.files" / "jobs"
    jobs.mkdir(parents=True)
    for name, note in (("0-1-0.token", "[]"), ("0abc", "{}"), ("0-2-0.token", "{")):
        (jobs / name).write_text(note)
    watched = Watched(tmp_path / "a.study")
    assert json.loads(watched.overview())["status"]["running"] == 0


def test_an_internal_error_has_the_security_headers(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even the response to an unexpected exception has them."""
    import asyncio

    app = make_app(place, ["localhost"])
    monkeypatch.setattr("deepband.interfaces.dashboard.app.listing", lambda *_: 1 / 0)
    sent: list[Any] = []

    async def ask() -> None:
        path = f"/studies/{Watched(place).id}/evaluations"
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b""}
        scope |= {"headers": [(b"host", b"localhost")], "scheme": "http", "raw_path": path.encode()}

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        with suppress(ZeroDivisionError):
            await app(scope, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 500
    headers = {name.decode().lower() for name, _ in sent[0]["headers"]}
    assert {name.lower() for name in HEADERS} <= headers
    assert b"ZeroDivision" not in sent[1]["body"]


@pytest.mark.parametrize("host", ["::1", "localhost"])
def test_other_addresses_of_this_machine(place: Path, host: str) -> None:
    with serving(place, "--host", host) as server:
        assert server.ask("/")[0].status == 303


def test_the_server_stops_while_pages_are_open(place: Path) -> None:
    with serving(place) as server:
        events = server.events(server.study())
        next(events)
        start = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(timeout=20)
        assert time.monotonic() - start < 10
        assert server.process.returncode == 0
        assert server.errors.read() == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nothing.study"], "there is no study or folder"),
        (["no.study"], "not an intact study file"),
        ([".", "--token", "short"], "guessed"),
        ([".", "--port", "99999"], "is not in the range"),
        ([".", "--host", "nowhere.invalid", "--token", "x" * 20], "cannot listen on"),
    ],
)
def test_wrong_use(
    given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no.study").write_text("this is no study at all")
    result = CliRunner().invoke(main, ["serve", *given])
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output
