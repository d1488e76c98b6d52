"""A view of progress at the bottom of a terminal, below whatever else is printed.

What Python code prints while the view is visible appears above it. Only output that bypasses
`sys.stdout`, `sys.stderr` and `logging`, such as that of a subprocess, can overwrite the view.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any, TextIO

from deepband.analysis.text import printable
from deepband.execution.progress import Progress
from deepband.execution.progress_text import BARS, columns, fitted, last_lines, lines

MOST_PARTIAL = 4096
"""How long a line without an end may become before it is printed."""
UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"


class TerminalView:
    """Lines that are redrawn in place."""

    def __init__(self, terminal: TextIO) -> None:
        self.process = os.getpid()
        self._terminal = terminal
        self._unicode = _encodes("".join(BARS[True]), terminal.encoding)
        self._lock = RLock()
        self._lines: list[str] = []
        """The view, without what was printed since the last end of a line."""
        self._drawn: list[str] = []
        self._outputs: list[Output] = []

    def begin(self) -> None:
        """Let everything that Python code prints to the terminal go through `print`."""
        for name in ("stdout", "stderr"):
            original = getattr(sys, name)
            if _is_terminal(original):
                output = Output(self, name, original)
                self._outputs.append(output)
                setattr(sys, name, output)
                _move_logging(original, output)

    def show(self, progress: Progress, notes: Sequence[str]) -> None:
        """Redraw the view, unless this process is in the background."""
        width, height = _size(self._terminal)
        if _in_foreground(self._terminal):
            with self._lock:
                room = height - 1 - len(self._partial)
                self._lines = lines(progress, notes, width, room, self._unicode)
                self._redraw()

    def end(self, progress: Progress, notes: Sequence[str]) -> None:
        """Draw the view for the last time, and print below it from now on."""
        width, _ = _size(self._terminal)
        with self._lock:
            self.close()
            self._draw(last_lines(progress, notes, width, self._unicode))
            self._drawn = []

    def close(self) -> None:
        """Remove the view, and let Python code print directly again."""
        with self._lock:
            self._draw([])
            for output in self._outputs:
                if getattr(sys, output.stream) is output:
                    setattr(sys, output.stream, output.original)
                _move_logging(output, output.original)
                output.end()
            self._outputs.clear()

    def print(self, output: Output, text: str) -> None:
        """Print the complete lines of a text above the view. The rest is shown in the view until
        its line is complete: a progress bar, for example, returns to the start of its line."""
        with self._lock:
            whole, newline, rest = (output.partial + text).rpartition("\n")
            if len(rest) > MOST_PARTIAL:
                whole, newline, rest = whole + newline + rest, "\n", ""
            output.partial = rest.rstrip("\r").rpartition("\r")[2]
            if newline:
                visible = bool(self._drawn)
                self._draw([])
                output.original.write(whole + newline)
                if visible:  # at once: a view that is missing until the next update flickers
                    output.original.flush()
                    self._redraw()

    @property
    def _partial(self) -> list[str]:
        """What was printed since the last end of a line, per stream."""
        return [printable(each.partial) for each in self._outputs if each.partial]

    def _redraw(self) -> None:
        width, height = _size(self._terminal)
        partial = [fitted(each, width) for each in self._partial]
        self._draw([*partial, *self._lines][: height - 1])

    def _draw(self, new: list[str]) -> None:
        """Replace the lines that are drawn. Those that no longer fit have been wrapped."""
        if new == self._drawn:
            return
        width, _ = _size(self._terminal)
        rows = sum(max(1, -(-columns(line) // (width + 1))) for line in self._drawn)
        up = UP.format(rows) if rows else ""
        body = "".join(f"{line}{CLEAR_LINE}\n" for line in new)
        self._drawn = new
        with suppress(OSError, ValueError):  # the terminal is gone
            self._terminal.write(f"{up}\r{body}{CLEAR_BELOW}")
            self._terminal.flush()


class Output:
    """Stands for sys.stdout or sys.stderr while a view is visible."""

    def __init__(self, view: TerminalView, stream: str, original: TextIO) -> None:
        self.stream = stream
        self.original = original
        self.partial = ""
        """What was printed since the last end of a line."""
        self.ended = False
        """Whether the view is gone. Whoever still has this object, such as a progress bar that was
        created during the run, prints directly."""
        self._view = view

    def end(self) -> None:
        """Print what is left, and let everything else through."""
        self.ended = True
        with suppress(OSError, ValueError):
            self.original.write(self.partial + ("\n" if self.partial else ""))
            self.original.flush()
        self.partial = ""

    def write(self, text: str) -> int:
        """Print a text above the view. A forked process has no view, and must not use its lock."""
        if self.ended or os.getpid() != self._view.process or not isinstance(text, str):
            return self.original.write(text)
        self._view.print(self, text)
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        for text in texts:
            self.write(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self.original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def _move_logging(old: object, new: object) -> None:
    """Let the handlers that log to one stream log to another."""
    loggers = [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]
    for logger in loggers:
        for handler in getattr(logger, "handlers", ()):
            if isinstance(handler, logging.StreamHandler) and handler.stream is old:
                handler.setStream(new)


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal. It may be closed, or replaced by any object."""
    with suppress(AttributeError, OSError, ValueError):
        return stream is not None and stream.isatty()
    return False


def _size(terminal: TextIO) -> tuple[int, int]:
    """The columns that a line may use, and the rows. In the last column, terminals wrap."""
    found = os.terminal_size((0, 0))
    with suppress(OSError, ValueError):
        found = os.get_terminal_size(terminal.fileno())
    return max(1, (found.columns or 80) - 1), max(4, found.lines or 24)


def _in_foreground(terminal: TextIO) -> bool:
    """Whether this process may draw: not while its shell has put it into the background."""
    try:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):  # another terminal, or no process groups
        return True


def _encodes(text: str, encoding: str | None) -> bool:
    try:
        return bool(text.encode(encoding or "ascii"))
    except (UnicodeError, LookupError):
        return False
