"""The theorems of "Iterative Deepening Hyperband" as functions.

Letters are the paper's: n arms (configs), n_old of which took part in the previous run, R the
max_budget, s the number of halvings in a bracket, eta the reduction factor, limits the nu_i in
ascending order, and gamma_inverse the inverse of the convergence speed: after gamma_inverse(x)
pulls, no arm's loss is further than x from its limit.

Where the paper's terms are rational, results are exact fractions. Each docstring says where a
theorem does not hold or does not apply to what deepband runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from deepband.core.exact_numbers import check_eta
from deepband.core.schedule import Schedule
from deepband.errors import InputError


def necessary_budget(
    limits: Sequence[float],
    gamma_inverse: Callable[[float], float],
    epsilon: float,
    eta: int,
    max_budget: float,
) -> float:
    """Return z of Theorem 1, the budget that suffices for one bracket to find a near-best arm.

    The theorem: if every arm's loss converges to its limit at least as fast as gamma says, a
    bracket run with a budget of z or more returns an arm whose limit is within epsilon / 2 of
    the best. Its limits:

    - For `efficient` it fails where a rung gains no slot. With n = 3, n_old = 2 and eta 2 the next
      rung has one slot before and after; an old arm keeps it, and no budget lets a better new
      arm take its place. The sizes of Hyperband's own brackets avoid this.
    - In Hyperband's largest bracket it is vacuous. That bracket has eta**T arms and a budget of
      (T + 1) * R, which is below z whatever the limits are, since gamma_inverse is at least 1.
    """
    rounds = _ceil_log(len(limits), check_eta(eta))
    return eta * rounds * _hardest_arm(limits, gamma_inverse, epsilon, max_budget)


def rerun_pulls(n: int, R: int, s: int, eta: int) -> int:
    """Count the pulls of successive halving over rounds 0..s, rounded down as in the paper."""
    return sum(int(n // eta**k) * int(R * eta**k // eta**s) for k in range(s + 1))


def efficient_pulls(n: int, n_old: int, R: int, s: int, eta: int) -> int:
    """Count the pulls of eID-SH as the paper does: every round, including the last, saves those
    of the old arms.

    See `filled_efficient_pulls` for what deepband runs.
    """
    return rerun_pulls(n, R, s, eta) - rerun_pulls(n_old, R, s, eta)


def filled_efficient_pulls(n: int, n_old: int, R: int, s: int, eta: int) -> int:
    """Count the pulls of `efficient` as deepband runs it, with the new top rung filled.

    No arm has been evaluated on the new top rung, so nothing is saved there. The authors'
    experiments count the same way.
    """
    return efficient_pulls(n, n_old, R, s, eta) + int(n_old // eta**s) * R


def discarding_pulls(n: int, n_old: int, R: int, s: int, eta: int) -> int:
    """Count the pulls of p/dID-SH in the worst case, in which only the first round saves any."""
    return rerun_pulls(n, R, s, eta) - n_old * int(R // eta**s)


def efficient_fraction(n: int, n_old: int, R: int, s: int, eta: int) -> Fraction:
    """Return the bound of Theorem 2 a): the share of a rerun's pulls that eID-SH needs at most.

    Assumes that successive halving has been run on n_old of the n arms with R / eta. The theorem
    bounds the paper's count (`efficient_pulls`). It does not always bound what deepband runs
    (`filled_efficient_pulls`): for s of 1 or 2 and large R that count can exceed it. Undefined
    where the paper's lower bound on the rerun's pulls is zero, as at R = eta with s = 1.
    """
    saved = (s + 1) * (n_old * R + eta**s) * (eta - 1) - (eta ** (s + 1) - 1) * (2 * R + n)
    return 1 - Fraction(saved, _rerun_bound(n, R, s, eta))


def discarding_fraction(n: int, n_old: int, R: int, s: int, eta: int) -> Fraction:
    """Return the bound of Theorem 2 b): the share of a rerun's pulls for pID-SH and dID-SH.

    Same assumptions as part a), and undefined for the same arguments. It covers the worst case,
    in which no old arm is promoted again, and may exceed 1.
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
    """Return the condition of Theorem 3 on R: where it holds, ID-HB finds an epsilon-optimal
    config with probability at least 1 - delta.

    Assumes that every loss converges as gamma says and that a share alpha of all configs is
    epsilon-optimal. `limits` are those of the largest bracket, which has eta**s_max arms.

    As printed, no R satisfies it: with more than R / eta arms in the largest bracket and at least
    4 in the parenthesis, the right side exceeds 4 R. Use it to study the theorem, not to choose R.
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
