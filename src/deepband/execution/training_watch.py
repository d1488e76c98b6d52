"""Whether training should stop early, from what it has reported so far."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from deepband.system import plain_files

TrainingLimits: TypeAlias = tuple[tuple[float, float], ...]
"""Budgets in ascending order, each with the loss above which a config is hopeless there."""
Curve: TypeAlias = tuple[tuple[float, float], ...]
MOST_BYTES = 2**20
"""How much of a watch file is read."""


@dataclass
class TrainingWatch:
    """Watches the losses that one evaluation reports.

    Training should stop when a loss is infinite or NaN, or above the limit of a budget: the first
    loss that is reported at that budget or later, and before the next one, is compared with it. A
    loss that is reported at the end of the evaluation is above no limit: there is nothing to save.
    """

    limits: TrainingLimits = ()
    budget: float = math.inf
    """That of the evaluation."""
    maximize: bool = False
    """Whether values are reported, of which the larger one is better."""
    persistent: bool = False
    """Whether an interrupted attempt leaves what it was watched for to the next one."""
    step: float = 0.0
    """The largest step reported so far, in the unit of the budget."""
    curve: Curve | None = None
    """What was reported until a loss said that training should stop; None if none has."""
    stopped: bool = False
    """Whether the objective was told so."""

    def report(self, step: float, loss: float, curve: Sequence[tuple[float, float]]) -> bool:
        """Take note of a loss or value, the last one of this curve. Returns whether it was compared
        with a limit."""
        if self.curve is not None:
            return False
        if not math.isfinite(loss):
            self.curve = tuple(curve)
            return False  # the next attempt may be one of an objective that was fixed
        reached = [limit for budget, limit in self.limits if self.step < budget <= step]
        self.step = max(self.step, step)
        if reached and step < self.budget and (-loss if self.maximize else loss) > reached[-1]:
            self.curve = tuple(curve)
        return bool(reached)

    def resume(self, curve: Sequence[tuple[float, float]]) -> None:
        """Take note of what an interrupted attempt had reported until the state that this one
        continues from: it may have diverged."""
        for position, (_, loss) in enumerate(curve, 1):
            if self.curve is None and not math.isfinite(loss):
                self.curve = tuple(curve[:position])

    def should_stop(self) -> bool:
        """Whether training should stop. If so, the evaluation counts as stopped early."""
        self.stopped = self.curve is not None
        return self.stopped

    def stopped_after(self, budget: float) -> float:
        """The budget that an evaluation with this budget had used when it should have stopped: the
        largest step until then or, if that is not within the budget, all of it."""
        step = max((step for step, _ in self.curve or ()), default=0.0)
        return step if 0.0 < step < budget else float(budget)

    def save(self, file: Path) -> None:
        """Write what the next attempt has to know if this one is interrupted."""
        content = json.dumps(
            {"limits": self.limits, "step": self.step, "curve": self.curve}
        ).encode()
        part = file.with_suffix(".new")
        with suppress(OSError):  # such as a full disk: then a later loss may be compared
            with open(plain_files.create_file(part.parent, part.name), "wb") as stream:
                stream.write(content)
            part.replace(file)

    def continued(self, file: Path) -> TrainingWatch:
        """The watch of an attempt that continues after the one that has left this file, if that had
        the same limits."""
        if not self.limits:
            return self
        try:
            found = json.loads(plain_files.read_file(file.parent, file.name, most=MOST_BYTES))
            step, curve = float(found["step"]), _read_curve(found["curve"])
            same = _read_curve(found["limits"]) == self.limits
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return self
        return replace(self, step=step, curve=curve) if step >= 0.0 and same else self


def _read_curve(given: Any) -> Curve | None:
    return None if given is None else tuple((float(step), float(loss)) for step, loss in given)
