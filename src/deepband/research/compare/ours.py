"""Studies of ours: a sampler, a first guess of max_budget, and how they go deeper.

A study that is done at the right max_budget and has budget left is followed by another one there,
with another seed, whose sampler also sees what the studies before it have found.
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
from deepband.research.compare.deciding import Rule
from deepband.research.compare.ledger import ETA, Ledger
from deepband.samplers import SAMPLERS, Sampler
from deepband.samplers.uniform import CHUNK
from deepband.space.search_space import Space
from deepband.study.study import Study

APART = 1_000_000
"""Between the indices of a study and those of the next one, for the eyes of a sampler."""

Run: TypeAlias = Callable[[Study], None]


class Remembering:
    """A sampler that also sees what earlier studies have found."""

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


def step_by_step(study: Study, levels: int, run: Run) -> None:
    """Deepen by `preserving`, level after level."""
    for _ in range(levels):
        study.deepen("preserving")
        run(study)


def frugally(study: Study, levels: int, run: Run) -> None:
    """Deepen by `frugal`, level after level, and fill the last one."""
    for _ in range(levels):
        study.deepen("frugal")
        run(study)
    if levels:
        study.deepen("preserving", to=study.max_budget)
        run(study)


def while_told(rule: Rule) -> Callable[[Study, int, Run], None]:
    """Deepen while a rule says so, up to the right max_budget."""

    def deepen(study: Study, levels: int, run: Run) -> None:
        for _ in range(levels):
            if not rule(study):
                return
            step_by_step(study, 1, run)

    return deepen


def not_at_all(study: Study, levels: int, run: Run) -> None:
    """Leave it at the first guess."""


@dataclass(frozen=True)
class Ours:
    """A method of ours."""

    sampler: str = "uniform"
    levels: int = 0
    """The first guess is too small by eta to the power of this."""
    deepen: Callable[[Study, int, Run], None] = step_by_step
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
            sampler=Remembering(SAMPLERS[self.sampler](CHUNK), earlier),
        )


def _run(study: Study, ledger: Ledger, number: int) -> None:
    """Evaluate what is open, as one worker does."""
    while (job := study.ask()) is not None:
        training = number, job.bracket, job.index
        study.tell(job, ledger(training, job.config, job.budget))


def _apart(evaluations: Iterable[Evaluation], number: int) -> list[Evaluation]:
    """Evaluations with indices that no other study has."""
    shift = APART * (number + 1)
    return [each._replace(index=each.index + shift) for each in evaluations]
