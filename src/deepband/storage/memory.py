"""A storage in memory, for studies that need not survive their process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepband.core.facts import Fact, JobReleased, JobsStarted
from deepband.core.state import State

NOTES = frozenset({JobsStarted, JobReleased})


class MemoryStorage:
    """Keeps facts in a list."""

    path: None = None
    files: None = None

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = list(facts)

    def load(self) -> Iterable[Fact]:
        return tuple(self._facts)

    def lock(self) -> bool:
        return False

    def begin_turn(self, state: State, seconds: float) -> Sequence[Fact]:
        return ()

    def end_turn(self) -> None:
        pass

    def check_unlocked(self) -> None:
        pass

    def append(self, facts: Sequence[Fact]) -> None:
        self._facts += [fact for fact in facts if type(fact) not in NOTES]

    def close(self) -> None:
        pass
