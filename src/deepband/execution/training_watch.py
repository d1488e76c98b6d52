"""Whether training should stop early, from what it has reported so far."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

TrainingLimits: TypeAlias = tuple[tuple[float, float], ...]
"""Budgets in ascending order, each with the loss above which a config is hopeless there."""


@dataclass
class TrainingWatch:
    """Watches the losses that one evaluation reports.

    Training should stop when a loss is infinite or NaN, or above the limit of a budget: the first
    loss that is reported at that budget or later, and before the next one, is compared with it.
    """

    limits: TrainingLimits = ()
    budget: float = math.inf
    """That of the evaluation. A larger step says that steps are not in its unit, and that no limit
    applies."""
    maximize: bool = False
    """Whether values are reported, of which the larger one is better."""
    hopeless: bool = False
    """Whether a reported loss says that training should stop."""
    stopped: bool = False
    """Whether the objective was told so."""
    step: float = 0.0
    """The largest step reported so far, in the unit of the budget."""

    def report(self, step: float, loss: float) -> None:
        """Take note of a reported loss or value."""
        reached = [limit for budget, limit in self.limits if self.step < budget <= step]
        limit = reached[-1] if reached and step <= self.budget else math.inf
        if not math.isfinite(loss) or (-loss if self.maximize else loss) > limit:
            self.hopeless = True
        self.step = max(self.step, step)

    def should_stop(self) -> bool:
        """Whether training should stop. If so, the evaluation counts as stopped early."""
        self.stopped = self.stopped or self.hopeless
        return self.hopeless

    def stopped_after(self, budget: float) -> float:
        """The budget that an evaluation with this budget has used so far: the last step or, if that
        is unknown, all of it."""
        return self.step if 0.0 < self.step < budget else float(budget)
