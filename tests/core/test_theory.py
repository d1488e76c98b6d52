"""The paper's theorems, by values computed by hand and over many schedules."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import InputError, Schedule
from deepband.core import theory


def test_theorem_1_by_hand() -> None:
    # n = 4, eta = 2: two rounds. gamma(j) = 1 / j, so gamma_inverse(x) = 1 / x.
    # i = 2: max(0.1, 0.1) -> 10; 2 * 11 = 22. i = 3: 0.25 -> 4; 15. i = 4: 0.5 -> 2; 12.
    budget = theory.necessary_budget([0.0, 0.2, 0.5, 1.0], lambda x: 1 / x, 0.4, 2, 100)
    assert budget == pytest.approx(2 * 2 * 22)
    # R caps what one arm needs: i = 2: 2 * (1 + 3) = 8; i = 3: 3 * 4 = 12; i = 4: 4 * 3 = 12.
    capped = theory.necessary_budget([0.0, 0.2, 0.5, 1.0], lambda x: 1 / x, 0.4, 2, 3)
    assert capped == pytest.approx(2 * 2 * 12)


def test_theorem_1_takes_no_logarithm() -> None:
    one_arm = theory.necessary_budget([0.0] * 243, lambda x: 0.0, 1.0, 3, 1)
    assert one_arm == 3 * 5 * 243


def test_theorem_2_by_hand() -> None:
    # eta 2, R = 4, s = 2: n = 4, n_old = 2 (the bracket had ceil(2 * 2 / 2) at R = 2).
    # denominator: 3 * (16 + 4) - 7 * 8 = 4
    # a) numerator: 3 * (8 + 4) - 7 * (8 + 4) = -48, so 1 + 48 / 4 = 13
    # b) numerator: (12 + 8) - 7 * 8 = -36, so 1 + 36 / 4 = 10
    assert theory.efficient_fraction(4, 2, 4, 2, 2) == 13
    assert theory.discarding_fraction(4, 2, 4, 2, 2) == 10
    # Large R: eta 2, R = 1024, s = 1, n = 12, n_old = 10 (T = 10: ceil(11 * 2 / 2) = 11).
    # denominator: 2 * (11 * 1024 + 2) - 3 * (1024 + 11) = 19427
    # a) numerator: 2 * (10 * 1024 + 2) - 3 * (2048 + 11) = 14307
    # b) numerator: (4 + 10240) - 3 * 1035 = 7139
    assert theory.efficient_fraction(11, 10, 1024, 1, 2) == 1 - Fraction(14307, 19427)
    assert theory.discarding_fraction(11, 10, 1024, 1, 2) == 1 - Fraction(7139, 19427)


def test_pulls_by_hand() -> None:
    assert theory.rerun_pulls(32, 32, 5, 2) == 6 * 32
    assert theory.efficient_pulls(32, 16, 32, 5, 2) == 5 * 16 + 32
    assert theory.discarding_pulls(32, 16, 32, 5, 2) == 6 * 32 - 16


def deepenings(eta: int, top: int) -> list[tuple[int, int, int, int, Fraction, Fraction]]:
    """(n, n_old, R, s, efficient's pulls, the most of the others') for each bracket that was
    there before a deepening to R = eta**top, as deepband counts them."""
    new, old = Schedule.of(eta, 1, eta**top), Schedule.of(eta, 1, eta ** (top - 1))
    cases = []
    for bracket in old.brackets:
        n, n_old, s = new.start_size(bracket), old.start_size(bracket), top - bracket
        efficient = {
            (bracket, rung): new.slots(bracket, rung)
            - (old.slots(bracket, rung) if rung < top else 0)
            for rung in new.rungs(bracket)
        }
        worst = {(bracket, rung): new.slots(bracket, rung) for rung in new.rungs(bracket)}
        worst[bracket, bracket] -= n_old
        cases.append((n, n_old, eta**top, s, new.cost_of(efficient), new.cost_of(worst)))
    return cases


@given(st.integers(2, 6), st.integers(2, 8))
def test_theorem_2b_holds_for_our_counts_everywhere(eta: int, top: int) -> None:
    top = min(top, 24 // eta.bit_length())
    for n, n_old, R, s, _, worst in deepenings(eta, top):
        bound = theory.discarding_fraction(n, n_old, R, s, eta)
        assert worst == theory.discarding_pulls(n, n_old, R, s, eta)
        assert worst <= bound * theory.rerun_pulls(n, R, s, eta)


@given(st.integers(2, 6), st.integers(2, 8))
def test_theorem_2a_holds_for_the_paper_s_count(eta: int, top: int) -> None:
    top = min(top, 24 // eta.bit_length())
    for n, n_old, R, s, ours, _ in deepenings(eta, top):
        paper = theory.efficient_pulls(n, n_old, R, s, eta)
        assert paper <= theory.efficient_fraction(n, n_old, R, s, eta) * theory.rerun_pulls(
            n, R, s, eta
        )
        assert ours - paper == (n_old // eta**s) * R


def test_theorem_2a_does_not_hold_for_our_count() -> None:
    """Where nearly all old arms would reach the new top rung, where no arm has been."""
    broken = [
        (eta, top, s)
        for eta in range(2, 7)
        for top in range(2, 24 // eta.bit_length())
        for n, n_old, R, s, ours, _ in deepenings(eta, top)
        if ours > theory.efficient_fraction(n, n_old, R, s, eta) * theory.rerun_pulls(n, R, s, eta)
    ]
    assert broken


def test_theorem_2_is_undefined_at_eta() -> None:
    for eta in (2, 3, 6):
        for fraction in (theory.efficient_fraction, theory.discarding_fraction):
            with pytest.raises(InputError, match="undefined"):
                fraction(eta, 1, eta, 1, eta)


@given(st.integers(2, 5), st.integers(1, 6), st.floats(0, 10), st.floats(0.01, 0.99))
def test_theorem_3_as_printed_holds_for_no_max_budget(
    eta: int, top: int, speed: float, alpha: float
) -> None:
    limits = [0.0] * eta**top
    for R in {eta**top, eta ** (top + 1) - 1}:
        condition = theory.max_budget_condition(R, eta, alpha, 0.05, 0.1, limits, lambda x: speed)
        assert condition.left == R
        assert condition.right > 4 * R
        assert not condition


def test_theorem_3_by_hand() -> None:
    # eta 2, R = 4: s_max = 2, four arms; log2(log2(4)) = 1; log2(3!) / 3 = 0.8617.
    # 2 * (1 + 4 + 1 - 0.86165) = 10.2767, times 4 * (1 + 1) = 82.2135.
    # samples: ceil(log(0.25) / log(0.5)) * 1 + 1 = 3.
    condition = theory.max_budget_condition(4, 2, 0.5, 0.25, 1.0, [0.0] * 4, lambda x: 1.0)
    assert condition.right == pytest.approx(16 * (6 - math.log2(6) / 3))
    assert condition.right == pytest.approx(82.2135, abs=1e-4)


@pytest.mark.parametrize(
    ("limits", "epsilon", "message"),
    [
        ([1.0], 0.1, "two or more"),
        ([1.0, 0.0], 0.1, "ascending"),
        ([0.0, float("nan")], 0.1, "ascending"),
        ([0.0, 1.0], 0, "epsilon"),
    ],
)
def test_bad_input(limits: list[float], epsilon: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        theory.necessary_budget(limits, lambda x: 1.0, epsilon, 2, 8)
    with pytest.raises(InputError, match="whole number of 2 or more"):
        theory.necessary_budget([0.0, 1.0], lambda x: 1.0, 0.1, 1, 8)
    for alpha, delta in ((0, 0.5), (1, 0.5), (0.5, 0), (0.5, 2)):
        with pytest.raises(InputError, match="between 0 and 1"):
            theory.max_budget_condition(2, 2, alpha, delta, 0.1, [0.0, 1.0], lambda x: 1.0)
    with pytest.raises(InputError, match="needs one above eta"):
        theory.max_budget_condition(1, 2, 0.5, 0.5, 0.1, [0.0], lambda x: 1.0)
    with pytest.raises(InputError, match="the largest bracket has 4"):
        theory.max_budget_condition(4, 2, 0.5, 0.5, 0.1, [0.0, 1.0], lambda x: 1.0)
