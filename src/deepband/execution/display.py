"""The display of progress: on a terminal, in a notebook, or as lines of a log.

A thread redraws it, because the thread of the driver may be inside an objective for hours. The
thread reads the state between two steps of the driver. It never waits long for that: if the study
is in use, it shows the last reading, with the clocks advanced.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from threading import Event, Thread
from typing import Protocol, TypeAlias

from deepband.errors import DeepbandError, InputError, ObserverWarning, show_warning, shown
from deepband.execution.executors.inline import InlineExecutor
from deepband.execution.loop import Loop
from deepband.execution.outbox import OUTPUT
from deepband.execution.progress import Progress, advanced
from deepband.execution.progress_text import last_line, one_line
from deepband.system.interrupts import Interrupts

ProgressSpec: TypeAlias = bool | Callable[[Progress], object] | None
"""The type of the `progress` argument."""

SECONDS_BETWEEN_VIEWS = 0.25
SECONDS_BETWEEN_LINES = 60.0
SECONDS_BETWEEN_CALLS = 0.1
"""The least time between two calls of a user's function."""
SECONDS_TO_READ = 0.1
"""How long a view waits while the study is in use."""


class View(Protocol):
    """What shows progress."""

    def begin(self) -> None:
        """Prepare the view, before anything runs."""

    def show(self, progress: Progress, notes: Sequence[str]) -> None:
        """Update the view; called a few times per second."""

    def end(self, progress: Progress, notes: Sequence[str]) -> None:
        """Show the last state, and leave it there."""

    def close(self) -> None:
        """Undo what `begin` did. A view that was never shown leaves nothing behind."""


def check_spec(given: object) -> None:
    """Raise an InputError for anything that is not a ProgressSpec."""
    if given is not None and not isinstance(given, bool) and not callable(given):
        raise InputError(
            f"progress is {shown(given)}: give True, False, or a function that receives a "
            "deepband.Progress."
        )


def followed(
    given: ProgressSpec, loop: Loop, interrupts: Interrupts
) -> AbstractContextManager[None]:
    """Report the progress of a loop, in the way that the user asked for, while it runs."""
    if given is not None and not isinstance(given, bool):
        return _reported(given, loop)
    view = None if given is False else _view(always=given is True)
    return nullcontext() if view is None else _displayed(view, loop, interrupts, given is True)


def _view(always: bool) -> View | None:
    """The view for a terminal, a notebook or a log; None if there is nothing to show it on."""
    if in_notebook():
        from deepband.execution.notebook_view import NotebookView

        return NotebookView()
    with suppress(AttributeError, ValueError):  # stderr is missing, or closed
        if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
            from deepband.execution.terminal_view import Output, TerminalView

            if isinstance(sys.stderr, Output) and not sys.stderr.ended:
                return None  # another thread, or a caller, already has a view
            return TerminalView(sys.stderr)
    return LineView() if always else None


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class Reader:
    """Reads the progress of a loop, from any thread."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        workers = 1
        with suppress(DeepbandError):  # the loop raises it, too
            workers = max(1, loop.executor.free)
        self.meter = loop.session.meter(workers, time.monotonic())
        self._last: tuple[Progress, float] | None = None
        self.read(-1)

    def read(self, seconds: float) -> Progress:
        """The progress of the run. If the study is in use for this many seconds, the last reading
        is used, with its clocks advanced; -1 waits for as long as necessary."""

        def reading() -> Progress | None:
            return self._loop.session.read_state(
                lambda state: self.meter.read(
                    state, list(self._loop.running.values()), time.monotonic()
                ),
                seconds,
            )

        found = reading()
        if found is None:
            assert self._last is not None
            progress, then = self._last
            return advanced(progress, time.monotonic() - then)
        self._last = found, time.monotonic()
        return found

    @property
    def output(self) -> str | None:
        """The folder with what worker processes print, once it has any."""
        outbox = self._loop.outbox
        if outbox is None or isinstance(self._loop.executor, InlineExecutor):
            return None
        folder = outbox.folder / OUTPUT
        with suppress(OSError), os.scandir(folder) as entries:
            if next(entries, None) is not None:
                here = os.path.relpath(folder)
                return str(folder) if here.startswith(os.pardir) else here
        return None


@contextmanager
def _reported(function: Callable[[Progress], object], loop: Loop) -> Iterator[None]:
    """Call a user's function when results are recorded, but not too often, and at the end."""
    reports = _Reports(function, Reader(loop))
    loop.recorder.recorded = reports.recorded
    try:
        yield
    finally:
        reports.call()


class _Reports:
    """The calls of a user's function. Its first exception becomes a warning."""

    def __init__(self, function: Callable[[Progress], object], reader: Reader) -> None:
        self._function = function
        self._reader = reader
        self._due = 0.0
        self._failed = False

    def recorded(self) -> None:
        if time.monotonic() >= self._due:
            self.call()

    def call(self) -> None:
        try:
            self._function(self._reader.read(-1))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # including SystemExit: it must not end a run
            if not self._failed:
                _warn("the function that was given as progress", error)
            self._failed = True
        self._due = time.monotonic() + SECONDS_BETWEEN_CALLS


@contextmanager
def _displayed(view: View, loop: Loop, interrupts: Interrupts, always: bool) -> Iterator[None]:
    display = _Display(view, Reader(loop), interrupts)
    display.begin()
    try:
        yield
    finally:
        display.end(always)


class _Display:
    """Updates a view periodically, in a separate thread."""

    def __init__(self, view: View, reader: Reader, interrupts: Interrupts) -> None:
        self._view = view
        self._reader = reader
        self._interrupts = interrupts
        self._stop = Event()
        self._thread = Thread(target=self._run, name="deepband progress", daemon=True)
        self._shown = False
        self._failed = False

    def begin(self) -> None:
        self._interrupts.displayed = not isinstance(self._view, LineView)
        with self._errors():
            self._view.begin()
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(SECONDS_BETWEEN_VIEWS) and not self._failed:
            with self._errors():
                progress = self._reader.read(SECONDS_TO_READ)
                if progress.running or self._reader.meter.evaluations:
                    self._shown = True
                    self._view.show(progress, self._notes(self._interrupts.answer))

    def end(self, always: bool) -> None:
        """Leave the last state of the view: if it was visible, or if it should always be."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._errors():
            progress = replace(self._reader.read(1.0), running=())
            if self._shown or (always and self._reader.meter.evaluations):
                self._view.end(progress, self._notes())
        self._view.close()

    def _notes(self, *answers: str | None) -> list[str]:
        output = self._reader.output
        found = f"Workers' output: {output}" if output else None
        return [note for note in (found, *answers) if note]

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the view into a warning: a run does not depend on its display."""
        try:
            yield
        except Exception as error:
            if not self._failed:
                _warn("the display of progress", error)
            self._failed = True
            self._interrupts.displayed = False


class LineView:
    """Lines on stderr: one whenever a rung is finished, and at least one per minute."""

    def __init__(self, seconds: float = SECONDS_BETWEEN_LINES) -> None:
        self._seconds = seconds
        self._due = time.monotonic() + seconds
        self._rungs: int | None = None

    def begin(self) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Nothing to undo."""

    def show(self, progress: Progress, notes: Sequence[str]) -> None:
        if self._rungs is None:
            self._rungs = progress.finished_rungs
        if progress.finished_rungs == self._rungs and time.monotonic() < self._due:
            return
        if progress.done:
            return  # the last line says so
        self._rungs = progress.finished_rungs
        self._due = time.monotonic() + self._seconds
        _write(one_line(progress))

    def end(self, progress: Progress, notes: Sequence[str]) -> None:
        for line in (last_line(progress), *notes):
            _write(line)


def _write(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # stderr is closed, or missing
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _warn(what: str, error: BaseException) -> None:
    show_warning(
        f"{what} failed with {type(error).__name__}: {shown(error)}\n"
        "The run continues; its further errors are not shown.",
        ObserverWarning,
    )
