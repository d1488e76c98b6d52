"""The protocol that every storage implements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from deepband.core.facts import Fact
from deepband.core.state import State


class Storage(Protocol):
    """Keeps the facts of one study."""

    @property
    def path(self) -> Path | None:
        """The study's file, if it has one."""

    @property
    def files(self) -> Path | None:
        """The folder beside it, for checkpoints and results that wait."""

    def load(self) -> Iterable[Fact]:
        """The facts from which the state can be rebuilt; none if the study does not exist yet.
        Which jobs are running is not among them. Needs no lock."""

    def lock(self) -> bool:
        """Lock the study for writing, or raise LockedError. Locking twice does nothing.

        Returns True if the study has changed since it was loaded, and must be loaded again."""

    def begin_turn(self, state: State, seconds: float) -> Sequence[Fact] | None:
        """Lock the study for one call, or raise LockedError if that takes longer than this.

        Returns the facts that were added since the state was read here, or None if the study must
        be loaded again."""

    def end_turn(self) -> None:
        """Release the lock, if it is held."""

    def check_unlocked(self) -> None:
        """Raise LockedError if another process has locked the study."""

    def append(self, facts: Sequence[Fact]) -> None:
        """Store all of these facts durably or, if it raises, none of them. Needs the lock."""

    def close(self) -> None:
        """Release the lock and all resources. Closing twice does nothing."""
