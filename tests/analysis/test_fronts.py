"""The rows of fronts and hypervolumes, against what the study itself says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import Evaluation, InputError, UnknownNameError
from deepband.analysis.export import cells, jsonl, table
from deepband.analysis.feasibility import feasibility_notes, verdict
from deepband.analysis.fronts import Archive, front_chart, volume_chart
from deepband.analysis.importance import importance
from deepband.analysis.key_figures import key_figures
from deepband.analysis.measures import curves, measure
from deepband.analysis.status import status_of
from deepband.core.rank_order import non_dominated
from driving import deepened, finish, open_study
from trade_off import FAILING, SLOW, THREE, TWO, evaluate, finished

VECTORS = st.lists(st.tuples(*[st.integers(0, 4).map(float)] * 3), max_size=30)


def points(found: list[Evaluation], *names: str) -> tuple[tuple[float, ...], ...]:
    return tuple(sorted(tuple(each.objectives[name] for name in names) for each in found))


@given(VECTORS)
def test_an_archive_holds_what_no_vector_dominates(vectors: list[tuple[float, ...]]) -> None:
    archive = Archive()
    for count, vector in enumerate(vectors, 1):
        kept = archive.add(vector)
        front = sorted(vectors[place] for place in non_dominated(vectors[:count]))
        assert sorted(archive.vectors) == front
        assert kept == (vector in front)
        assert len(archive) == len(front)


def test_the_front_after_each_run_and_on_each_rung() -> None:
    study = finished()
    first = points(study.front(), "error", "speed")
    study.deepen("preserving")
    finish(study, evaluate)
    found = front_chart(study.session.state)
    assert found.objectives == ("error", "speed")
    assert found.directions == ("minimize", "maximize")
    assert not found.projected
    assert [row.name for row in found.rows] == [
        "run 0, max_budget 9",
        "run 1, max_budget 27, preserving",
    ]
    assert found.rows[0].points == first
    assert found.rows[1].points == points(study.front(), "error", "speed")
    assert found.infeasible == ()
    by_rung = front_chart(study.session.state, "rung")
    for rung, row in enumerate(by_rung.rows):
        assert row.points == points(study.front(rung), "error", "speed")
        assert row.name == f"rung {rung}, budget {3**rung}"
    good = [each for each in study.evaluations if each.index not in (FAILING, SLOW)]
    drawn = {point for row in found.rows for point in row.points}
    assert len(found.others) == len(good) - len(drawn)


def test_infeasible_evaluations_are_apart() -> None:
    study = finished(TWO, {"memory_mb": (None, 500)})
    found = front_chart(study.session.state)
    infeasible = [each for each in study.evaluations if each.error is None and not each.feasible]
    finite = [each for each in infeasible if math.isfinite(each.objectives["error"])]
    assert found.infeasible == points(finite, "error", "speed")
    assert feasibility_notes(study.session.state) == [f"{len(infeasible)} infeasible"]


def test_two_of_three_objectives_are_chosen() -> None:
    study = finished(THREE)
    found = front_chart(study.session.state, objectives=["size", "error"])
    assert found.objectives == ("size", "error")
    assert found.projected
    assert found.rows[0].points == points(study.front(), "size", "error")


def test_wrong_choices_of_a_front_are_refused() -> None:
    state = finished(THREE).session.state
    for pair in (["error"], ["error", "error"], "error", 3, ["error", "speed", "size"]):
        with pytest.raises(InputError, match="give the names of two"):
            front_chart(state, objectives=pair)  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(
        UnknownNameError, match=r"there is no objective 'sise'.*Did you mean 'size'"
    ):
        front_chart(state, objectives=["error", "sise"])
    with pytest.raises(UnknownNameError, match="choose from 'run', 'rung'"):
        front_chart(state, "bracket")
    with pytest.raises(InputError, match=r"a front needs two objectives.*`incumbent`"):
        front_chart(open_study().session.state)


@pytest.mark.parametrize("objectives", [TWO, THREE])
def test_the_hypervolume_grows_to_that_of_the_front(objectives: dict[str, str]) -> None:
    study = finished(objectives)
    before = study.hypervolume()
    study.deepen("preserving")
    finish(study, evaluate)
    found = volume_chart(study.session.state)
    assert found.reference == study.reference()
    volumes = [step.volume for step in found.steps]
    assert volumes == sorted(volumes)
    assert volumes[-1] == pytest.approx(study.hypervolume())
    of_first = [step.volume for step in found.steps if step.result.run == 0]
    assert of_first[-1] == pytest.approx(before)
    assert [each.target for each in found.extensions] == ["to 27"]
    assert found.spent == sum(run.cost for run in study.runs)


def test_a_study_without_results_has_no_hypervolume() -> None:
    state = open_study(objectives=TWO).session.state
    found = volume_chart(state)
    assert (found.steps, found.spent, found.reference) == ((), 0, {})
    assert [row.points for row in front_chart(state).rows] == [()]


def test_tables_have_a_column_for_each_objective() -> None:
    study = finished(TWO, {"memory_mb": (None, 500)})
    header, rows = cells(study.session.state)
    place = {name: header.index(name) for name in ("objectives.error", "objectives.speed")}
    assert header[: header.index("feasible")][-1] == "resumed_from"
    for row, each in zip(rows, study.evaluations, strict=True):
        assert row[header.index("feasible")] == each.feasible
        assert row[header.index("loss")] is None
        for name, column in place.items():
            assert row[column] == each.objectives.get(name.removeprefix("objectives."))
    assert next(iter(table(study.session.state))).count("objectives.") == 2


def test_a_single_objective_has_no_further_columns_and_fields() -> None:
    study = deepened([])
    header, _ = cells(study.session.state)
    assert not any(name == "feasible" or name.startswith("objectives") for name in header)
    assert not any(
        "feasible" in line or "objectives" in line for line in jsonl(study.session.state)
    )


def test_frames_have_numbers_and_truth_values() -> None:
    study = finished(TWO, {"memory_mb": (None, 500)})
    frame = study.to_pandas()
    assert str(frame.dtypes["objectives.error"]) == "float64"
    assert str(frame.dtypes["feasible"]) == "bool"
    schema = study.to_polars().schema
    assert (str(schema["objectives.speed"]), str(schema["feasible"])) == ("Float64", "Boolean")


def test_key_figures_are_the_front_and_its_hypervolume() -> None:
    study = finished()
    state = study.session.state
    figures = {each.key: each for each in key_figures(state, status_of(state))}
    assert "best" not in figures
    assert figures["front"].value == f"{len(study.front())} evaluations"
    assert figures["front"].detail == "that no other one dominates in error, speed"
    assert figures["hypervolume"].value == f"{study.hypervolume():.6g}"
    failed = sum(each.error is not None for each in study.evaluations)
    assert figures["evaluations"].detail == f"{failed} failed"


def test_key_figures_say_that_nothing_is_feasible() -> None:
    for objectives in (TWO, {"speed": "maximize"}):
        state = finished(objectives, {"memory_mb": (None, -1)}).session.state
        figures = {each.key: each for each in key_figures(state, status_of(state))}
        leading = figures.get("front") or figures["best"]
        assert leading.detail == "no evaluation is feasible and has a finite result yet"
        assert "hypervolume" not in figures


def test_measures_are_objectives() -> None:
    study = finished()
    state = study.session.state
    assert measure(state).name == "error (smaller is better)"
    assert measure(state, "speed").name == "speed (larger is better)"
    assert measure(state, "memory_mb").name == "memory_mb"
    assert measure(state, "speed").larger_is_better
    assert all(row.points for row in curves(measure(state)) if row.index not in (FAILING, SLOW))
    assert importance(state, 0, "speed").shares["x"] > 0.5
    with pytest.raises(UnknownNameError, match="'error', 'speed'"):
        measure(state, "speeed")


def test_a_rejected_config_is_not_infeasible() -> None:
    study = open_study(objectives=TWO)
    study.optimize(
        lambda config, budget: {"error": 1 - config["x"], "speed": budget},
        precheck=lambda config, budget: config["x"] < 0.5,
        progress=False,
    )
    state = study.session.state
    rejected = [each for each in state.all_results() if verdict(state, each) == "rejected"]
    assert rejected
    assert feasibility_notes(state) == [f"{len(rejected)} rejected"]
    assert all(state.config(each.bracket, each.index)["x"] >= 0.5 for each in rejected)
