"""The sampler `gp`: when it starts, what it proposes, and spaces and losses that strain it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import ConfigSpace as CS
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import deepband
from deepband import Evaluation, Study
from deepband.core.facts import Config
from deepband.samplers import SAMPLERS, Uniform, gp, gp_regression
from deepband.samplers.gp import EVERY, improvement, is_ready
from deepband.samplers.observations import ENOUGH
from deepband.samplers.training_data import Inputs, milestone, training_set
from deepband.space.search_space import Space
from deepband.space.unit_cube import Points
from driving import finish, open_study

BOWL = Space({"x": (0.0, 1.0), "y": (0.0, 1.0)})


def evaluated(config: Config, loss: float | None, place: tuple[int, int, int, int]) -> Evaluation:
    bracket, index, rung, run = place
    error = None if loss is not None else "x"
    return Evaluation(
        bracket, index, rung, 3**rung, config, loss, loss, run, error, {}, None, None, ()
    )


def bowl(config: Config) -> float:
    numbers = [value for value in config.values() if isinstance(value, float)]
    return sum((value - 0.3) ** 2 for value in numbers)


def observed(space: Space, count: int, loss: Any = bowl, eta: int = 3) -> list[Evaluation]:
    """The evaluations of a first bracket: a third of the configs on each rung are promoted."""
    configs = Uniform().draw(space, (), 0, range(count), 9)
    ranked = sorted(range(count), key=lambda index: (loss(configs[index]) is None, index))
    made, rung = [], 0
    while ranked:
        made += [
            evaluated(configs[index], loss(configs[index]), (0, index, rung, 0)) for index in ranked
        ]
        ranked, rung = ranked[: len(ranked) // eta], rung + 1
    return sorted(made, key=lambda each: each[:3])


def draw(
    space: Space, observations: Sequence[Evaluation], indices: Sequence[int] = (0,), seed: int = 0
) -> list[Config]:
    return SAMPLERS["gp"](1).draw(space, observations, 1, indices, seed)


def at_random(study: Study, bracket: int) -> list[bool]:
    """Which configs of a bracket are those of `uniform`."""
    state = study.session.state
    drawn = state.configs[bracket]
    uniform = Uniform().draw(
        study.session.space, (), bracket, range(len(drawn)), state.created.seed
    )
    return [one == other for one, other in zip(drawn, uniform, strict=True)]


def by_x(job: deepband.Job) -> float:
    return float(job.config["x"]) + 1 / job.budget


@pytest.mark.parametrize(("eta", "max_budget"), [(2, 16), (3, 27), (4, 64)])
def test_the_first_bracket_is_random_and_those_after_it_are_not(eta: int, max_budget: int) -> None:
    study = open_study(space=BOWL, eta=eta, max_budget=max_budget, sampler="gp")
    finish(study, by_x)
    assert all(at_random(study, 0))
    for bracket in range(1, len(study.session.state.configs)):
        drawn = at_random(study, bracket)
        assert drawn == [index % EVERY == EVERY - 1 for index in range(len(drawn))]


@pytest.mark.parametrize("brackets", [1, 3])
def test_what_is_added_to_the_first_bracket_is_learned(brackets: int) -> None:
    study = open_study(space=BOWL, max_budget=27, sampler="gp", brackets=brackets)
    finish(study, by_x)
    study.widen()
    finish(study, by_x)
    assert at_random(study, 0) == [i < 27 or i % EVERY == EVERY - 1 for i in range(54)]


def test_a_study_with_a_single_rung_learns_from_its_first_run() -> None:
    study = open_study(space=BOWL, max_budget=1, width=12, sampler="gp")
    finish(study, by_x)
    assert all(at_random(study, 0))
    study.widen(to=40)
    finish(study, by_x)
    assert not any(at_random(study, 0)[20:24])


def test_a_first_guess_that_is_too_small_does_not_start_earlier() -> None:
    """With max_budget 3 a run has five configs, too few to learn from."""
    study = open_study(space=BOWL, max_budget=3, sampler="gp")
    finish(study, by_x)
    study.deepen("preserving", to=27)
    finish(study, by_x)
    assert all(at_random(study, 0))
    assert not any(at_random(study, 1)[5:9])


def test_the_first_brackets_of_a_small_study_are_random() -> None:
    """With max_budget 9, three configs of the first bracket are promoted, and five are added."""
    study = open_study(space=BOWL, max_budget=9, sampler="gp")
    finish(study, by_x)
    assert all(at_random(study, 0) + at_random(study, 1))
    assert not any(at_random(study, 2))


def test_when_there_is_enough_to_learn_from() -> None:
    few, enough = observed(BOWL, 3 * ENOUGH - 1), observed(BOWL, 3 * ENOUGH)
    lowest = [each for each in enough if each.rung == 0]
    failed = [each._replace(loss=None) for each in enough if each.rung > 0]
    second = evaluated(few[0].config, 1.0, (0, 99, 0, 1))
    assert not is_ready([])
    assert not is_ready(few)
    assert not is_ready(lowest)
    assert not is_ready([*lowest, *failed])
    assert is_ready(enough)
    assert is_ready([*lowest, second])  # the first run has ended
    assert not is_ready([*lowest[: ENOUGH - 1], second])


def test_it_finds_the_bottom_of_a_bowl() -> None:
    observations = observed(BOWL, 27)
    found = [draw(BOWL, observations, seed=seed)[0] for seed in range(5)]
    best = min(bowl(each.config) for each in observations)
    assert all(bowl(config) < best for config in found)


def test_a_group_is_spread_out() -> None:
    drawn = draw(BOWL, observed(BOWL, 21, lambda config: config["x"]), range(4))
    places = np.array([[config["x"], config["y"]] for config in drawn])
    apart = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(4, 1)]
    assert apart.min() > 0.02


def test_nothing_is_proposed_twice_until_everything_was_tried() -> None:
    space = Space({"x": list(range(5)), "y": list("abcde")})
    observations = observed(space, 21, lambda config: float(config["x"]))
    tried = {str(each.config) for each in observations}
    drawn = draw(space, observations, [index for index in range(40) if index % EVERY < EVERY - 1])
    new = [str(config) for config in drawn]
    left = 25 - len(tried)
    assert len({*new[:left]} - tried) == left
    assert all(space.has(config) for config in drawn[left:])


def test_the_same_draws_with_any_number_of_threads_and_without_a_cache() -> None:
    observations = observed(BOWL, 150)
    drawn = []
    for threads in (1, 2):
        gp_regression._fitted.cache_clear()
        with threadpool_limits(threads):
            drawn.append(draw(BOWL, observations, range(3)))
    assert drawn[0] == drawn[1]


def test_a_model_is_fitted_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    original = gp_regression.fitted
    threads: list[int] = []

    def watched(data: gp_regression.Data) -> Any:
        threads.extend(
            each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"
        )
        return original(data)

    monkeypatch.setattr(gp, "fitted", watched)
    with threadpool_limits(2):
        draw(BOWL, observed(BOWL, 27))
    assert threads
    assert set(threads) == {1}


def test_parameters_are_fitted_again_at_milestones_only() -> None:
    study = open_study(space=BOWL, max_budget=27, sampler="gp")
    before = gp_regression._fitted.cache_info().misses
    finish(study, by_x)
    fits = gp_regression._fitted.cache_info().misses - before
    assert 2 <= fits <= 10
    old = observed(BOWL, 100)
    assert milestone(old[:99]) == milestone(old[:99])[: len(milestone(old[:99]))]
    assert 0.9 * len(old) <= len(milestone(old)) <= len(old)


def test_the_training_set_prefers_high_rungs() -> None:
    observations = observed(BOWL, 300)
    chosen = training_set(observations, 200)
    assert len(chosen) == 200
    assert sum(each.rung > 0 for each in chosen) == sum(each.rung > 0 for each in observations)
    assert training_set(observations[:50], 200) == observations[:50]


def many(parameters: int, conditional: bool) -> Space:
    """Choices, each of which may rule over the float and the integer after it."""
    space = CS.ConfigurationSpace()
    for number in range(0, parameters, 3):
        kind = CS.Categorical(f"c{number}", ["a", "b", "c"])
        rate = CS.Float(f"f{number}", (1e-4, 1.0), log=True)
        size = CS.Integer(f"i{number}", (1, 1000), log=True)
        space.add([kind, rate, size])
        if conditional:
            space.add([CS.EqualsCondition(each, kind, "a") for each in (rate, size)])
    return Space(space)


def forbidding() -> CS.ConfigurationSpace:
    """A space of which one config in eight is allowed."""
    space = CS.ConfigurationSpace()
    first, second, x = CS.Integer("a", (0, 7)), CS.Integer("b", (0, 7)), CS.Float("x", (0, 1))
    space.add([first, second, x])
    space.add(
        [
            CS.ForbiddenLessThanRelation(first, second),
            CS.ForbiddenGreaterThanRelation(first, second),
        ]
    )
    return space


STRAINING = {
    "60 parameters": many(60, False),
    "60 parameters with conditions": many(60, True),
    "choices only": Space({name: ["u", "v", "w", None] for name in "abcdef"}),
    "integers and logs": Space({"a": (1, 2), "b": (1, 10**6, "log"), "c": (1e-9, 1.0, "log")}),
    "forbidden": Space(forbidding()),
    "one config": Space({"x": ["only"], "y": 3}),
    "two configs": Space({"x": [True, False]}),
}

LOSSES: dict[str, Any] = {
    "bowl": bowl,
    "equal": lambda config: 0.5,
    "noise": lambda config: float(np.random.default_rng(abs(hash(str(config))) % 2**32).normal()),
    "tied": lambda config: float(len(str(config)) % 3),
    "infinite": lambda config: math.inf if len(str(config)) % 2 else 1.0,
    "failing": lambda config: None if len(str(config)) % 2 else 1.0,
    "huge": lambda config: 1.7e308 if len(str(config)) % 2 else -1.7e308,
    "tiny": lambda config: 1e-320 * len(str(config)),
}


@pytest.mark.parametrize(
    ("space", "loss"),
    [
        pytest.param(space, loss, marks=pytest.mark.heavy if (row + column) % 2 else ())
        for row, space in enumerate(STRAINING)
        for column, loss in enumerate(LOSSES)
    ],
)
def test_configs_are_legal_whatever_the_space_and_the_losses(space: str, loss: str) -> None:
    given = STRAINING[space]
    drawn = draw(given, observed(given, 40, LOSSES[loss]), range(6))
    assert all(given.config(config) == config for config in drawn)


def test_5000_observations() -> None:
    space = many(60, True)
    drawn = draw(space, observed(space, 3400), [0, 1])
    assert all(space.config(config) == config for config in drawn)


@pytest.mark.parametrize("candidates", [2, 500])
def test_a_space_in_which_almost_everything_is_forbidden(
    candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no candidate is legal, the config is random."""
    monkeypatch.setattr(gp, "RANDOM", candidates)
    monkeypatch.setattr(gp, "NEAR", candidates)
    space = CS.ConfigurationSpace()
    names = [CS.Integer(f"p{number}", (0, 9), default=number) for number in range(5)]
    space.add(names)
    space.add([CS.ForbiddenGreaterThanRelation(a, b) for a, b in pairwise(names)])
    space.add([CS.ForbiddenEqualsRelation(a, b) for a, b in pairwise(names)])
    given = Space(space)
    drawn = draw(given, observed(given, 40, lambda config: float(config["p0"])), range(4))
    assert all(given.config(config) == config for config in drawn)


def test_inputs_have_choices_in_one_hot_encoding_and_no_constants() -> None:
    space = Space({"c": ["u", "v", "w"], "k": 7, "x": (0.0, 2.0)})
    inputs = Inputs(Points(space))
    places = inputs.points.of([{"c": "u", "k": 7, "x": 2.0}, {"c": "w", "k": 7, "x": 2.0}])
    first, second = inputs.of(places)
    assert len(first) == 4
    assert np.linalg.norm(first - second) == pytest.approx(1.0)
    (inactive,) = inputs.of(np.full((1, 3), np.nan))
    assert inactive.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_expected_improvement() -> None:
    random = np.random.default_rng(0)
    mean, spread, least = 0.7, 0.5, 0.4
    sampled = np.maximum(0, least - random.normal(mean, spread, 10**6)).mean()
    assert improvement(np.array([mean]), np.array([spread]), least)[0] == pytest.approx(
        sampled, rel=0.01
    )
