"""How a loop shares a study with other processes: not at all, or by leases.

A driver has locked the study, so nobody else can write to it. A process that leases its jobs locks
the study for a moment at a time, and other processes record results and lease jobs in between.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from deepband.core.facts import JobKey
from deepband.core.records import Attempt
from deepband.core.state import State


class SharedUse(Protocol):
    """What a loop has to know about other processes."""

    @property
    def has_leftovers(self) -> bool:
        """Whether a process has ended that left results, or workers that are still running."""

    @property
    def any_succeeded(self) -> bool:
        """Whether another process has recorded a successful evaluation since the loop began."""

    def turn(self) -> AbstractContextManager[None]:
        """Within it, the state is up to date and no other process writes."""

    def is_taken(self, key: JobKey) -> bool:
        """Whether a lease of a job is in force, so that its files belong to the process with that
        lease."""

    def wanted(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        """The attempts whose outcomes can be recorded: the others were overtaken by another
        process. Within a turn."""

    def wait(self) -> bool:
        """Wait a moment for other processes. False if there is nothing to wait for."""


class StateHolder(Protocol):
    """The part of an open study that has its state."""

    @property
    def state(self) -> State: ...


class SoleUse:
    """The use of a study that this process has locked."""

    has_leftovers = False
    any_succeeded = False

    def __init__(self, session: StateHolder) -> None:
        self._session = session
        self._turn = nullcontext()

    def turn(self) -> AbstractContextManager[None]:
        return self._turn

    def is_taken(self, key: JobKey) -> bool:
        leases = self._session.state.leases
        return key in leases and self._session.state.is_leased(key, time.time())

    def wanted(self, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
        return attempts

    def wait(self) -> bool:
        return False
