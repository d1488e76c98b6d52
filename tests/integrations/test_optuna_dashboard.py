"""A real optuna-dashboard shows an exported study."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from deepband.integrations.optuna import export
from driving import finish, noisy, open_study, wait_until
from spaces import conditional_space

pytestmark = pytest.mark.heavy

RUN = "import sys; from optuna_dashboard._cli import main; sys.exit(main())"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Dashboard:
    """A dashboard that runs, and what its JSON API answers."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == 200, text
            return json.loads(text, parse_constant=no_constant)
        finally:
            connection.close()

    def answers(self) -> bool:
        try:
            return bool(self.ask("/api/meta"))
        except ConnectionRefusedError:
            return False


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON, and no browser reads it")


@contextmanager
def dashboard(url: str, log: Path) -> Iterator[Dashboard]:
    shown = Dashboard(free_port())
    command = [sys.executable, "-c", RUN, url, "--port", str(shown.port), "--server", "wsgiref"]
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output) as process,
    ):
        try:
            wait_until(lambda: process.poll() is not None or shown.answers())
            assert process.poll() is None, log.read_text()
            yield shown
        finally:
            process.terminate()


def test_the_dashboard_shows_our_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    study = open_study(space=conditional_space(), max_budget=9)
    finish(study, noisy(1, 0.3))
    export(study, url, "mine")
    with dashboard(url, tmp_path / "log") as shown:
        check(shown, study)
        study.deepen("preserving")
        finish(study, noisy(1, 0.3))
        export(study, url, "mine")
        check(shown, study)


def check(shown: Dashboard, study: Any) -> None:
    """The dashboard shows the same as the study."""
    last = {(each.bracket, each.index): each for each in study.evaluations}
    (summary,) = shown.ask("/api/studies")["study_summaries"]
    assert summary["study_name"] == "mine"
    path = f"/api/studies/{summary['study_id']}"
    wait_until(lambda: len(shown.ask(path)["trials"]) == len(last))  # it looks every few seconds
    detail = shown.ask(path)
    attributes = {each["key"]: each["value"] for each in detail["user_attrs"]}
    assert attributes["deepband"] == study.session.state.created.study
    for trial in detail["trials"]:
        noted = {each["key"]: each["value"] for each in trial["user_attrs"]}
        each = last.pop((int(noted["bracket"]), int(noted["index"])))
        assert trial["state"] == wanted_state(study, each)
        assert [step["step"] for step in trial["intermediate_values"]][-1] == each.budget
        assert {param["name"] for param in trial["params"]} == set(each.config)
        if each.value is not None and math.isfinite(each.value):
            assert trial["values"] == [each.value]


def wanted_state(study: Any, each: Any) -> str:
    if each.loss is None:
        return "Fail"
    return "Complete" if each.rung == study.session.state.schedule.top else "Pruned"
