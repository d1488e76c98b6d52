"""Python processes that are forked from a server that has deepband's dependencies loaded.

Importing ConfigSpace takes most of a second, and hundreds of tests need a driver of their own. Here
one server per test process imports it, and every driver is forked from the server: a process with
its own lock, signals, exit code and `__main__`, which only saves the imports. What depends on a
start from scratch (options of the interpreter, variables that it reads, the command line and the
environment in /proc) needs `subprocess`. Outside of Linux, every process starts from scratch:
macOS does not support forking a process that has loaded its frameworks.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import multiprocessing.process
import os
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import IO, Any

LARGEST_REQUEST = 200_000
STANDARD = (0, 1, 2)
PRELOADED = [
    "ConfigSpace",
    "uvicorn",
    "deepband.interfaces.cli",
    "deepband.interfaces.dashboard.app",
]
PRELOADED += ["deepband.storage.sqlite", "deepband.execution.executors.processes"]
"""What takes longest to import, and what most processes use."""


class Process:
    """A process that runs `python ARGUMENTS`, such as `-m deepband --version`."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdout: IO[Any] | None = None,
        stderr: IO[Any] | None = None,
        start_new_session: bool = False,
        terminal: int | None = None,
        enter: Sequence[str] = (),
    ) -> None:
        """`terminal` is the terminal that the process controls: its input, output and errors.
        `enter` is a command that runs another somewhere else, or with other privileges."""
        given = list(map(str, arguments))
        self.returncode: int | None = None
        self._started: subprocess.Popen[bytes] | None = None
        if sys.platform == "linux":
            request = {
                "arguments": given,
                "folder": str(cwd or Path.cwd()),
                "environment": dict(os.environ if env is None else env),
                "session": start_new_session,
                "terminal": terminal is not None,
            }
            self._news = ask(server(tuple(enter)), request, stdout, stderr, terminal)
            self.pid = int(self._next())
        else:
            self._started = subprocess.Popen(
                [*enter, sys.executable, *given],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=stdout if terminal is None else terminal,
                stderr=stderr if terminal is None else terminal,
                start_new_session=start_new_session or terminal is not None,
                preexec_fn=None if terminal is None else control_terminal,  # noqa: PLW1509
            )
            self.pid = self._started.pid

    def poll(self) -> int | None:
        """The exit code, if the process has ended."""
        return self.returncode if self._ends_within(0) else None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when the process has ended."""
        if not self._ends_within(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *raised: object) -> None:
        self.wait()

    def _ends_within(self, seconds: float | None) -> bool:
        if self._started is not None:
            with suppress(subprocess.TimeoutExpired):
                self.returncode = self._started.wait(seconds)
            return self.returncode is not None
        if self.returncode is None:
            self._news.settimeout(seconds)
            try:
                self.returncode = int(self._next())
            except (BlockingIOError, TimeoutError):
                return False
            self._news.close()
        return True

    def _next(self) -> str:
        news = self._news.recv(16).decode()
        assert news, "the server that forks processes has ended"
        return news


def ask(
    requests: socket.socket,
    request: Mapping[str, object],
    stdout: IO[Any] | None,
    stderr: IO[Any] | None,
    terminal: int | None,
) -> socket.socket:
    """Ask a server for a process; where it reports the id of the process, and its exit code."""
    # One message at a time: a process may end before the report of its id is read.
    news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, open(os.devnull, "rb") as nothing:
        outputs = [
            default if given is None else given.fileno()
            for default, given in ((1, stdout), (2, stderr))
        ]
        standard = [nothing.fileno(), *outputs] if terminal is None else [terminal] * 3
        socket.send_fds(requests, [json.dumps(request).encode()], [theirs.fileno(), *standard])
    return news


def run(
    arguments: Sequence[object], cwd: Path, *, timeout: float | None = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end, and return its exit code and output."""
    (out, stdout), (err, stderr) = pipe(), pipe()
    with stdout, stderr:
        process = Process(arguments, cwd=cwd, stdout=stdout, stderr=stderr, **options)
    with out, err, ThreadPoolExecutor(2) as readers:
        texts = [readers.submit(each.read) for each in (out, err)]
        code = process.wait(timeout)
    return subprocess.CompletedProcess(
        list(map(str, arguments)), code, *(text.result() for text in texts)
    )


def pipe() -> tuple[IO[str], IO[str]]:
    """The end to read from, and the end to write to."""
    reader, writer = os.pipe()
    return os.fdopen(reader, "r"), os.fdopen(writer, "w")


_servers: dict[tuple[str, ...], tuple[socket.socket, subprocess.Popen[bytes]]] = {}


def server(enter: tuple[str, ...] = ()) -> socket.socket:
    """The connection to a server, which is started when it is needed first."""
    if enter not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*enter, sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the tests
            )
        _servers[enter] = ours, process
    return _servers[enter][0]


def end_server(enter: tuple[str, ...]) -> None:
    """End a server, if it was started; the processes forked from it continue."""
    if enter in _servers:
        connection, process = _servers.pop(enter)
        connection.close()
        process.kill()
        process.wait()


@atexit.register
def _end_servers() -> None:
    for enter in list(_servers):
        end_server(enter)


# In the server, and in what is forked from it.


def serve(requests: socket.socket) -> list[str]:
    """Fork a process per request; this returns in those processes, with their arguments."""
    while True:
        message, streams, *_ = socket.recv_fds(requests, LARGEST_REQUEST, 4)
        reap()
        if not message:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            return supervise(json.loads(message), streams)
        for stream in streams:
            os.close(stream)


def reap() -> None:
    """Forget the supervisors that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def supervise(request: dict[str, Any], streams: list[int]) -> list[str]:
    """Fork a process, report its id and later its exit code. Only a parent learns that code."""
    news, *standard = streams
    pid = os.fork()
    if pid == 0:
        os.close(news)
        return prepare(request, standard)
    for stream in {*standard, *STANDARD}:
        os.close(stream)
    os.write(news, str(pid).encode())
    _, status = os.waitpid(pid, 0)
    os.write(news, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def prepare(request: dict[str, Any], standard: list[int]) -> list[str]:
    """Give this process what `subprocess` would have given it; its arguments."""
    if request["session"] or request["terminal"]:
        os.setsid()
    for stream, number in zip(standard, STANDARD, strict=True):
        os.dup2(stream, number)
        os.close(stream)
    if request["terminal"]:
        control_terminal()
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # it is a text file
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    vars(multiprocessing.process)["ORIGINAL_DIR"] = os.getcwd()  # workers import from there
    arguments: list[str] = request["arguments"]
    return arguments


def control_terminal() -> None:
    """Make the standard input the terminal whose keys, such as Ctrl-C, reach this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run_as_main(first: str, *rest: str) -> None:
    """Do what `python FIRST REST` does."""
    if first == "-m":
        sys.argv[:], sys.path[0] = rest, os.getcwd()
        leave(run_module(rest[0]))
    elif first == "-c":
        sys.argv[:], sys.path[0] = [first, *rest[1:]], ""
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.argv[:], sys.path[0] = [first, *rest], str(Path(first).resolve().parent)
        runpy.run_path(first, run_name="__main__")


def run_module(name: str) -> int:
    """Do what `python -m NAME` does, and return its exit code. Other errors are raised."""
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        return end.code or 0
    return 0


def leave(code: int) -> None:
    """End this process as the interpreter does, except that nothing is freed. To free what is
    loaded takes longer than most commands, because memory that is shared with the server must be
    copied first."""
    vars(threading)["_shutdown"]()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # else each process would copy all that is loaded when it collects garbage
    run_as_main(*serve(socket.socket(fileno=int(sys.argv[1]))))
