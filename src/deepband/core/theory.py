"""The theorems of "Iterative Deepening Hyperband" as functions.

Letters are the paper's: n arms (configs) of which n_old were there before, R the max_budget,
s the number of halvings in a bracket, eta the reduction factor, limits the nu_i in ascending
order, and gamma_inverse the inverse of the convergence speed: after gamma_inverse(x) pulls, no
arm's loss is further than x from its limit.

Exact where the paper's terms are rational: those results are fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from deepband.core.schedule import Schedule, check_eta
from deepband.errors import InputError


def necessary_budget(
    limits: Sequence[float],
    gamma_inverse: Callable[[float], float],
    epsilon: float,
    eta: int,
    max_budget: float,
) -> float:
    """Theorem 1: z of ID-SH, a budget with which successive halving finds a near-best arm.

    Assumes that every arm's loss converges to its limit at least as fast as gamma says. Then any
    of the three ways of deepening, run with this budget or more, returns an arm whose limit is
    within epsilon / 2 of the best.
    """
    rounds = _ceil_log(len(limits), check_eta(eta))
    return eta * rounds * _hardest_arm(limits, gamma_inverse, epsilon, max_budget)


def rerun_pulls(n: int, R: int, s: int, eta: int) -> int:
    """How many pulls successive halving makes over rounds 0..s, in the paper's floored count."""
    return sum(int(n // eta**k) * int(R * eta**k // eta**s) for k in range(s + 1))


def efficient_pulls(n: int, n_old: int, R: int, s: int, eta: int) -> int:
    """The paper's count for eID-SH: every round, the last one too, saves what was there before.

    deepband makes up to `(n_old // eta**s) * R` more, because nobody has been on the new top
    rung and its slots are filled all the same, as in the authors' experiments.
    """
    return rerun_pulls(n, R, s, eta) - rerun_pulls(n_old, R, s, eta)


def discarding_pulls(n: int, n_old: int, R: int, s: int, eta: int) -> int:
    """The most pulls that p/dID-SH can make: only the first round saves anything."""
    return rerun_pulls(n, R, s, eta) - n_old * int(R // eta**s)


def efficient_fraction(n: int, n_old: int, R: int, s: int, eta: int) -> Fraction:
    """Theorem 2 a): at most this share of a rerun's pulls is what eID-SH needs.

    Assumes successive halving was run before on n_old of the n arms with R / eta. It bounds the
    paper's count (`efficient_pulls`), not always ours. Undefined where the paper's lower bound
    on the rerun's pulls is zero, as at R = eta with s = 1.
    """
    saved = (s + 1) * (n_old * R + eta**s) * (eta - 1) - (eta ** (s + 1) - 1) * (2 * R + n)
    return 1 - Fraction(saved, _rerun_bound(n, R, s, eta))


def discarding_fraction(n: int, n_old: int, R: int, s: int, eta: int) -> Fraction:
    """Theorem 2 b): at most this share of a rerun's pulls is what pID-SH or dID-SH needs.

    Assumes what a) does, and is undefined where a) is. It is the worst case, in which no old arm
    is promoted again; it may exceed 1.
    """
    saved = (eta - 1) * ((s + 1) * eta**s + R * n_old) - (eta ** (s + 1) - 1) * (R + n)
    return 1 - Fraction(saved, _rerun_bound(n, R, s, eta))


@dataclass(frozen=True, slots=True)
class Condition:
    """An inequality `left >= right` with both of its sides."""

    left: float
    right: float

    def __bool__(self) -> bool:
        return self.left >= self.right


def max_budget_condition(
    max_budget: int,
    eta: int,
    alpha: float,
    delta: float,
    epsilon: float,
    limits: Sequence[float],
    gamma_inverse: Callable[[float], float],
) -> Condition:
    """Theorem 3: the condition on R under which ID-HB finds an epsilon-optimal config with
    probability at least 1 - delta.

    Assumes that every loss converges as gamma says and that a share alpha of all configs is
    epsilon-optimal. `limits` are those of the largest bracket, which has eta**s_max arms.

    As printed no R satisfies it: with more than R / eta arms in the largest bracket and at least
    4 in the parenthesis, the right side exceeds 4 R. It is here to be looked at, not to plan
    with.
    """
    top = Schedule.of(eta, 1, max_budget).top
    if top < 1:
        raise InputError(f"max_budget is {max_budget!r}: Theorem 3 needs one above eta, {eta}.")
    if len(limits) != eta**top:
        raise InputError(f"limits has {len(limits)} values: the largest bracket has {eta**top}.")
    for name, share in (("alpha", alpha), ("delta", delta)):
        if not 0 < share < 1:
            raise InputError(f"{name} is {share!r}: give a number between 0 and 1.")
    samples = math.ceil(math.log(delta) / math.log(1 - alpha)) * (eta - 1) + 1
    log_of_log = math.log(math.log(max_budget, eta), eta)
    factorial = math.log(math.factorial(top + 1), eta) / (top + 1)
    rounds = eta * (log_of_log + 4 + top / 2 - factorial)
    hardest = _hardest_arm(limits, gamma_inverse, epsilon, max_budget)
    return Condition(float(max_budget), max(samples, rounds * hardest))


def _hardest_arm(
    limits: Sequence[float],
    gamma_inverse: Callable[[float], float],
    epsilon: float,
    max_budget: float,
) -> float:
    """max over i >= 2 of i * (1 + min(R, gamma_inverse(max(epsilon / 4, (nu_i - nu_1) / 2))))."""
    if len(limits) < 2 or not all(low <= high for low, high in pairwise(limits)):
        raise InputError("limits are two or more numbers in ascending order.")
    if not epsilon > 0:
        raise InputError(f"epsilon is {epsilon!r}: give a number above zero.")
    best = limits[0]
    return max(
        i * (1 + min(max_budget, gamma_inverse(max(epsilon / 4, (limit - best) / 2))))
        for i, limit in enumerate(limits[1:], start=2)
    )


def _rerun_bound(n: int, R: int, s: int, eta: int) -> int:
    """The paper's lower bound on a rerun's pulls, times eta**s * (eta - 1)."""
    bound: int = (s + 1) * (n * R + eta**s) * (eta - 1) - (eta ** (s + 1) - 1) * (R + n)
    if bound == 0:
        raise InputError(
            f"Theorem 2 is undefined for n = {n}, R = {R}, s = {s}, eta = {eta}: its lower bound "
            "on the pulls of a rerun is zero."
        )
    return bound


def _ceil_log(number: int, base: int) -> int:
    """The smallest k with base**k >= number, without a logarithm."""
    k = 0
    while base**k < number:
        k += 1
    return k
