"""How the results of a study rank, and which is the best on each rung.

While every result is ranked by one loss, a loss is all there is to compare. Several objectives,
constraints, rejected configs and training that was stopped early make a `Standing` of each result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import cast

from deepband.core.criteria import Criteria
from deepband.core.facts import PRECHECK, JobFinished, JobKey
from deepband.core.rank_order import Score, Standing
from deepband.errors import FactError


class Standings:
    """The standings of all results that were noted. Only `note` changes them."""

    def __init__(self, criteria: Criteria) -> None:
        self.criteria = criteria
        self.leaders: dict[int, JobFinished] = {}
        """By rung: the feasible evaluation with the smallest finite loss, if there is one. Empty
        with several objectives."""
        self.rejected = False
        """Whether any config was rejected before it was trained."""
        self.stopped: dict[JobKey, float] = {}
        """By job: the budget after which its training was stopped early."""

    def copy(self) -> Standings:
        """An independent copy."""
        other = Standings(self.criteria)
        other.leaders, other.stopped = dict(self.leaders), dict(self.stopped)
        other.rejected = self.rejected
        return other

    def note(self, fact: JobFinished) -> None:
        """Take a result into account."""
        loss, leader = fact.loss, self.leaders.get(fact.rung)
        if loss is None:
            return
        if isinstance(loss, tuple) or self.criteria.several:
            self.check(fact)
            self.rejected = self.rejected or fact.origin == PRECHECK
            return
        # Nearly always, there is a better one. Leaders have one objective.
        if leader is not None and leader.loss < loss < math.inf:  # type: ignore[operator]
            return
        if loss == math.inf:
            self.rejected = self.rejected or fact.origin == PRECHECK
            if fact.stopped_after is not None:
                self.stopped[fact[:3]] = fact.stopped_after
            return
        if self.criteria.constraints and not self.of(fact).feasible:
            return
        if leader is None or _precedence(fact) < _precedence(leader):
            self.leaders[fact.rung] = fact

    def check(self, fact: JobFinished) -> None:
        """Raise a FactError unless a result has one loss for each objective."""
        if not self.criteria.fits(fact.loss):
            raise FactError(f"{fact} does not have one loss for each objective")

    def scores(self, results: Mapping[int, JobFinished]) -> dict[int, Score]:
        """What ranks configs on a rung, by index as in `results`."""
        if self._by_loss:  # nearly always
            return cast(dict[int, Score], {index: each.loss for index, each in results.items()})
        return {index: self.of(result) for index, result in results.items()}

    def score(self, result: JobFinished) -> Score:
        """What ranks a config on the rung of this result."""
        return cast(Score, result.loss) if self._by_loss else self.of(result)

    def of(self, result: JobFinished) -> Standing:
        """The losses of a result, and by how much it violates the constraints."""
        loss = result.loss
        if loss is None:
            return Standing(None)
        losses = loss if isinstance(loss, tuple) else (loss,)
        if result.origin == PRECHECK:
            return Standing(losses, (math.inf,) * max(1, len(self.criteria.constraints)))
        if result.stopped_after is not None:
            return Standing(losses, stopped=(-result.stopped_after, self._last_reported(result)))
        return Standing(losses, self.criteria.violations(loss, result.metrics))

    def is_feasible(self, result: JobFinished) -> bool:
        """Whether a result did not fail, was not rejected, and violates no bound."""
        if not self.criteria.constraints:
            return result.loss is not None and result.origin != PRECHECK
        return self.of(result).feasible

    def _last_reported(self, result: JobFinished) -> float:
        """The last loss that was reported during training; infinite if there is none."""
        last = result.curve[-1][1] if result.curve else math.nan
        return (-last if self.criteria.maximize else last) if math.isfinite(last) else math.inf

    @property
    def _by_loss(self) -> bool:
        """Whether one number orders the configs."""
        return self.criteria.ranks_by_loss and not self.rejected and not self.stopped


_precedence = attrgetter("loss", "bracket", "index")
