"""The start of worker processes, and the spare one that replaces a worker without delay."""

from __future__ import annotations

import time

from deepband.errors import DeepbandError
from deepband.execution.devices import Device
from deepband.execution.executors.worker_process import WorkerProcess

ATTEMPTS = 3
"""How often the start of a worker is tried."""
SECONDS_BETWEEN_STARTS = 0.2
"""A fork server that is being killed refuses connections shortly before the kernel reports its
death, and another one is started only then."""


class WorkerSupply:
    """Starts workers for a device, and keeps a spare one after the first failure."""

    def __init__(self, shipped: bytes, device: Device | None) -> None:
        self.device = device
        self._shipped = shipped
        self._spare: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        """A worker that is ready: the spare one, or a new one."""
        spare = self._spare
        if spare is not None and spare.is_idle():
            self._spare = None
            return spare
        if spare is not None and spare.is_gone():
            self.close()
        return self._start(preload=False)

    def keep_spare(self) -> None:
        if self._spare is None:
            self._spare = self._start(preload=True)

    def close(self) -> None:
        if self._spare is not None:
            self._spare.end()
            self._spare = None

    def _start(self, preload: bool) -> WorkerProcess:
        """A new worker. If the fork server was killed, the next attempt starts another one."""
        for _ in range(ATTEMPTS):
            try:
                return WorkerProcess(self._shipped, preload, self.device)
            except (OSError, EOFError) as error:
                reason = f"{type(error).__name__}: {error}"
                time.sleep(SECONDS_BETWEEN_STARTS)
        raise DeepbandError(
            f"worker processes cannot be started: {reason}. Recorded results are kept; run again "
            "to continue."
        )
