"""Methods of deepband: a sampler, a first guess of max_budget, and a way of deepening.

When a study has finished at the right max_budget and budget is left, another study follows there
with another seed. Its sampler also sees the results of the earlier studies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from operator import itemgetter
from typing import TypeAlias

from deepband import open_study
from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.research.compare.deepening_rules import Rule
from deepband.research.compare.ledger import ETA, Ledger
from deepband.samplers import SAMPLERS, Sampler
from deepband.samplers.uniform import CHUNK
from deepband.space.search_space import Space
from deepband.study.study import Study

APART = 1_000_000
"""The distance between the indices of one study and the next, as a sampler sees them."""

Run: TypeAlias = Callable[[Study], None]


class SamplerWithHistory:
    """A sampler that also sees the results of earlier studies."""

    def __init__(self, sampler: Sampler, earlier: Sequence[Evaluation]) -> None:
        self.sampler, self.earlier = sampler, earlier

    @property
    def learns(self) -> bool:
        return self.sampler.learns

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config]:
        known = [*self.earlier, *observations] if self.learns else []
        known.sort(key=itemgetter(0, 1, 2))
        return self.sampler.draw(space, known, bracket, indices, seed)


def deepen_preserving(study: Study, levels: int, run: Run) -> None:
    """Deepen by `preserving`, one level after another."""
    for _ in range(levels):
        study.deepen("preserving")
        run(study)


def deepen_frugally(study: Study, levels: int, run: Run) -> None:
    """Deepen by `frugal`, one level after another, and fill the last one."""
    for _ in range(levels):
        study.deepen("frugal")
        run(study)
    if levels:
        study.deepen("preserving", to=study.max_budget)
        run(study)


def deepen_by_rule(rule: Rule) -> Callable[[Study, int, Run], None]:
    """Return a way of deepening that continues while a rule says so."""

    def deepen(study: Study, levels: int, run: Run) -> None:
        for _ in range(levels):
            if not rule(study):
                return
            deepen_preserving(study, 1, run)

    return deepen


def do_not_deepen(study: Study, levels: int, run: Run) -> None:
    """Stay at the first guess."""


@dataclass(frozen=True)
class OwnMethod:
    """A method of deepband."""

    sampler: str = "uniform"
    levels: int = 0
    """The first guess is too small by a factor of eta to the power of this."""
    deepen: Callable[[Study, int, Run], None] = deepen_preserving
    again: bool = True
    """Whether more studies follow while budget is left."""

    def __call__(self, ledger: Ledger, seed: int) -> None:
        earlier: list[Evaluation] = []
        for number in count() if self.again else range(1):
            study = self._study(ledger, seed + number, self.levels if number == 0 else 0, earlier)

            def run(study: Study, number: int = number) -> None:
                _run(study, ledger, number)

            run(study)
            if number == 0:
                self.deepen(study, self.levels, run)
            earlier = [*earlier, *_apart(study.evaluations, number)]

    def _study(
        self, ledger: Ledger, seed: int, levels: int, earlier: Sequence[Evaluation]
    ) -> Study:
        return open_study(
            space=ledger.task.space,
            eta=ETA,
            min_budget=1,
            max_budget=ledger.task.max_budget // ETA**levels,
            seed=seed,
            maximize=True,
            integer_budgets=False,  # every tool is charged exact budgets
            sampler=SamplerWithHistory(SAMPLERS[self.sampler](CHUNK), earlier),
        )


def _run(study: Study, ledger: Ledger, number: int) -> None:
    """Evaluate all jobs of a study, as one worker would."""
    while (job := study.ask()) is not None:
        training = number, job.bracket, job.index
        study.tell(job, ledger(training, job.config, job.budget))


def _apart(evaluations: Iterable[Evaluation], number: int) -> list[Evaluation]:
    """Return evaluations with indices that no other study has."""
    shift = APART * (number + 1)
    return [each._replace(index=each.index + shift) for each in evaluations]
