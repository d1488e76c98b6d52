"""What a storage is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from deepband.facts import Fact


class Storage(Protocol):
    """Keeps the facts of one study in the order in which they came."""

    def load(self) -> Iterable[Fact]:
        """All facts, oldest first, without the notes of who runs what; none for a study that
        does not exist yet."""

    def append(self, facts: Sequence[Fact]) -> None:
        """Keep all of these or, if it raises, none."""

    def close(self) -> None:
        """Let go of what is held. Closing twice does nothing."""
