"""The strategies, asked directly."""

from __future__ import annotations

import math

import pytest

from deepband import UnknownNameError
from deepband.core.rank_order import ranked
from deepband.core.strategies import (
    FRUGAL,
    NAMES,
    STRATEGIES,
    check_name,
    discarding,
    efficient,
    frugal,
    preserving,
    promoted,
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
    empty: frozenset[int] = frozenset()
    for strategy in STRATEGIES.values():
        assert promoted(strategy(ARRIVED, empty, empty), LOSSES, 2) == {5, 4}


def test_rank_order() -> None:
    losses = {0: None, 1: math.inf, 2: 0.0, 3: -0.0, 4: None, 5: -1.0, 6: math.inf}
    assert ranked(losses.keys(), losses) == [5, 2, 3, 1, 6, 0, 4]


def test_failures_take_a_place_only_when_nobody_else_is_left() -> None:
    losses = {0: None, 1: None, 2: math.inf}
    assert promoted(discarding(losses.keys(), set(), set()), losses, 2) == {2, 0}


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'preserving'") as caught:
        strategy_named("perserving")
    assert caught.value.valid == ("discarding", "preserving", "efficient")


def test_frugal_is_one_contest_over_all_brackets() -> None:
    losses = {(0, 7): 0.5, (1, 2): 0.1, (2, 0): 0.4, (2, 1): 0.2, (2, 3): 0.9}
    assert frugal(losses, 3) == ([(1, 2), (2, 1), (2, 0), (0, 7), (2, 3)], 2)
    assert frugal(losses, 2)[1] == 3
    assert frugal(losses, 5)[1] == 1
    assert frugal(losses, 6)[1] == 1


def test_ties_across_brackets_go_to_the_smaller_bracket_then_index() -> None:
    losses = {(1, 0): 0.0, (0, 9): -0.0, (0, 10): 0.0, (1, 3): math.inf, (0, 11): math.inf}
    assert frugal(losses, 2) == ([(0, 9), (0, 10), (1, 0), (0, 11), (1, 3)], 3)


def test_frugal_sends_infinities_before_nobody_and_failures_never() -> None:
    losses = {(0, 0): None, (0, 1): math.inf, (1, 0): None, (1, 1): None, (2, 0): 0.3}
    assert frugal(losses, 2) == ([(2, 0), (0, 1)], 3)  # failures count, and leave places empty
    assert frugal({(0, 0): None, (1, 0): None}, 2) == ([], 1)
    assert frugal({}, 2) == ([], 0)


def test_the_paper_has_three_strategies_and_there_is_one_more() -> None:
    assert tuple(STRATEGIES) == ("discarding", "preserving", "efficient")
    for name in (*STRATEGIES, FRUGAL):
        check_name(name)
    with pytest.raises(UnknownNameError, match="Did you mean 'frugal'") as caught:
        check_name("frugle")
    assert caught.value.valid == NAMES
    for wrong in ("", None, 3, ["frugal"]):
        with pytest.raises(UnknownNameError):
            check_name(wrong)  # type: ignore[arg-type] # is refused
