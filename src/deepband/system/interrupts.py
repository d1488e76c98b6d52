"""Handling of Ctrl-C and SIGTERM during a run.

    first    no new jobs start; running jobs finish and are recorded; an answer says so.
             Jobs that run without this process are not waited for
    second   workers are killed; results that have arrived are recorded
    third    the process exits immediately; the study file stays intact

A SIGTERM, as sent by batch systems, counts as a first interrupt, followed by a second one after
SECONDS_TO_END.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

CODE = 130
SECONDS_TO_END = 20.0
RECORDED = "finished evaluations are recorded; run it again to resume"
"""What the last line of a traceback says."""
_entered: list[Interrupts] = []


class Interrupts:
    """Counts interrupts while it is entered. Only the main thread receives any."""

    def __init__(self) -> None:
        self.count = 0
        self.running: Callable[[], int] = lambda: 0
        """How many evaluations are running. It is called in a signal handler."""
        self.leaves = False
        """Whether running evaluations continue without this process."""
        self.answer: str | None = None
        """What the first interrupt leads to, in words."""
        self.displayed = False
        """Whether something shows the answer, so that it need not be written to stderr."""
        self.breakable = False
        """Whether a second interrupt raises KeyboardInterrupt in the job that runs in this
        thread."""
        self._deadline: threading.Timer | None = None
        self._former: dict[signal.Signals, Any] = {}
        self._process = os.getpid()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._handle) or signal.SIG_DFL
            _entered.append(self)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for number, former in self._former.items():
            signal.signal(number, former)
        if self in _entered:
            _entered.remove(self)
        if self.count and error is None:
            raise KeyboardInterrupt(RECORDED)
        if isinstance(error, KeyboardInterrupt) and not error.args:
            error.args = (RECORDED,)

    @property
    def asked(self) -> bool:
        """Whether to stop starting jobs."""
        return self.count > 0

    @property
    def at_once(self) -> bool:
        """Whether to stop without waiting for running jobs."""
        return self.count > 1

    def restore_sigterm(self) -> None:
        """Give SIGTERM the effect that it had before."""
        signal.signal(signal.SIGTERM, self._former[signal.SIGTERM])

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            self._handle_in_child(number)
            return
        self.count += 1
        if self.count == 1:
            self._answer(number)
        if number == signal.SIGTERM and self._deadline is None:
            again = (os.getpid(), signal.SIGINT)
            self._deadline = threading.Timer(SECONDS_TO_END, os.kill, again)
            self._deadline.daemon = True
            self._deadline.start()
        if self.count > 2:
            os._exit(CODE)
        if self.count == 2 and self.breakable:
            raise KeyboardInterrupt

    def _handle_in_child(self, number: int) -> None:
        """Handle a signal in a forked worker: Ctrl-C is left to the driver, and a SIGTERM that came
        before `_after_fork` has its effect now."""
        if number == signal.SIGTERM:
            self.restore_sigterm()
            os.kill(os.getpid(), signal.SIGTERM)

    def _answer(self, number: int) -> None:
        """Say what happens now. A display shows it from its own thread: drawing needs locks that
        the interrupted code may hold. Without a display it is written directly."""
        self.answer = answer_to(number, self.running(), self.leaves)
        if not self.displayed and sys.stderr is not None:
            with suppress(OSError, ValueError, AttributeError):  # stderr is closed or replaced
                stream = sys.stderr.fileno()
                begin = "\n" if os.isatty(stream) else ""  # the terminal has shown ^C
                os.write(stream, f"{begin}{self.answer}\n".encode())


def answer_to(number: int, running: int, leaves: bool = False) -> str:
    """What a first interrupt leads to while this many evaluations are running."""
    if not running:
        return "Stopping."
    if leaves:
        jobs = "1 submitted job continues" if running == 1 else f"{running} submitted jobs continue"
        return f"Stopping; {jobs}, and the next run waits for the results."
    them, are = ("it", "is") if running == 1 else ("them", "are")
    evaluations = "1 running evaluation" if running == 1 else f"{running} running evaluations"
    if number == signal.SIGTERM:
        pronoun = "it" if running == 1 else "they"
        limit = f"{pronoun} {are} abandoned after {SECONDS_TO_END:.0f} s"
    else:
        limit = f"press Ctrl-C again to abandon {them}"
    return f"Stopping after {evaluations}; {limit}."


def check() -> None:
    """Raise KeyboardInterrupt in the main thread after a second interrupt: call it in waits."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and any(interrupts.at_once for interrupts in _entered):
        raise KeyboardInterrupt


def _after_fork() -> None:
    """Let SIGTERM end a forked worker of a pool, which has inherited our handlers. A broken pool
    sends it and waits for its workers to end, even for one that cannot run Python code any more
    because another thread held a lock when it was forked."""
    while _entered:
        _entered.pop().restore_sigterm()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
