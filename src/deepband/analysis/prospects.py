"""What the two ways to extend a finished run are expected to gain, and what they cost.

Deepening is expected to gain what the best promoted config gained on the top rung, because the next
rung rarely gains more, and what its additional configs gain. Widening gains what more configs gain
alone (`expected_best`). Both are compared at the same cost: the configs that widening could add for
the cost of deepening. Costs for this comparison come from the schedules alone, so that work ahead,
which depends on the number of workers, does not influence it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

from deepband.analysis import plateau
from deepband.analysis.evidence import FEWEST, LEAST_GAIN, Evidence, decide, share_of
from deepband.analysis.expected_best import gain_of_more, tail_scale
from deepband.core.extension import Target, deeper, extended, wider
from deepband.core.record_text import record_repr
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.core.strategies import StrategyName
from deepband.errors import InputError

TOO_LARGE = "the next run would be too large"


@dataclass(frozen=True, slots=True)
class Prospect:
    """What one way to extend a study is expected to gain, and whether that is worth its cost."""

    pays: bool
    reason: str
    gain: float | None = None
    """The expected improvement of the best loss on the top rung; None if it cannot be estimated."""
    error: float | None = None
    """The standard error of the part that more configs contribute, if it can be estimated."""
    cost: Fraction | None = None
    """What a full run pays for this step, with every evaluation at its full budget. A quote is
    exact and also counts work ahead and imported results."""
    configs: int = 0
    """How many configs it adds."""

    __repr__ = record_repr


def deepening(state: State, found: Evidence, change: float | None) -> Prospect:
    """The prospect of one level deeper, with `change` at the end of the best reported curves."""
    larger = _larger(state, "preserving", deeper(state))
    if larger is None:
        return Prospect(False, TOO_LARGE)
    full, few = state.full.schedule, found.both < (1 if state.run.frugal else FEWEST)
    pays, reason = _deepening_pays(state, found, change)
    scale = None if few else tail_scale(found.high.values())
    more = None if scale is None else gain_of_more(scale, larger.configs / full.configs)
    return Prospect(
        pays,
        reason,
        gain=None if few else max(found.promoted_gain or 0.0, 0.0) + (more.value if more else 0.0),
        error=more.error if more else None,
        cost=larger.cost - full.cost,
        configs=larger.configs - full.configs,
    )


def _deepening_pays(state: State, found: Evidence, change: float | None) -> tuple[bool, str]:
    if found.high and plateau.is_flat(change, found.spread, found.noise):
        return False, "the best reported curves were flat in the last half of training"
    return decide(found, fewest=1 if state.run.frugal else FEWEST)


def widening(state: State, found: Evidence) -> Prospect:
    """The prospect of one more width."""
    larger, here = _larger(state, "efficient", wider(state)), state.schedule
    if larger is None:
        return Prospect(False, TOO_LARGE)
    if state.run.frugal:
        return Prospect(False, "a frugal run says nothing about new configs")
    cost, configs = larger.cost - here.cost, larger.configs - here.configs
    scale = tail_scale(found.high.values())
    if scale is None:
        return Prospect(False, _TOO_FEW, cost=cost, configs=configs)
    gain = gain_of_more(scale, larger.width / here.width)
    spread = _spread(found)
    pays = gain.value > max(found.noise, LEAST_GAIN * spread, 0.0)
    share = ("" if pays else "only ") + share_of(gain.value, spread)
    are = "config is" if configs == 1 else "configs are"
    reason = f"{configs} more {are} expected to gain {share}"
    return Prospect(pays, reason, *gain, cost=cost, configs=configs)


_TOO_FEW = "too few configs are on the top rung to tell what more of them would gain"


def _spread(found: Evidence) -> float:
    """The spread, or what comes closest to it if there is only one rung."""
    if found.spread is not None:
        return found.spread
    return median(found.high.values()) - min(found.high.values())


def gain_of_cost(state: State, found: Evidence, deeper: Prospect, wider: Prospect) -> float | None:
    """What widening is expected to gain for the cost of deepening; None if that is unknown."""
    scale = tail_scale(found.high.values())
    if not deeper.cost or not wider.cost or wider.gain is None or scale is None:
        return None
    widths = float(deeper.cost / wider.cost)
    return gain_of_more(scale, 1 + widths / state.schedule.width).value


def _larger(state: State, strategy: StrategyName, target: Target) -> Schedule | None:
    """The schedule of an extension, or None if it would be refused."""
    with suppress(InputError):
        return extended(state, strategy, target)
    return None
