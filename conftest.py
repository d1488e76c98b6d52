"""The examples in docstrings: each has `deepband` and a finished `study` of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deepband


@pytest.fixture(autouse=True)
def study_for_examples(
    request: pytest.FixtureRequest,
    doctest_namespace: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path)
        study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
        study.optimize(lambda config, budget: config["x"] + 1 / budget)
        doctest_namespace.update(study=study, deepband=deepband)
