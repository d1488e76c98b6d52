"""Whether reported learning curves are flat: how much they still change at the end of training.

The last half of a training is split into two quarters. A curve still changes if the median of the
last quarter lies outside the range of the quarter before it. A noisy but flat curve therefore does
not count as changing, however strong its noise is. Changes in either direction count, because some
objectives report a score and others a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypeAlias

from deepband.analysis.chart_data import is_drawable, on_rung
from deepband.core.state import State

Points: TypeAlias = Sequence[tuple[float, float]]
"""The (step, loss) pairs of a learning curve."""

FLAT_SHARE = 0.01
"""A curve is flat if it changes by no more than this share of the spread, or by no more than the
noise. For a loss that falls like 1 / budget, this is the point at which a rung with eta 3 gains a
tenth of the spread."""


def last_change(state: State) -> float | None:
    """The largest change at the end of the best reported curves, or None if there are none.

    The best curves are those that a deepening would train further first: of all configs with a
    reported curve on the top rung, the best 1/eta, rounded up.
    """
    found = [
        change
        for result, _ in on_rung(state, state.schedule.top)
        if (change := change_of(result.curve or ())) is not None
    ]
    return max(found[: -(-len(found) // state.schedule.eta)], default=None)


def change_of(curve: Points) -> float | None:
    """How far the median of the last quarter lies outside the range of the quarter before it; None
    if fewer than two points were reported in the last half."""
    losses = _last_half(sorted(point for point in curve if is_drawable(point[1])))
    if len(losses) < 2:
        return None
    earlier, end = losses[: len(losses) // 2], median(losses[-(len(losses) // 2) :])
    return max(min(earlier) - end, end - max(earlier), 0.0)


def _last_half(points: Points) -> list[float]:
    """The losses in the last half of a training, whose steps are counted from 0."""
    if not points:
        return []
    middle = (min(points[0][0], 0.0) + points[-1][0]) / 2
    return [loss for step, loss in points if step > middle]


def is_flat(change: float | None, spread: float | None, noise: float) -> bool:
    """Whether the best reported curves are flat. False if nothing was reported."""
    return change is not None and change <= max(noise, FLAT_SHARE * (spread or 0.0), 0.0)
