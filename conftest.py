"""The number of threads, Ctrl-C, and the examples in docstrings: each has `deepband` and a finished
`study` of its own."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import deepband

# Several test processes share the cores, so threads of linear algebra would wait for each other.
# This must be set before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell lets what it starts in the background ignore Ctrl-C, and so would every process that the
# tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def study_for_examples(request: pytest.FixtureRequest) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
        study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
        study.optimize(lambda config, budget: config["x"] + 1 / budget)
        namespace: dict[str, Any] = request.getfixturevalue("doctest_namespace")
        namespace.update(study=study, deepband=deepband)
