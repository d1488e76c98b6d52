"""What a study has spent: the same number on every interface, also with imported results."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import deepband
from deepband import Study
from deepband.analysis import chart_data
from deepband.analysis.run_names import name_of
from deepband.analysis.status import status_of
from deepband.core.exact_numbers import as_number
from deepband.interfaces.cli import main
from deepband.interfaces.dashboard.overview import overview
from driving import SPACE, finish, noisy, open_study


def import_all(study: Study) -> None:
    """Add a result for every slot of the starting rungs: nothing is left to pay there."""
    plan = study.plan()
    draw = random.Random(1)
    for bracket in plan.schedule.brackets:
        for _ in range(plan.sizes(bracket)[0]):
            study.add_evaluation({"x": draw.random()}, plan.budgets[bracket], draw.random())


def import_every_result(study: Study) -> None:
    """Add a whole run of another study, on all rungs."""
    other = open_study()
    finish(other, noisy(3))
    ways: dict[tuple[int, int], list[deepband.Evaluation]] = {}
    for each in other.evaluations:
        ways.setdefault((each.bracket, each.index), []).append(each)
    for (bracket, _), way in ways.items():
        results = [(each.budget, each.loss) for each in way]
        study.add_evaluations(way[0].config, results, place=(bracket, way[0].index))


def import_some(study: Study) -> None:
    import_all(study)
    finish(study, noisy(1, failures=0.2))


def import_and_deepen(study: Study) -> None:
    import_some(study)
    study.deepen("preserving")
    study.add_evaluation({"x": 0.5}, study.max_budget, 0.1)
    finish(study, noisy(1))


def import_ahead(study: Study) -> None:
    """Results for the next run, one of them imported."""
    finish(study, noisy(1))
    study.add_evaluation({"x": 0.5}, 1, 0.1)


def deepen_frugally(study: Study) -> None:
    import_some(study)
    study.deepen("frugal")
    finish(study, noisy(2))


CASES: list[Callable[[Study], None]] = [
    lambda study: None,
    import_all,
    import_every_result,
    import_some,
    import_and_deepen,
    import_ahead,
    deepen_frugally,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_every_interface_counts_what_is_spent_alike(
    case: Callable[[Study], None], tmp_path: Path
) -> None:
    path = tmp_path / "a.study"
    with deepband.open_study(path, space=SPACE, max_budget=9) as study:
        case(study)
        paid = [each for each in study.evaluations if each.origin is None]
        spent = sum(each.budget for each in paid)
        now = sum(each.budget for each in paid if each.run == study.runs[-1].run)
        page = overview(study.session.state, frozenset())
        assert status_of(study.session.state).spent == now
        assert page["status"]["spent"] == now
        assert study.runs[-1].cost == now
        assert sum(run.cost for run in study.runs) == spent
        assert (
            page["incumbent"]["spent"] == chart_data.incumbent(study.session.state).spent == spent
        )
        if study.done:
            assert study.quote("preserving").cost.spent == spent
            assert {each.cost.spent for each in study.advice().quotes} == {spent}
    shown = CliRunner().invoke(main, ["status", str(path), "--json"])
    assert json.loads(shown.stdout)["status"]["spent"] == now


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_page_and_the_status_say_the_same(case: Callable[[Study], None]) -> None:
    study = open_study()
    case(study)
    status, page = (
        status_of(study.session.state),
        overview(study.session.state, frozenset())["status"],
    )
    assert page == {
        "run": status.run,
        "name": name_of(study.session.state.run),
        "done": status.done,
        "end": status.end,
        "evaluations": status.evaluations,
        "failed": status.failed,
        "open": status.open,
        "running": status.running,
        "ahead": status.ahead,
        "spent": as_number(status.spent),
        "left": as_number(status.left),
    }
