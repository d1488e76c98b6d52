"""Samplers: what they draw depends on (seed, bracket, index) and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import DeepbandError, InputError, UnknownNameError
from deepband.core.facts import Config
from deepband.samplers import SAMPLERS, Uniform
from deepband.space.search_space import Space
from driving import finish, noisy, open_study

SPACE = Space({"x": (0.0, 1.0), "y": (1, 10**6), "z": ["a", "b"]})


def draw(
    indices: Sequence[int], bracket: int = 0, seed: int = 0, name: str = "uniform"
) -> list[Config]:
    return SAMPLERS[name](64).draw(SPACE, (), bracket, indices, seed)


@pytest.mark.parametrize("name", [name for name, made in SAMPLERS.items() if not made(64).learns])
class TestEverySamplerThatDoesNotLearn:
    """What holds for those in the table that look at nothing."""

    @given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.integers(0, 5))
    def test_a_config_is_the_same_however_it_is_drawn(
        self, name: str, indices: list[int], bracket: int
    ) -> None:
        alone = [draw([index], bracket, name=name)[0] for index in indices]
        assert draw(indices, bracket, name=name) == alone
        assert [draw(range(301), bracket, name=name)[index] for index in indices] == alone

    def test_seed_bracket_and_index_make_the_difference(self, name: str) -> None:
        configs = [
            str(draw([index], bracket, seed, name)[0])
            for seed in (0, 1, 2**40)
            for bracket in (0, 1)
            for index in (0, 1, 63, 64, 65)
        ]
        assert len(set(configs)) == len(configs)


def test_a_fresh_and_a_deepened_run_draw_the_same() -> None:
    deepened = open_study(max_budget=27, seed=5)
    finish(deepened, noisy(0))
    deepened.deepen("efficient", to=243)
    finish(deepened, noisy(0))
    fresh = open_study(max_budget=243, seed=5)
    finish(fresh, noisy(1))
    assert deepened.session.state.configs == fresh.session.state.configs
    sampler = SAMPLERS["uniform"](64)
    alone = sampler.draw(deepened.session.space, (), 1, [77], 5)
    assert alone == [fresh.session.state.configs[1][77]]


def test_uniform_draws_stay_what_they_were() -> None:
    """Stored studies depend on these values, which must never change."""
    assert draw([0, 64], bracket=2, seed=7) == [
        {"x": 0.11155207687949731, "y": 725816, "z": "a"},
        {"x": 0.4408671527011573, "y": 489757, "z": "b"},
    ]


def test_an_unknown_sampler_names_the_valid_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"choose from 'uniform'.* Did you mean 'uniform'"):
        open_study(sampler="unifrom")


@pytest.mark.parametrize("bad", [3, object(), Uniform])
def test_what_is_no_sampler_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match=r"is not a sampler: give one of 'uniform', .*method draw"):
        open_study(sampler=bad)


@pytest.mark.parametrize("drawn", [None, 3, [], [{}] * 8, [None] * 9, [{}] * 10])
def test_a_sampler_that_draws_badly_is_told_so_and_nothing_is_kept(drawn: Any) -> None:
    class Broken:
        learns = False

        def draw(self, *args: Any) -> Any:
            return drawn

    study = open_study(sampler=Broken())
    with pytest.raises(DeepbandError, match="'Broken' was asked for 9 configs, each a dict"):
        study.ask()
    assert study.session.state.configs[0] == []
    assert study.session.state.progress[0].running == set()
