"""A worker process and the pipe to it, as the driver sees them.

Workers are forked from deepband's own fork server, which has loaded their modules and has no
threads. They do not import the user's main script: what the objective needs of it is pickled with
the objective, and a script without a `__main__` guard would run a second time.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, popen_forkserver, resource_tracker, spawn, util
from multiprocessing.context import ForkServerProcess
from types import FunctionType, SimpleNamespace
from typing import Any

from deepband.execution.batch import Answer
from deepband.execution.devices import VARIABLE, Device
from deepband.execution.executors.base import Order
from deepband.execution.executors.worker_main import LOADED, serve
from deepband.system.process_tree import descendants, kill_all

SECONDS_TO_DIE = 10.0


class WorkerProcess:
    """A process that waits for orders. With `preload`, it loads the objective before the first."""

    def __init__(self, shipped: bytes, preload: bool = False, device: Device | None = None) -> None:
        self._mark = secrets.token_hex(8)
        self._pipe, theirs = multiprocessing.Pipe()
        self._closed = False
        """Whether the other end of the pipe is closed."""
        self._loading = preload
        environment = dict(os.environ)
        if device is not None:
            environment[VARIABLE] = device.visible
        arguments = (theirs, shipped, environment, os.getcwd(), self._mark, preload)
        self._process = _Process(target=serve, args=arguments, name="deepband worker")
        try:
            with _interrupts_blocked():
                _SERVER.ensure_running()
            self._process.start()
        except BaseException:
            self._pipe.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid or 0
        # The interpreter waits for its children at exit, and this one would wait for orders.
        self._finalize = util.Finalize(self, _kill, args=(self.pid,), exitpriority=10)

    @property
    def events(self) -> list[Any]:
        """Objects that become ready when the process has answered or died."""
        alive = [] if self._process.exitcode is not None else [self._process.sentinel]
        return alive if self._closed else [self._pipe, *alive]

    def is_idle(self) -> bool:
        """Whether the process is alive and ready for an order."""
        if self._loading:
            self._loading = self.answer() != LOADED
        return not (self._loading or self.is_gone() or self._pipe.poll())

    def is_gone(self) -> bool:
        """Whether the process has ended. Without the fork server, multiprocessing reports the exit
        code _UNKNOWN even of a living process."""
        code = self._process.exitcode
        return self._closed or (code is not None and not (code == _UNKNOWN and _lives(self.pid)))

    def exit_reason(self) -> str:
        """The signal or exit code with which the process ended."""
        self._process.join(SECONDS_TO_DIE)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def send(self, order: Order) -> None:
        with suppress(OSError):  # `is_gone` notices that it has died
            self._pipe.send(order)

    def answer(self) -> Answer | str | None:
        """The next answer to an order, if there is one: how tasks ended, or why the objective
        cannot be loaded."""
        try:
            if self._closed or not self._pipe.poll():
                return None
            found: Answer | str = self._pipe.recv()
        except (OSError, EOFError):
            self._closed = True
            return None
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group."""
        _signal(self.pid, number)

    def end(self) -> None:
        """Kill the process and all processes that it started."""
        end_workers([self])

    def _kill(self) -> None:
        """Kill the process and its group. After it was reaped, another process may have its id; as
        long as none has, the group contains only processes that the worker started."""
        self._finalize.cancel()
        reaped = self._process.exitcode not in (None, _UNKNOWN)
        if not (reaped and _lives(self.pid)):
            _kill(self.pid)

    def _close(self) -> None:
        self._process.join(SECONDS_TO_DIE)
        self._pipe.close()
        self._closed = True


def end_workers(workers: Collection[WorkerProcess]) -> None:
    """Kill workers and all processes that they started."""
    living = {worker.pid for worker in workers if not worker.is_gone()}
    left = descendants(living, {worker._mark for worker in workers})
    for worker in workers:
        worker._kill()
    kill_all(left)
    for worker in workers:
        worker._close()


def _kill(pid: int) -> None:
    _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it does not have its own group before `setsid`
            os.kill(pid, number)


def _lives(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Make a fork server that starts in this block, and its workers, ignore Ctrl-C. A terminal
    sends it to all processes, and it would break a server that is still loading."""
    resource_tracker.ensure_running()  # otherwise the server starts it, and it unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _preparation_data(name: str) -> dict[str, Any]:
    """multiprocessing's description of this process for a new one, without the main script."""
    data = spawn.get_preparation_data(name)
    return {key: value for key, value in data.items() if not key.startswith("init_main")}


_UNKNOWN = 255
_SERVER = forkserver.ForkServer()
_SERVER.set_forkserver_preload(["deepband.execution.executors.worker_main"])
_OURS = {
    "spawn": SimpleNamespace(get_preparation_data=_preparation_data),
    "forkserver": SimpleNamespace(
        connect_to_new_process=_SERVER.connect_to_new_process,
        read_signed=forkserver.read_signed,
    ),
}


class _Popen(popen_forkserver.Popen):
    """Starts a process as multiprocessing does, with our server and data. The original code runs
    with other globals, because patching the module would affect other libraries."""

    _launch = FunctionType(
        vars(popen_forkserver.Popen)["_launch"].__code__, {**vars(popen_forkserver), **_OURS}
    )


class _Process(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 # the name is multiprocessing's
        return _Popen(process_obj)
