"""Everything that runs or keeps the work of a study, with a width, few brackets and runs that were
extended before they were finished."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Context, InputError, Study
from deepband.analysis.export import canonical
from deepband.core import hyperband
from deepband.core.schedule import Schedule
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.storage.retention import read_keep, retraining_cost, superfluous
from deepband.study.forecast import forecast
from driving import SPACE, extended, finish, key, noisy, open_study


def train(config: dict[str, Any], budget: int, context: Context) -> float:
    (context.path / "state").write_text(str(budget))
    return float(config["x"]) + 1 / budget


def extend_unfinished(study: Study, workers: int) -> None:
    """Stop in the middle of each run, and extend it."""
    targets: list[tuple[StrategyName, dict[str, Any]]] = [
        ("efficient", {"width": 2}),
        ("discarding", {"max_budget": 27, "brackets": 2}),
    ]
    for strategy, target in targets:
        study.optimize(train, max_cost=12, workers=workers)
        assert not study.done
        study.extend(strategy, **target, unfinished=True)
    study.optimize(train, workers=workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_discarding_ends_as_a_fresh_run_with_any_workers(tmp_path: Path, workers: int) -> None:
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9, brackets=1) as study:
        extend_unfinished(study, workers)
        assert study.done
        arrived = study.session.state.run.arrived
    fresh = deepband.open_study(space=SPACE, max_budget=27, width=2, brackets=2)
    fresh.optimize(lambda config, budget: config["x"] + 1 / budget)
    assert fresh.session.state.run.arrived == arrived
    again = deepband.open_study(tmp_path / "a.study")
    assert again.session.state.run.arrived == arrived
    assert [run.done for run in again.runs] == [False, False, True]


@pytest.mark.parametrize("workers", [1, 4])
def test_a_simulated_run_is_that_of_one_worker(workers: int) -> None:
    def run(count: int) -> list[str]:
        study = open_study(width=2, brackets=2)
        for width in (2, 3):
            study.extend("efficient", width=width)
            study.optimize(
                lambda config, budget: config["x"],
                executor=SimulatedExecutor(count, lambda job: job.budget * 1.0),
            )
        return list(canonical(study.session.state))

    assert run(workers) == run(2)


def test_forecasts_of_a_wide_study_with_few_brackets() -> None:
    study = open_study(width=2, brackets=1)
    study.tell_all([(job, noisy(0)(job)) for job in study.ask_all()[:5]])
    found = {each.run: each for each in forecast(study, 4, 1.0)}
    assert found["the current run"].jobs == 18 + 6 + 2 - 5
    assert found["widening 'efficient'"].jobs == 9 + 3 + 1
    deeper = Schedule.of(3, 1, 27, width=2, brackets=1)
    assert found["deepening 'efficient'"].jobs == deeper.evaluations - 26
    assert len(study.runs) == 1


def test_a_forecast_after_an_unfinished_extension_counts_what_is_left() -> None:
    study = open_study()
    jobs = study.ask_all()
    study.tell_all([(job, noisy(0)(job)) for job in jobs[:5]])
    study.widen(unfinished=True)
    (left, *others) = forecast(study, 2, 1.0)
    assert left.jobs == study.plan().evaluations - 5
    assert others


@pytest.mark.parametrize(
    ("strategy", "brackets"),
    [
        pytest.param(strategy, brackets, marks=() if number % 3 == other else pytest.mark.heavy)
        for number, strategy in enumerate(STRATEGIES)
        for other, brackets in enumerate([1, 2, None])
    ],
)
def test_what_an_extension_trains_again_is_bounded(
    strategy: StrategyName, brackets: int | None, tmp_path: Path
) -> None:
    place = tmp_path / "a.study"
    with deepband.open_study(
        place, space=SPACE, max_budget=9, width=2, brackets=brackets, keep="none"
    ) as study:
        study.optimize(train)
        quoted = study.quote(strategy, width=3)
        assert quoted.retraining > 0
        study.widen(strategy, to=3)
        study.optimize(train)
        run = study.runs[-1]
        again = run.trained - run.cost_resumed
        assert 0 <= again <= quoted.retraining
        if brackets == 1:
            quoted = study.quote(strategy, brackets=2)
            study.extend(strategy, brackets=2)
            study.optimize(train)
            assert study.runs[-1].trained - study.runs[-1].cost_resumed <= quoted.retraining
        reached = study.quote(strategy, width=2)
        assert reached.retraining == reached.cost.high == 0


def test_checkpoints_that_an_unfinished_extension_may_need_are_kept(tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9, width=2) as study:
        study.optimize(train, max_cost=40)
        study.extend("efficient", max_budget=27, unfinished=True)
        stored = list(study.session.checkpoints.kept())
        assert superfluous(study.session.state, read_keep("none"), stored) == [
            key for key in stored if not hyperband_competes(study, key)
        ]
        study.optimize(train)
        assert retraining_cost(
            study.session.state, set(study.session.checkpoints.kept())
        ) == Fraction(0)
        run = study.runs[-1]
        assert run.trained == run.cost_resumed  # nothing was trained again


def hyperband_competes(study: Study, key: tuple[int, int, int]) -> bool:
    """Whether a checkpoint is the newest of a config that the run may promote."""
    state = study.session.state
    bracket, index, rung = key
    open_rung = state.progress[bracket].rung
    newest = max(r for (b, r), found in state.results.items() if b == bracket and index in found)
    return rung == newest and index in state.run.arrived[bracket, open_rung]


def test_results_from_elsewhere_take_the_places_of_a_wider_study() -> None:
    study, draw = open_study(width=2, brackets=1), random.Random(0)
    for number in range(Schedule.of(3, 1, 27, width=2, brackets=1).start_size(0)):
        assert study.add_evaluation({"x": draw.random()}, 1, draw.random()) == (0, number, 0)
    with pytest.raises(InputError, match="has no place left"):
        study.add_evaluation({"x": 0.5}, 1, 0.5)
    with pytest.raises(InputError, match="limited to the first 1, and none of them starts on"):
        study.add_evaluation({"x": 0.5}, 3, 0.5)
    ahead = len(study.session.state.ahead.results)
    assert ahead == 54 - 18
    finish(study, noisy(0))
    study.widen()
    assert len(study.session.state.ahead.results) == ahead - 9
    study.extend("efficient", brackets=2, unfinished=True)
    assert study.add_evaluation({"x": 0.25}, 3, 0.5)[0] == 1
    finish(study, noisy(0))
    assert sum(run.added for run in study.runs) == 18 + 9 + 1


def test_a_late_job_that_still_runs_somewhere_is_reserved_and_released(tmp_path: Path) -> None:
    """As a driver does with the workers of one that died before the study was extended."""
    place = tmp_path / "a.study"
    with deepband.open_study(place, space=SPACE, max_budget=9) as study:
        study.tell_all([(job, noisy(0)(job)) for job in study.ask_all()])
        running = study.ask_all()
        study.extend("discarding", width=2, unfinished=True)
    assert {job.rung for job in running} == {1, 2}
    with deepband.open_study(place) as study:
        reserved = study.session.reserve(map(key, running))
        assert reserved == running
        assert study.session.reserve(map(key, running)) == []
        study.tell(running[0], 0.5)
        for job in running[1:]:
            study.release(job)
        before = len(study.evaluations)
        jobs = finish(study, noisy(0))
        assert len(study.evaluations) == before + len(jobs)
        assert key(running[0]) not in map(key, jobs)


def test_work_ahead_of_a_study_with_few_brackets() -> None:
    study = extended()
    jobs = study.session.reserve(list(hyperband.jobs_ahead(study.session.state)))
    assert {job.bracket for job in jobs} == {0, 1}
    study.tell_all([(job, noisy(1)(job)) for job in jobs])
    study.deepen("efficient")
    finish(study, noisy(1))
    assert not study.session.state.ahead.results
