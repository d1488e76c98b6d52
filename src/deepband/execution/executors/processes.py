"""An executor that runs tasks in worker processes and survives their death.

Every worker has its own process and pipe, so that the death of one does not affect the others. The
kernel reports it: however a process ends, its pipe is closed and the lock on its job is released.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import wait

from deepband.execution.devices import Device
from deepband.execution.executors.base import Ended, Order, Timeout, seconds_allowed
from deepband.execution.executors.serialization import ship
from deepband.execution.executors.worker_process import end_workers
from deepband.execution.executors.worker_slot import WorkerSlot
from deepband.execution.executors.worker_supply import WorkerSupply
from deepband.execution.objective import Objective, Task
from deepband.execution.outbox import Outbox, RunningJobs, read_job_file

SECONDS_BETWEEN_CHECKS = 0.1


class ProcessExecutor:
    """Runs tasks in one process per device; None stands for a process without a device."""

    def __init__(
        self,
        objective: Objective,
        devices: Sequence[Device | None],
        outbox: Outbox,
        timeout: Timeout = None,
    ) -> None:
        self._folder = outbox.folder
        self._timeout = timeout
        shipped = ship(objective)
        self._workers = {device: WorkerSupply(shipped, device) for device in devices}
        self._slots = [
            WorkerSlot(number, self._workers[device], outbox)
            for number, device in enumerate(devices)
        ]
        self._orphans = [each for each in outbox.running() if _uses_gpu_here(each)]
        """Jobs that workers of a dead driver run on a GPU of this machine."""

    @property
    def free(self) -> int:
        return len(self._idle())

    def _idle(self) -> list[WorkerSlot]:
        """The slots that can take a task. A GPU that orphans still use has fewer."""
        idle = [slot for slot in self._slots if slot.order is None]
        if not self._orphans:
            return idle
        now = map(read_job_file, [each.path for each in self._orphans])
        self._orphans = [each for each in now if each is not None and each.held]
        taken = Counter(each.device for each in self._orphans)
        for slot in reversed(list(idle)):
            if taken[slot.gpu] > 0:
                taken[slot.gpu] -= 1
                idle.remove(slot)
        return idle

    def submit(self, tasks: Sequence[Task]) -> None:
        slot = self._idle()[0]
        seconds = seconds_allowed(self._timeout, tasks)
        located = [slot.located(task) for task in tasks]
        slot.start(Order(located, secrets.token_hex(4), seconds, self._folder, device=slot.gpu))

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            events = [event for slot in self._slots if slot.order for event in slot.events]
            if events:  # wait only briefly, because a timeout is not an event
                wait(events, min(left, SECONDS_BETWEEN_CHECKS))
            else:
                time.sleep(left)
            ended = [ended for slot in self._slots for ended in slot.poll()]
            if ended or time.monotonic() >= end:
                return ended

    def close(self) -> None:
        end_workers([worker for slot in self._slots if (worker := slot.give_up()) is not None])
        for workers in self._workers.values():
            workers.close()


def _uses_gpu_here(running: RunningJobs) -> bool:
    return running.device != "" and running.host == socket.gethostname()
