"""Several objectives and constraints: what the samplers that learn see, and what they find."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from deepband import Evaluation, Study
from deepband.analysis import export
from deepband.core.evaluations import all_evaluations
from deepband.core.facts import Config
from deepband.core.rank_order import Standing
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.samplers import SAMPLERS, Uniform
from deepband.samplers.model_based import SCALARIZATIONS as BY_SAMPLER
from deepband.samplers.observations import ENOUGH, pool
from deepband.samplers.scalarization import (
    SCALARIZATIONS,
    chebyshev,
    front_rank,
    penalised,
    scalarized,
)
from deepband.samplers.tpe import _values
from driving import finish, open_study
from sampler_cases import SPACES, evaluation, mixed

NAMES = [name for name in SAMPLERS if name != "uniform"]
TWO = {"error": "minimize", "speed": "maximize"}
LIMIT = {"memory": (None, 0.6)}
losses = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, -3.0, 1e300, -1e300])


def two(job: deepband.Job) -> dict[str, float] | Exception:
    """A trade-off over the learning rate, in a space with conditions and forbidden clauses."""
    lr, bell = math.log10(job.config["lr"]), job.config["bell"] / 10
    if lr < -4.5:
        return ValueError("x")
    return {"error": (lr + 3) ** 2 + 1 / job.budget, "speed": -((lr + 1) ** 2), "memory": bell}


def three(job: deepband.Job) -> dict[str, float]:
    return {
        name: abs(job.config["x"] - at) / job.budget
        for name, at in zip("abc", (0, 0.5, 1), strict=True)
    }


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


def seen(study: Study, name: str = "chebyshev", seed: int = 0, index: int = 0) -> list[Evaluation]:
    """What a sampler would learn from now."""
    state = study.session.state
    return list(scalarized(state, list(all_evaluations(state)), name, seed, (0, index)))


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.heavy if n == "forest" else ()) for n in NAMES]
)
class TestEverySamplerWithSeveralObjectives:
    """What holds for each of them."""

    @pytest.mark.parametrize(
        ("constraints", "extend"),
        [
            (LIMIT, Study.widen),
            pytest.param(None, Study.widen, marks=pytest.mark.heavy),
            pytest.param(LIMIT, Study.deepen, marks=pytest.mark.heavy),
            pytest.param(None, Study.deepen, marks=pytest.mark.heavy),
        ],
    )
    def test_the_same_study_for_any_order_deepened_or_widened(
        self, name: str, constraints: Any, extend: Any
    ) -> None:
        studies = []
        for order in (None, random.Random(3)):
            study = open_study(space=mixed(), sampler=name, objectives=TWO, constraints=constraints)
            finish(study, two, order)
            if extend is Study.widen:
                study.widen()
            else:
                study.deepen("preserving")
            finish(study, two, order)
            studies.append(study)
        assert canonical(studies[0]) == canonical(studies[1])
        assert len({str(config) for config in studies[0].session.state.configs[0]}) > ENOUGH

    @pytest.mark.heavy
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_three_objectives_with_every_strategy(self, name: str, strategy: StrategyName) -> None:
        studies = [
            open_study(sampler=name, objectives=dict.fromkeys("abc", "minimize")) for _ in range(2)
        ]
        for study, order in zip(studies, (None, random.Random(4)), strict=True):
            finish(study, three, order)
            study.deepen(strategy)
            finish(study, three, order)
        assert canonical(studies[0]) == canonical(studies[1])

    def test_workers_and_interrupts_change_nothing(self, name: str, tmp_path: Path) -> None:
        given = {"sampler": name, "objectives": TWO, "constraints": LIMIT, "parallel": 2}

        def train(config: Config, budget: float) -> dict[str, float]:
            return {"error": config["x"] / budget, "speed": config["x"], "memory": config["x"]}

        def allowed(config: Config, budget: float) -> bool:
            return bool(config["x"] < 0.9)

        alone = open_study(**given)
        alone.optimize(train, precheck=allowed)
        path = tmp_path / "a.study"
        with open_study(storage=path, **given) as study:
            study.optimize(train, workers=2, max_cost=20, precheck=allowed)
            assert not study.done
        with deepband.open_study(path) as study:
            study.optimize(train, workers=2, precheck=allowed)
            assert canonical(study) == canonical(alone)

    @pytest.mark.parametrize("kind", ["infeasible", "failed", "infinite", "rejected", "equal"])
    def test_hopeless_results_are_no_obstacle(self, name: str, kind: str) -> None:
        answers: dict[str, Any] = {
            "infeasible": {"error": 1.0, "speed": 1.0, "memory": 5.0},
            "failed": ValueError("x"),
            "infinite": {"error": math.inf, "speed": 1.0, "memory": 0.0},
            "equal": {"error": 1.0, "speed": 1.0, "memory": 0.0},
        }
        study = open_study(space=mixed(), sampler=name, objectives=TWO, constraints=LIMIT)
        if kind == "rejected":
            study.optimize(lambda config, budget: 0.0, precheck=lambda config, budget: False)
        else:
            finish(study, lambda job: answers[kind])
        assert study.done

    @pytest.mark.heavy
    def test_it_finds_more_than_chance(self, name: str) -> None:
        found = {
            each: np.mean([volume(each, seed) for seed in range(4)]) for each in (name, "uniform")
        }
        assert found[name] > found["uniform"]


@pytest.mark.parametrize(
    ("name", "objectives"),
    [
        ("gp", None),
        ("tpe", TWO),
        *(
            pytest.param(*each, marks=pytest.mark.heavy)
            for each in [("gp", TWO), ("tpe", None), ("forest", None), ("forest", TWO)]
        ),
    ],
)
def test_it_learns_what_is_feasible(name: str, objectives: Any) -> None:
    """More of its proposals keep the bounds than random configs do."""

    def result(job: deepband.Job) -> dict[str, float]:
        x = job.config["x"]
        found = {"error": x, "speed": -x} if objectives else {"loss": x}
        return {**found, "memory": x}

    def share(sampler: str, seed: int) -> float:
        study = open_study(
            space={"x": (0.0, 1.0)},
            sampler=sampler,
            seed=seed,
            objectives=objectives,
            constraints={"memory": (0.8, 0.9)},
        )
        finish(study, result)
        for _ in range(2):
            study.widen()
            finish(study, result)
        configs = [config for found in study.session.state.configs for config in found]
        return float(np.mean([0.8 <= config["x"] <= 0.9 for config in configs]))

    found, chance = (sum(share(each, seed) for seed in range(3)) for each in (name, "uniform"))
    assert found > 1.5 * chance


def volume(name: str, seed: int) -> float:
    space: dict[str, Any] = dict.fromkeys("xyz", (0.0, 1.0))
    study = open_study(space=space, max_budget=9, sampler=name, objectives=TWO, seed=seed)

    def result(job: deepband.Job) -> dict[str, float]:
        x, y, z = job.config.values()
        far = (y - 0.4) ** 2 + (z - 0.6) ** 2
        return {"error": x**2 + far + 0.01 / job.budget, "speed": -((x - 1) ** 2) - far}

    finish(study, result)
    for _ in range(3):
        study.widen()
        finish(study, result)
    return study.hypervolume({"error": 1.0, "speed": -1.0}, rung=2)


def test_every_sampler_that_learns_has_a_scalarization() -> None:
    assert set(BY_SAMPLER) == set(NAMES)
    assert set(BY_SAMPLER.values()) == set(SCALARIZATIONS)


def test_a_sampler_of_a_user_receives_what_was_recorded() -> None:
    received: list[Evaluation] = []

    class Curious:
        learns = True

        def draw(self, space: Any, observations: Any, bracket: int, indices: Any, seed: int,
                 pending: Any = ()) -> list[Config]:  # fmt: skip
            received.extend(observations)
            return Uniform().draw(space, (), bracket, indices, seed)

    study = open_study(space=mixed(), sampler=Curious(), objectives=TWO)
    finish(study, two)
    recorded = {(each.bracket, each.index, each.rung): each for each in study.evaluations}
    assert received
    assert all(each == recorded[each[:3]] for each in received)
    assert {each.loss for each in received} == {None}


def test_one_objective_without_constraints_is_left_alone() -> None:
    study = open_study(sampler="gp")
    finish(study, lambda job: math.inf if job.index == 1 else job.config["x"])
    state = study.session.state
    observations = list(all_evaluations(state))
    assert scalarized(state, observations, "chebyshev", 0, (0, 0)) is observations


def test_feasible_results_of_one_objective_keep_their_losses() -> None:
    study = open_study(space={"x": (0.0, 1.0)}, constraints={"m": (None, 0.5)})
    finish(study, lambda job: {"loss": job.config["x"], "m": job.config["x"] ** 2})
    for each in seen(study):
        if each.feasible:
            assert each.loss == each.config["x"]
        else:
            assert each.loss is not None
            assert each.loss > 1.0


standings = st.lists(
    st.one_of(
        st.just(Standing(None)),
        st.builds(
            Standing,
            st.tuples(st.one_of(losses, st.just(math.inf))),
            st.tuples(st.sampled_from([0.0, 0.0, 1e-9, 1.0, 7.0, math.inf])),
        ),
    ),
    max_size=12,
)


@given(standings)
def test_infeasible_results_are_worse_than_feasible_ones(found: list[Standing]) -> None:
    scalars = {n: float((e.losses or (0.0,))[0]) for n, e in enumerate(found) if e.finite}
    made = penalised(found, scalars)
    for standing, loss in zip(found, made, strict=True):
        assert (loss is None) == (standing.losses is None)
        assert loss is None or not math.isnan(loss)
        assert math.inf not in standing.violations or loss == math.inf
    by_kind: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for standing, loss in zip(found, made, strict=True):
        if loss is not None:
            by_kind[0 if standing.finite else 1 if standing.feasible else 2].append(loss)
    for better, worse in ((0, 1), (0, 2), (1, 2)):
        for one in by_kind[better]:
            assert all(one < other or other == math.inf for other in by_kind[worse])


vectors = st.integers(2, 3).flatmap(
    lambda width: st.lists(st.tuples(*[losses] * width), min_size=1, max_size=12)
)


@given(vectors, st.integers(0, 9))
def test_what_dominates_is_never_worse(found: list[tuple[float, ...]], seed: int) -> None:
    array = np.array(found)
    rungs = np.zeros(len(found), dtype=np.intp)
    for scalarization in (chebyshev, front_rank):
        made = scalarization(array, rungs, np.random.RandomState(seed))
        assert np.isfinite(made).all()
        for one, loss in zip(found, made, strict=True):
            for other, its in zip(found, made, strict=True):
                if one != other and all(a <= b for a, b in zip(one, other, strict=True)):
                    assert loss <= its
    assert sorted(made) == list(range(len(found)))  # ties are ranked, too


def test_rungs_are_scaled_by_themselves() -> None:
    """A loss that grows with the budget says nothing about configs."""
    array = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1000.0], [1.0, 500.0]])
    rungs = np.array([0, 0, 1, 1])
    made = chebyshev(array, rungs, np.random.RandomState(0))
    assert made[:2].tolist() == made[2:].tolist()


@given(st.integers(0, 2**32), st.integers(0, 100))
@settings(max_examples=10)
def test_a_function_of_the_seed_and_the_place(seed: int, index: int) -> None:
    study = open_study(space=mixed(), objectives=TWO)
    finish(study, two)
    for name in SCALARIZATIONS:
        assert seen(study, name, seed, index) == seen(study, name, seed, index)
        assert seen(study, name, seed, index) != seen(study, name, seed, index + 1)


def test_vectors_are_minimised_and_only_those_of_feasible_finite_results() -> None:
    study = open_study(space=mixed(), objectives=TWO, constraints=LIMIT)
    finish(study, two)
    for each in seen(study):
        assert bool(each.objectives) == (each.feasible and each.loss is not None)
        assert all(0.0 <= loss <= 1.0 for loss in each.objectives.values())
    on_rung = [each for each in seen(study) if each.rung == 0 and each.objectives]
    fastest = min(on_rung, key=lambda each: each.objectives["speed"])
    recorded = [each for each in study.evaluations if each.rung == 0 and each.feasible]
    assert fastest.index == max(recorded, key=lambda each: each.objectives["speed"]).index


def observed(kinds: Sequence[str]) -> list[Evaluation]:
    """Evaluations on rungs 2 and 1, by kind: feasible, infeasible or failed."""
    configs = Uniform().draw(SPACES["plain"], (), 0, range(len(kinds)), 0)
    made = []
    for index, kind in enumerate(kinds):
        loss = None if kind == "failed" else float(index)
        both = {"a": 0.5, "b": 0.5} if kind == "feasible" else {}
        each = evaluation(index, 2 - index % 2, configs[index], loss)
        made.append(each._replace(feasible=kind == "feasible", objectives=both))
    return made


def test_infeasible_results_rank_after_feasible_ones_of_all_rungs() -> None:
    kinds = ["infeasible", "failed", "infeasible", *["feasible"] * ENOUGH]
    order = [each.index for each in pool(observed(kinds))]
    assert sorted(order[:ENOUGH]) == list(range(3, 3 + ENOUGH))
    assert order[ENOUGH:] == [0, 2, 1]
    values = _values(pool(observed(kinds)))
    assert {len(each) for each in values} == {2}
    for better in values[:ENOUGH]:
        assert all(max(better) < min(worse) for worse in values[ENOUGH:])


def test_without_infeasible_results_failures_stay_on_their_rungs() -> None:
    kinds = ["failed", *["feasible"] * ENOUGH]
    order = [each.index for each in pool(observed(kinds))]
    assert order.index(0) < order.index(1)
    assert len(order) == ENOUGH + 1
