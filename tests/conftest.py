"""Settings of the tests: threads of linear algebra, how long Hypothesis looks, what the garbage
collector looks at, and that nothing may be skipped in CI."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from surrogates import ABSENT

# Two test processes with a thread per core wait for each other. OpenBLAS and OpenMP read this when
# NumPy is imported, which happens later.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The tests are collected without looking for garbage: almost all that is made then stays.
gc.disable()

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

settings.register_profile(
    "default",
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def without_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports draw no plots: drawing them takes a second, and some tests only read the text."""
    monkeypatch.setattr("deepband.interfaces.report.html_report.kinds_of", lambda state: ())


def pytest_collection_finish() -> None:
    """Take what is imported by now out of the garbage collector's sight. It never becomes garbage,
    and to look at it takes a quarter of a second per collection, which some tests ask for."""
    gc.collect()
    gc.freeze()
    gc.enable()


def no_skip(report: Report) -> Report:
    """With REQUIRE_ALL=1 a skipped test is a failure, so that no missing install hides. Data that
    is not part of the project may be missing: the summary of the tests then says so."""
    if (
        os.environ.get("REQUIRE_ALL") == "1"
        and report.skipped
        and ABSENT not in report.longreprtext
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped, and REQUIRE_ALL is set: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return no_skip((yield))
