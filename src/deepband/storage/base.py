"""What a storage is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from deepband.core.facts import Fact


class Storage(Protocol):
    """Keeps the facts of one study."""

    def load(self) -> Iterable[Fact]:
        """Facts that lead to the state of the study, without the notes of who runs what; none for
        a study that does not exist yet. Needs no lock."""

    def lock(self) -> bool:
        """Become the one driver, or raise HeldError. Locking twice does nothing.

        True when the study has changed since it was loaded, and must be loaded again."""

    def append(self, facts: Sequence[Fact]) -> None:
        """Keep all of these for good or, if it raises, none. Needs the lock."""

    def close(self) -> None:
        """Let go of what is held. Closing twice does nothing."""
