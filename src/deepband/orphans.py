"""Workers whose driver died, and what they leave: taken in by the next driver."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from deepband.facts import JobKey
from deepband.outbox import Outbox, Running, look
from deepband.records import Attempt


class Orphans:
    """The jobs that workers of an earlier driver are still running."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._running = {running.key: running for running in outbox.running()}

    @property
    def keys(self) -> list[JobKey]:
        return list(self._running)

    def give_up(self) -> None:
        """Want their results no more: those on this host are ended, and a worker without its job
        file leaves none."""
        for running in self._running.values():
            running.path.unlink(missing_ok=True)
            _end(running)
        self._running.clear()

    def ended(self) -> list[tuple[JobKey, Attempt | None]]:
        """Those that have ended since, with what they left."""
        gone = [running for running in self._running.values() if not self._lives(running)]
        for running in gone:
            del self._running[running.key]
        return [(running.key, self._result(running)) for running in gone]

    def _lives(self, running: Running) -> bool:
        now = look(running.path)
        if now is None or not now.held:
            running.path.unlink(missing_ok=True)
            return False
        late = running.deadline is not None and time.time() > running.deadline
        if late:
            _end(running)
        return True

    def _result(self, running: Running) -> Attempt | None:
        _, _, token = running.path.name.partition(".")
        return self.outbox.get(running.key, token)


def _end(running: Running) -> None:
    """End a worker on this host, with all that it started."""
    if running.pid > 0 and running.host == socket.gethostname():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(running.pid, signal.SIGKILL)
