"""Every sampler that learns: legal configs, by its arguments alone, better than chance."""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ConfigSpace as CS
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from adversary import Adversary, run_with
from deepband import Evaluation, InputError, Study
from deepband.analysis import export
from deepband.core.facts import Config
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.samplers import SAMPLERS, Uniform
from deepband.samplers.gp import EVERY as EVERY_FIFTH
from deepband.samplers.model_based import EVERY, NEEDS
from deepband.samplers.observations import ENOUGH
from deepband.space.search_space import Space
from deepband.space.unit_cube import Points, reflected
from deepband.system.installation import install_command
from driving import finish, open_study
from sampler_cases import SPACES, evaluation, mixed

GROUP = 8
"""How many configs are drawn together."""
NAMES = [name for name in SAMPLERS if name != "uniform"]


LOSSES: dict[str, Callable[[int], float | None]] = {
    "plain": math.sin,
    "failed": lambda number: None,
    "infinite": lambda number: math.inf,
    "huge": lambda number: (-1.0) ** number * 1.7e308,
    "equal": lambda number: 1.0,
    "few": lambda number: float(number) if number % 5 == 0 else (None if number % 2 else math.inf),
}


def observed(space: Space, count: int, losses: str = "plain", rungs: int = 2) -> list[Evaluation]:
    """`count` evaluations, in order: as many on rung 1 as on rung 0, none above."""
    configs = Uniform().draw(space, (), 0, range(max(1, count)), 9)
    made = []
    for index in range(count):
        for rung in range(rungs):
            loss = LOSSES[losses](index + 1000 * rung)
            made.append(evaluation(index, rung, configs[index], loss))
    return made[:count]


def draw(
    name: str,
    space: Space,
    observations: Sequence[Evaluation],
    indices: Sequence[int] = range(GROUP),
    bracket: int = 1,
    seed: int = 0,
) -> list[Config]:
    return SAMPLERS[name](GROUP).draw(space, observations, bracket, indices, seed)


def every(name: str) -> int:
    """One of how many configs is random."""
    return EVERY_FIFTH if name == "gp" else EVERY


@pytest.mark.parametrize(
    "name",
    # `forest` shares its search with `gp` and its observations with `tpe`, and is slower.
    [pytest.param(name, marks=pytest.mark.heavy if name == "forest" else ()) for name in NAMES],
)
class TestEverySamplerThatLearns:
    """What holds for each of them."""

    @pytest.mark.parametrize(
        ("space", "losses"),
        [
            pytest.param(space, losses, marks=pytest.mark.heavy if (row + column) % 2 else ())
            for row, space in enumerate(SPACES)
            for column, losses in enumerate(LOSSES)
        ],
    )
    def test_configs_are_legal(self, name: str, space: str, losses: str) -> None:
        for count in (0, 1, 4, 40):
            drawn = draw(name, SPACES[space], observed(SPACES[space], count, losses))
            assert len(drawn) == GROUP
            for config in drawn:
                assert SPACES[space].config(config) == config
                assert list(config) == list(SPACES[space].config(config))

    @given(count=st.integers(0, 60), first=st.integers(0, 30), seed=st.integers(0, 2**32))
    @settings(max_examples=8)
    def test_a_function_of_its_arguments(
        self, name: str, count: int, first: int, seed: int
    ) -> None:
        space, indices = SPACES["mixed"], range(first, first + 5)
        observations = observed(space, count)
        sampler = SAMPLERS[name](GROUP)
        once = sampler.draw(space, observations, 2, indices, seed)
        sampler.draw(space, observations[: count // 2], 0, range(3), seed + 1)
        random.seed(count)
        np.random.seed(first)
        assert sampler.draw(space, tuple(observations), 2, indices, seed) == once
        assert draw(name, Space(mixed()), observations, indices, 2, seed) == once

    def test_what_makes_a_difference(self, name: str) -> None:
        space = SPACES["plain"]
        observations = observed(space, 60)
        places = [
            (index, bracket, seed) for index in (0, 9) for bracket in (0, 1) for seed in (0, 1)
        ]
        drawn = [
            str(draw(name, space, observations, range(index, index + 6), bracket, seed))
            for index, bracket, seed in places
        ]
        assert len(set(drawn)) == len(drawn)

    def test_another_part_of_a_group_draws_others(self, name: str) -> None:
        space = SPACES["plain"]
        observations = observed(space, 60)
        parts = [
            draw(name, space, observations, indices) for indices in (range(8, 11), range(11, 16))
        ]
        drawn = [str(config) for part in parts for config in part]
        assert len(set(drawn)) == len(drawn)

    def test_no_observation_is_changed(self, name: str) -> None:
        observations, again = (observed(SPACES["mixed"], 40) for _ in range(2))
        draw(name, SPACES["mixed"], observations)
        assert observations == again

    def test_a_share_is_left_to_chance(self, name: str) -> None:
        observations = observed(SPACES["plain"], 60)
        best = [each._replace(config={"x": 0.5, "y": 1000, "z": "a"}) for each in observations]
        first, second = draw(name, SPACES["plain"], observations), draw(name, SPACES["plain"], best)
        same = [index for index in range(GROUP) if first[index] == second[index]]
        assert set(same) >= set(range(every(name) - 1, GROUP, every(name)))

    @pytest.mark.parametrize(
        "strategy",
        [
            pytest.param(each, marks=() if each == "efficient" else pytest.mark.heavy)
            for each in STRATEGIES
        ],
    )
    def test_the_same_study_for_any_order_and_counts_as_uniform_has_them(
        self, name: str, strategy: StrategyName
    ) -> None:
        def loss(job: deepband.Job) -> object:
            return ValueError("x") if job.config["lr"] < 1e-4 else job.config["lr"] / job.budget

        studies = [open_study(space=mixed(), sampler=each) for each in (name, name, "uniform")]
        orders = [None, random.Random(2), None]
        for study, order in zip(studies, orders, strict=True):
            finish(study, loss, order)
            study.deepen(strategy)
            finish(study, loss, order)
        assert canonical(studies[0]) == canonical(studies[1])
        counts = [[run.evaluations for run in study.runs] for study in studies]
        if strategy == "efficient":  # those of the others depend on the losses
            assert counts[0] == counts[2]
        assert counts[0][0] == counts[2][0]
        assert studies[0].plan() == studies[2].plan()

    @pytest.mark.parametrize("slots", [2, 7])
    def test_an_adversary_changes_nothing(self, name: str, slots: int) -> None:
        calm, wild = (open_study(sampler=name, parallel=4) for _ in range(2))
        run_with(Adversary(random.Random(0), 1, 0.0), calm, 0)
        run_with(Adversary(random.Random(slots), slots, 0.3), wild, 10**6)
        assert canonical(wild) == canonical(calm)

    def test_workers_and_interrupts_change_nothing(self, name: str, tmp_path: Path) -> None:
        def train(config: dict[str, Any], budget: float) -> float:
            return float(config["x"]) / budget

        alone = open_study(sampler=name, parallel=2)
        alone.optimize(train)
        path = tmp_path / "a.study"
        with open_study(storage=path, sampler=name, parallel=2) as study:
            study.optimize(train, workers=2, max_cost=20)
            assert not study.done
        with deepband.open_study(path) as study:
            study.optimize(train, workers=2)
            assert canonical(study) == canonical(alone)
        with pytest.raises(InputError, match="created with sampler"):
            deepband.open_study(path, sampler="uniform")

    @pytest.mark.heavy
    def test_it_beats_chance_on_a_bowl(self, name: str) -> None:
        """On average over seeds, by a large factor."""
        found = {
            each: np.mean([search(each, seed) for seed in range(5)]) for each in (name, "uniform")
        }
        assert found[name] < 0.75 * found["uniform"]


def search(name: str, seed: int) -> float:
    """The loss above the least that a study and its deepening find; its default is near."""
    space = CS.ConfigurationSpace()
    space.add([CS.Float(each, (0, 1), default=0.4) for each in "xyz"])
    study = open_study(space=space, max_budget=9, sampler=name, seed=seed)

    def bowl(config: dict[str, Any], budget: float) -> float:
        return float(sum((value - 0.3) ** 2 for value in config.values()) + 0.01 / budget)

    study.optimize(bowl)
    study.deepen("efficient", to=81)
    study.optimize(bowl)
    best = study.best_at()
    return bowl(best.config, math.inf)


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


@pytest.mark.parametrize(
    ("name", "package"), [(name, package) for name, needed in NEEDS.items() for package in needed]
)
def test_what_is_not_installed_is_named(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    wanted = f"{name}' needs {NEEDS[name][package]}: {re.escape(install_command(name))}"
    with pytest.raises(InputError, match=wanted):
        open_study(sampler=name)


@pytest.mark.parametrize("space", SPACES)
def test_points_lead_back_to_their_configs(space: str) -> None:
    points = Points(SPACES[space])
    configs = Uniform().draw(SPACES[space], (), 0, range(100), 0)
    again = points.configs(points.of(configs))
    for config, other in zip(configs, again, strict=True):
        assert other is not None
        assert config.keys() == other.keys()
        for name, value in config.items():
            assert other[name] == value or math.isclose(other[name], value, rel_tol=1e-6)
            assert type(other[name]) is type(value)


def test_a_point_that_a_clause_forbids_is_no_config() -> None:
    points = Points(SPACES["mixed"])
    (config,) = Uniform().draw(SPACES["mixed"], (), 0, [0], 0)
    bad = points.of([{**config, "kind": "tree", "depth": 4}])
    bad = np.where(np.isnan(bad), 0.5, bad)
    assert points.configs(bad) == [None]


@pytest.mark.parametrize("name", ["tpe", "forest"])
def test_it_learns_from_seven_configs_above_the_lowest_rung(name: str) -> None:
    """Until then it is `uniform`."""
    space = SPACES["plain"]
    by_chance = Uniform().draw(space, (), 1, range(GROUP), 0)
    assert draw(name, space, observed(space, 2 * ENOUGH - 2)) == by_chance
    assert draw(name, space, observed(space, 40, rungs=1)) == by_chance
    drawn = draw(name, space, observed(space, 2 * ENOUGH))
    same = [index for index in range(GROUP) if drawn[index] == by_chance[index]]
    assert same == list(range(EVERY - 1, GROUP, EVERY))


def test_the_forest_proposes_nothing_twice() -> None:
    space = Space({"x": list(range(5)), "y": list(range(5))})
    observations = observed(space, 2 * ENOUGH)
    drawn = draw("forest", space, observations)
    proposed = [str(drawn[index]) for index in range(GROUP) if index % EVERY != EVERY - 1]
    assert len({*proposed, *(str(each.config) for each in observations)}) == len(proposed) + len(
        {str(each.config) for each in observations}
    )


def test_points_beyond_an_edge_are_mirrored() -> None:
    given, wanted = [-0.25, 0.5, 1.25, 2.5, -1.5], [0.25, 0.5, 0.75, 0.5, 0.5]
    assert reflected(np.array(given)).tolist() == wanted


def large(parameters: int, conditional: bool) -> Space:
    """A space of floats, integers and choices; with conditions, each choice rules over the two
    parameters that follow it."""
    made: list[Any] = []
    conditions: list[Any] = []
    for number in range(parameters):
        name = f"p{number:03}"
        if number % 3 == 0:
            made.append(CS.Categorical(name, ["a", "b", "c"]))
            continue
        if number % 3 == 1:
            made.append(CS.Float(name, (1e-4, 1.0), log=True))
        else:
            made.append(CS.Integer(name, (1, 1000), log=True))
        if conditional:
            conditions.append(CS.EqualsCondition(made[-1], made[number - number % 3], "a"))
    space = CS.ConfigurationSpace()
    space.add(*made, *conditions)
    return Space(space)


@pytest.mark.parametrize(
    ("parameters", "conditional"),
    [
        (222, True),
        (222, False),
        pytest.param(786, False, marks=pytest.mark.heavy),
        pytest.param(786, True, marks=pytest.mark.heavy),
    ],
)
def test_the_work_of_tpe_grows_with_the_parameters_and_not_with_their_square(
    parameters: int, conditional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each proposal converts each integer a few times, however many other parameters there are."""
    space, kind, converted = large(parameters, conditional), CS.UniformIntegerHyperparameter, []
    original = kind.to_value

    def counted(self: Any, vector: Any) -> Any:
        converted.append(self.name)
        return original(self, vector)

    monkeypatch.setattr(kind, "to_value", counted)
    proposed = draw("tpe", space, observed(space, 40), indices=[0, 1])
    assert len(proposed) == 2
    assert set(Counter(converted).values()) <= set(range(1, 11))


def test_tpe_sees_fewer_observations_of_a_large_space() -> None:
    from deepband.samplers.tpe import MOST_VALUES, most_shown, thinned

    assert [most_shown(parameters) for parameters in (1, 7, 66)] == [300, 300, 300]
    assert [most_shown(parameters) for parameters in (222, 786, 10_000)] == [90, 25, 25]
    space = large(222, conditional=False)
    shown = thinned(observed(space, 400), most_shown(222))
    assert sum(len(each.config) for each in shown) <= MOST_VALUES
