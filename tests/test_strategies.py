"""The three strategies, asked directly."""

from __future__ import annotations

import math

import pytest

from deepband import UnknownNameError
from deepband.strategies import (
    STRATEGIES,
    discarding,
    efficient,
    preserving,
    promoted,
    ranked,
    strategy_named,
)

ARRIVED = frozenset({0, 1, 4, 5})
BEFORE = frozenset({0, 1, 2, 3})
ABOVE = frozenset({0, 2})
LOSSES: dict[int, float | None] = {0: 0.5, 1: 0.4, 2: 0.9, 3: 0.1, 4: 0.3, 5: 0.2}


def test_discarding_looks_at_who_arrived_only() -> None:
    contest = discarding(ARRIVED, BEFORE, ABOVE)
    assert promoted(contest, LOSSES, 3) == {5, 4, 1}


def test_preserving_lets_old_ones_compete() -> None:
    contest = preserving(ARRIVED, BEFORE, ABOVE)
    assert promoted(contest, LOSSES, 3) == {3, 5, 4}


def test_efficient_revokes_nothing() -> None:
    contest = efficient(ARRIVED, BEFORE, ABOVE)
    assert promoted(contest, LOSSES, 3) == {0, 2, 3}


def test_efficient_keeps_all_when_more_are_above_than_places() -> None:
    """Many discarding runs with adverse losses can leave more above than a run has places."""
    contest = efficient(ARRIVED, BEFORE, frozenset({0, 1, 2}))
    assert promoted(contest, LOSSES, 2) == {0, 1, 2}


def test_without_a_past_all_are_hyperband() -> None:
    nobody: frozenset[int] = frozenset()
    for strategy in STRATEGIES.values():
        assert promoted(strategy(ARRIVED, nobody, nobody), LOSSES, 2) == {5, 4}


def test_ranking() -> None:
    losses = {0: None, 1: math.inf, 2: 0.0, 3: -0.0, 4: None, 5: -1.0, 6: math.inf}
    assert ranked(losses.keys(), losses) == [5, 2, 3, 1, 6, 0, 4]


def test_failures_take_a_place_only_when_nobody_else_is_left() -> None:
    losses = {0: None, 1: None, 2: math.inf}
    assert promoted(discarding(losses.keys(), set(), set()), losses, 2) == {2, 0}


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'preserving'") as caught:
        strategy_named("perserving")
    assert caught.value.valid == ("discarding", "preserving", "efficient")
