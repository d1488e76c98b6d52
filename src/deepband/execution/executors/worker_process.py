"""One worker process and the pipe to it.

Workers are forked from a server of our own, which has loaded what they need and has no threads.
They do not import the user's main script again: what the objective needs of it travels with the
objective, and a script without a guard would run itself a second time.
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

from deepband.core.records import Attempt
from deepband.execution.executors.worker import LOADED, Order, serve
from deepband.system.process_tree import descendants, kill_all

SECONDS_TO_DIE = 10.0


class WorkerProcess:
    """A process that waits for orders, and is ended with all that it started."""

    def __init__(self, shipped: bytes, loads: bool = False) -> None:
        """Start it. With `loads` it loads the objective before the first order."""
        self._mark = secrets.token_hex(8)
        self._pipe, theirs = multiprocessing.Pipe()
        self._closed = False
        """Whether the other end of the pipe is."""
        self._loading = loads
        now = (dict(os.environ), os.getcwd())
        arguments = (theirs, shipped, *now, self._mark, loads)
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
        # The interpreter's exit waits for children, and this one waits for orders.
        self._finalize = util.Finalize(self, _kill, args=(self.pid,), exitpriority=10)

    @property
    def signs(self) -> list[Any]:
        """What becomes ready when it has answered or died."""
        alive = [] if self._process.exitcode is not None else [self._process.sentinel]
        return alive if self._closed else [self._pipe, *alive]

    def is_idle(self) -> bool:
        """Whether it lives, has loaded what it was to load, and has nothing to say."""
        if self._loading:
            self._loading = self.answer() != LOADED
        return not (self._loading or self.is_gone() or self._pipe.poll())

    def is_gone(self) -> bool:
        """Whether the process has ended. When the fork server is gone, nobody knows an exit code,
        and the worker may live."""
        code = self._process.exitcode
        return self._closed or (code is not None and not (code == _UNKNOWN and _lives(self.pid)))

    def how(self) -> str:
        """How the process ended."""
        self._process.join(SECONDS_TO_DIE)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"

    def send(self, order: Order) -> None:
        with suppress(OSError):  # it died: that is noticed when it is looked at
            self._pipe.send(order)

    def answer(self) -> Attempt | str | None:
        """What became of an order, if that is known: an attempt, or why the objective cannot be
        loaded."""
        try:
            if self._closed or not self._pipe.poll():
                return None
            found: Attempt | str = self._pipe.recv()
        except (OSError, EOFError):
            self._closed = True
            return None
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its group."""
        _signal(self.pid, number)

    def end(self) -> None:
        """End it, and all that it started, now."""
        end_workers([self])

    def _kill(self) -> None:
        """Kill it with its group. The number of a process that was reaped may be another's by now;
        while it is nobody's, what is left in the group was started by the worker."""
        self._finalize.cancel()
        reaped = self._process.exitcode not in (None, _UNKNOWN)
        if not (reaped and _lives(self.pid)):
            _kill(self.pid)

    def _close(self) -> None:
        self._process.join(SECONDS_TO_DIE)
        self._pipe.close()
        self._closed = True


def end_workers(workers: Collection[WorkerProcess]) -> None:
    """End workers, and all that they started, now."""
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
        except ProcessLookupError:  # it has no group of its own in its first moments
            os.kill(pid, number)


def _lives(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let a fork server that starts now, and its workers, be deaf to Ctrl-C, which a terminal sends
    to all: it would break a server that is still loading."""
    resource_tracker.ensure_running()  # else the server starts it, and it unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _preparation_data(name: str) -> dict[str, Any]:
    """What a new process is told of this one, without the main script."""
    data = spawn.get_preparation_data(name)
    return {key: value for key, value in data.items() if not key.startswith("init_main")}


_UNKNOWN = 255
_SERVER = forkserver.ForkServer()
_SERVER.set_forkserver_preload(["deepband.execution.executors.worker"])
_OURS = {
    "spawn": SimpleNamespace(get_preparation_data=_preparation_data),
    "forkserver": SimpleNamespace(
        connect_to_new_process=_SERVER.connect_to_new_process,
        read_signed=forkserver.read_signed,
    ),
}


class _Popen(popen_forkserver.Popen):
    """As multiprocessing starts a process, by our server and with our data. Its code is run with
    other globals, because a patch would reach whatever else starts processes here."""

    _launch = FunctionType(
        vars(popen_forkserver.Popen)["_launch"].__code__, {**vars(popen_forkserver), **_OURS}
    )


class _Process(ForkServerProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 # the name is multiprocessing's
        return _Popen(process_obj)
