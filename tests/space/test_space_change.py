"""Changing the search space while a study is extended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ConfigSpace import ConfigurationSpace, EqualsCondition, Float

import deepband
from deepband import InputError, LockedError, SpaceError, Study, UnfinishedError
from deepband.analysis.chart_data import axes
from deepband.analysis.export import canonical, jsonl
from deepband.core.facts import Fact, RunStarted
from deepband.core.state import State
from deepband.interfaces.dashboard.overview import overview
from deepband.interfaces.report.html_report import make_report
from deepband.samplers import SamplerName
from deepband.space.search_space import Space
from deepband.space.space_change import combined
from deepband.study.observers import history
from driving import finish, key, noisy

OLD: dict[str, Any] = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 4), "kind": ["a", "b"], "seed": 7}
WIDER: dict[str, Any] = {**OLD, "lr": (1e-6, 1e-3, "log"), "kind": ["b", "c"], "layers": 4}


def finished(storage: Path | None = None, **settings: Any) -> Study:
    study = deepband.open_study(storage, space=OLD, max_budget=9, **settings)
    finish(study, noisy(0))
    return study


def sampled(study: Study, run: int) -> list[dict[str, Any]]:
    """The configs that a run sampled."""
    return [
        each.config for each in study.evaluations if each.run == run and each.rung == each.bracket
    ]


def test_existing_configs_stay_and_new_ones_come_from_the_new_space() -> None:
    study = finished()
    before = {(each.bracket, each.index): each.config for each in study.evaluations}
    study.widen(space=WIDER)
    finish(study, noisy(0))
    assert (
        before.items()
        <= {(each.bracket, each.index): each.config for each in study.evaluations}.items()
    )
    assert len(sampled(study, 1)) == 17
    for config in sampled(study, 1):
        assert 1e-6 <= config["lr"] <= 1e-3
        assert config["kind"] in ("b", "c")
        assert (config["layers"], config["seed"]) == (4, 7)
    assert study.runs[1].space_changes == (
        "kind was ['a', 'b'], is ['b', 'c']",
        "layers was (1, 4), is 4",
        "lr was (0.0001, 0.1, log), is (1e-06, 0.001, log)",
    )
    assert study.runs[0].space_changes == ()


def test_jobs_carry_added_values_and_the_file_keeps_configs_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    new = {**OLD, "momentum": (0.0, 0.99)}
    with finished(path) as study:
        study.deepen("preserving", space=new, added={"momentum": 0.9})
        jobs = finish(study, noisy(0))
        old = [job for job in jobs if not study.session.state.is_ahead(job.bracket, job.index)]
        assert all("momentum" in job.config for job in jobs)
        promoted = [job for job in old if job.rung > job.bracket and job.config["momentum"] == 0.9]
        assert promoted
        assert all("momentum" not in config for config in study.session.state.configs[0][:9])
        assert study.evaluations[0].config["momentum"] == 0.9
        lines = list(canonical(study.session.state))
        assert "momentum was added: (0, 0.99); 0.9 in existing configs" in str(study.runs[1])
    for space in (None, OLD, new):
        with deepband.open_study(path, space=space) as again:
            assert list(canonical(again.session.state)) == lines
            assert again.enqueue(jobs[-1].config)
            again.session.storage.close()
    with pytest.raises(InputError, match=r"has another space.*give the new one to `widen`"):
        deepband.open_study(path, space={**OLD, "lr": (0.1, 0.2)})


def test_a_study_with_a_changed_space_is_the_same_for_any_interruption(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    straight = finished()
    straight.widen(space=WIDER)
    finish(straight, noisy(0))
    finished(path).close()
    with deepband.open_study(path) as study:
        study.widen(space=WIDER)
        study.tell_all([(job, noisy(0)(job)) for job in study.ask_all()[:5]])
    with deepband.open_study(path) as study:
        while job := study.ask():
            study.tell(job, noisy(0)(job))
        assert list(canonical(study.session.state)) == list(canonical(straight.session.state))
        folded = State(history(study.session.state))
        assert folded.changes == study.session.state.changes
        assert list(canonical(folded)) == list(canonical(study.session.state))


def test_what_was_sampled_ahead_keeps_the_old_space() -> None:
    study = finished()
    (job,) = study.session.reserve([(0, 9, 0)])
    study.tell(job, noisy(0)(job))
    drawn = [len(configs) for configs in study.session.state.configs]
    assert drawn[0] > 9
    study.deepen("efficient", space=WIDER)
    (change,) = study.session.state.changes
    assert change.firsts == tuple(drawn)
    finish(study, noisy(0))
    for index, config in enumerate(study.session.state.configs[0]):
        assert (config["layers"] == 4 and config["kind"] in ("b", "c")) or index < drawn[0]


def test_a_script_that_is_run_again_does_nothing() -> None:
    study = finished()
    for _ in range(2):
        study.widen(to=2, space=WIDER)
        finish(study, noisy(0))
        study.widen(to=3, space={**WIDER, "seed": (1, 9)})
        finish(study, noisy(0))
    assert len(study.runs) == 3
    assert len(study.session.state.changes) == 2
    with pytest.raises(InputError, match="extend it further"):
        study.widen(to=3, space=OLD | {"seed": 8})


@pytest.mark.parametrize("sampler", ["tpe", "forest", "gp", "prior"])
def test_samplers_that_learn_use_the_configs_that_fit(sampler: SamplerName) -> None:
    study = finished(sampler=sampler)
    study.widen(space=WIDER)
    finish(study, noisy(0))
    assert all(study.session.space.has(config) for config in sampled(study, 1))
    session, virtual = study.session, study.session.virtual
    assert virtual is not None
    seen = session.source._observations(session.state, virtual, len(virtual.ended))
    assert 0 < len(seen) < len(study.evaluations)
    assert all(study.session.space.has(each.config) for each in seen)


def conditional(**more: Any) -> ConfigurationSpace:
    space = Space(OLD | more).configspace
    extra = Float("momentum", (0.0, 1.0))
    space.add(extra, EqualsCondition(extra, space["kind"], "a"))
    return space


@pytest.mark.parametrize(
    ("space", "added", "message"),
    [
        ({"lr": (1e-4, 1e-1, "log")}, None, "has no parameter 'kind'.*fix it to a value"),
        ({**OLD, "lr": (1, 3)}, None, "was a range of floats and is a range of integers"),
        ({**OLD, "layers": [1, 2]}, None, "was a range of integers and is a list of choices"),
        ({**OLD, "new": (0.0, 1.0)}, None, "'new' is new: say which value.*added="),
        ({**OLD, "new": (0.0, 1.0)}, {"new": 2.0}, r"added\['new'\] is 2.0, which the new space"),
        ({**OLD, "new": ["x"]}, {"new": "y"}, r"added\['new'\] is 'y'"),
        ({**OLD, "new": ["x"]}, {"new": "x", "lr": 0.1}, "'lr', which is not a new parameter"),
        (conditional(), {"momentum": 0.5}, "'momentum' is new and depends on others"),
        ({**OLD, "layers": "many"}, None, "was a range of integers and is the constant 'many'"),
        ({**OLD, "layers": 1.5}, None, "was a range of integers and is the constant 1.5"),
        ({**OLD, "lr": None}, None, "was a range of floats and is the constant None"),
        ({**OLD, "new": ["x"]}, 5, "added is 5: give a dict"),
        (None, {"lr": 0.5}, "added belongs to a new space"),
        ({}, None, "no parameters"),
        (3, None, "is not a space"),
    ],
)
def test_what_cannot_be_mapped_is_refused(space: Any, added: Any, message: str) -> None:
    study = finished()
    with pytest.raises(InputError, match=message):
        study.widen(space=space, added=added)
    assert len(study.runs) == 1
    assert not study.session.state.changes


def test_the_run_must_be_finished_and_sample_something() -> None:
    study = deepband.open_study(space=OLD, max_budget=9)
    with pytest.raises(UnfinishedError, match="cannot change the space"):
        study.widen(space=WIDER, unfinished=True)
    finish(study, noisy(0))
    with pytest.raises(InputError, match="frugal run samples nothing"):
        study.deepen("frugal", space=WIDER)
    with pytest.raises(InputError, match="give what to extend"):
        study.extend(space=WIDER)
    study.widen(space=OLD)
    assert not study.session.state.changes


def test_choices_that_a_file_cannot_store_are_refused(tmp_path: Path) -> None:
    with finished(tmp_path / "a.study") as study, pytest.raises(SpaceError, match="cannot store"):
        study.widen(space={**OLD, "kind": ["a", "b", print]})
    study = finished()
    study.widen(space={**OLD, "kind": ["a", "b", print]})
    finish(study, noisy(0))
    assert any(config["kind"] is print for config in sampled(study, 1))


@pytest.mark.usefixtures("without_images")
def test_observers_explanations_and_axes_show_the_change() -> None:
    study, facts = finished(), list[Fact]()

    class Recorder:
        def observe(self, news: Any) -> None:
            facts.extend(news)

    study.observe(Recorder())
    study.widen(space={**WIDER, "extra": ["on", "off"]}, added={"extra": "off"})
    finish(study, noisy(0))
    (started,) = [each for each in facts if isinstance(each, RunStarted) and each.run]
    assert started.change is not None
    assert started.change.added == {"extra": "off"}
    shown = "widened by efficient to width 2, with another space"
    report = make_report(study)
    assert shown in report
    assert "The search space changed in run 1: <bdi>extra was added" in report
    assert "1e-06 to 0.001, log" in report  # the current range, not the union
    assert overview(study.session.state, frozenset())["runs"][1]["how"] == shown
    verdicts = [str(each) for each in study.explain(0, 0)]
    assert any(text.startswith("run 1 (efficient, width 2, new space)") for text in verdicts)
    found = {axis.name: axis for axis in axes(study.session.state)}
    assert (found["lr"].low, found["lr"].high) == (1e-6, 1e-1)
    assert found["kind"].choices == ("a", "b", "c")
    assert (found["layers"].low, found["layers"].high) == (1.0, 4.0)
    for each in study.evaluations:
        for name, value in each.config.items():
            place = found[name].position(value)
            assert place is not None
            assert 0 <= place <= 1


def test_exports_say_which_space_a_config_was_sampled_from() -> None:
    study = finished()
    assert "space" not in study.to_pandas()
    study.widen(space=WIDER)
    finish(study, noisy(0))
    frame = study.to_pandas()
    assert set(frame[frame.run == 0].space) == {0}
    assert set(frame[(frame.run == 1) & (frame.rung == frame.bracket)].space) == {1}
    lines = [json.loads(line) for line in jsonl(study.session.state)]
    assert [line["space"] for line in lines] == list(frame.space)


def test_a_study_that_is_locked_is_not_extended(tmp_path: Path) -> None:
    with finished(tmp_path / "a.study"):
        other = deepband.open_study(tmp_path / "a.study")
        with pytest.raises(LockedError):
            other.widen(space=WIDER)
        assert len(other.runs) == 1


def test_a_parameter_does_not_come_back_with_another_type() -> None:
    study = finished()
    study.widen(space={**OLD, "layers": 2})
    finish(study, noisy(0))
    with pytest.raises(SpaceError, match="was a range of integers and is a list of choices"):
        study.widen(space={**OLD, "layers": ["a", "b"]})


def test_a_range_that_becomes_logarithmic_is_still_drawn() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0), "y": (0.0, 1.0)}, max_budget=9)
    finish(study, noisy(0))
    study.widen(space={"x": (1e-3, 1.0, "log"), "y": (0.0, 1.0)})
    finish(study, noisy(0))
    places = [axes(study.session.state)[0].position(e.config["x"]) for e in study.evaluations]
    assert all(place is not None and 0 <= place <= 1 for place in places)
    assert Space.described(combined(study.session.state)).has({"x": 0.0, "y": 0.5})


def test_conditions_may_stay() -> None:
    study = deepband.open_study(space=conditional(), max_budget=9)
    finish(study, noisy(0))
    new = conditional(width=[32, 64])
    study.deepen("efficient", space=new, added={"width": 64})
    jobs = finish(study, noisy(0))
    assert {job.config["width"] for job in jobs} == {32, 64}
    assert len({key(job) for job in jobs}) == len(jobs)


def test_a_study_with_a_changed_space_is_exported_to_optuna() -> None:
    optuna = pytest.importorskip("optuna")
    from deepband.integrations.optuna import export

    study = finished()
    study.widen(space=WIDER)
    finish(study, noisy(0))
    exported = export(study, optuna.storages.InMemoryStorage())
    configs = {(each.bracket, each.index): each.config for each in study.evaluations}
    assert len(exported.trials) == len(configs)
