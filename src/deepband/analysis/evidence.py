"""The evidence for a larger max_budget, from the finite losses on the rungs of a finished run.

Deepening pays while the best config still improves: it gained more than a tenth of the spread, and
more than the noise, on the top rung. It pays, too, while the two top rungs rank configs differently
beyond the noise, and if there is no evidence: fewer than two configs are on both rungs, or the best
config by far started on the top one while others gained there. After a frugal deepening, which may
leave a single config on the top rung, one config is enough.

With several objectives, the front of the promoted configs takes the place of the best config: its
gain is how much larger its hypervolume is than that of the same configs on the rung below. Nearly
always, configs that started on the top rung are on the front, too; they say nothing about gains.
The spread reaches from the hypervolume of the front to the median of that of single configs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from deepband.analysis import gains
from deepband.analysis.front_volumes import FrontVolumes
from deepband.analysis.gains import Losses
from deepband.core.rank_order import Place

LEAST_GAIN = 0.1
"""An improvement counts if it is more than this share of the spread."""
FEWEST = 2
"""How many configs must be on both top rungs to conclude that deepening does not pay."""
# Both are measured by `bench/auto.py`; `docs/explanation/decisions.md` has the numbers.


@dataclass(frozen=True, slots=True)
class Evidence:
    """The numbers that decide."""

    high: Losses
    """The losses on the top rung."""
    both: int
    judged: Place | None
    gain: float | None
    promoted_gain: float | None
    """What the best config that was promoted to the top rung gained there."""
    largest_gain: float | None
    spread: float | None
    noise: float
    crossings: int
    exchanges: int
    subject: str = "the best config"
    """What gains: the best config or the front."""


def look(rungs: Sequence[Losses], least_gain: float = LEAST_GAIN) -> Evidence:
    """The numbers that decide, from the finite losses on each rung."""
    low, high = rungs[-2] if len(rungs) > 1 else {}, rungs[-1]
    noise, crossings = gains.noise(rungs)
    spread = median(low.values()) - min(high.values()) if low and high else None
    promoted = sorted((loss, place) for place, loss in high.items() if place in low)
    own = [low[place] - loss for loss, place in promoted]
    width = max(noise, least_gain * (spread or 0.0))
    judged = promoted[0][1] if promoted and promoted[0][0] - min(high.values()) <= width else None
    return Evidence(
        high=high,
        both=len(promoted),
        judged=judged,
        gain=own[0] if judged is not None else None,
        promoted_gain=own[0] if own else None,
        largest_gain=max(own, default=None),
        spread=spread,
        noise=noise,
        crossings=crossings,
        exchanges=gains.exchanges(low, high, noise),
    )


def look_at_fronts(rungs: Sequence[Losses], volumes: FrontVolumes) -> Evidence:
    """The numbers that decide with several objectives, from the losses of single configs and the
    volumes of fronts."""
    found, top = look(rungs), len(rungs) - 1
    low, high = rungs[top - 1] if top else {}, rungs[top]
    if not low or not high:
        return replace(found, subject="the front")
    both = [place for place in high if place in low]
    gain = volumes.of(top, both) - volumes.of(top - 1, both) if both else None
    return replace(
        found,
        subject="the front",
        judged=min(both, key=lambda place: (high[place], place), default=None),
        gain=gain,
        promoted_gain=gain,
        spread=median(low.values()) + volumes.of(top),
    )


def decide(
    found: Evidence, least_gain: float = LEAST_GAIN, fewest: int = FEWEST
) -> tuple[bool, str]:
    """Whether deepening pays by this evidence, and the reason in words."""
    gain, spread = found.gain, found.spread
    if not found.high:
        return False, "no config has a finite result on the top rung"
    if found.both < fewest:
        return True, "too few configs are on both top rungs to tell"
    if gain is None or spread is None:
        return _decide_by_others(found)
    share = share_of(gain, spread)
    if gain > max(found.noise, least_gain * spread, 0.0):
        return True, f"{found.subject} still gained {share} on the top rung"
    if found.exchanges:
        return True, "the two top rungs rank configs differently"
    return False, f"{found.subject} gained {_little(gain, found.noise, share)} on the top rung"


def _decide_by_others(found: Evidence) -> tuple[bool, str]:
    """The decision if the best config by far started on the top rung."""
    if (found.largest_gain or 0.0) <= 0 and not found.exchanges:
        return False, "no config gained anything on the top rung"
    return True, "the best config started on the top rung, so its improvement is unknown"


def share_of(gain: float, spread: float) -> str:
    """A gain as a share of the spread, in words. Shares have two digits, or no decimals."""
    if spread <= 0:
        return f"{gain:.4g}"
    percent = 100 * gain / spread
    return f"{percent:.0f} % of the spread" if percent >= 10 else f"{percent:.2g} % of the spread"


def _little(gain: float, noise: float, share: str) -> str:
    if gain <= 0:
        return "nothing"
    return "no more than the noise" if gain <= noise else f"only {share}"
