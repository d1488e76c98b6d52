"""A program on a terminal of its own, and what that terminal shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from unicodedata import east_asian_width

from preloaded import Process

CONTROLS = re.compile(r"\x1b\[(\d*)([AJK])|\r|\n|.", re.DOTALL)
CTRL_C = b"\x03"


class Terminal:
    """A terminal in which `python ARGUMENTS` runs."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, columns: int = 100, rows: int = 40
    ) -> None:
        self._shown = b""
        self._reader, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Python 3.13 colours tracebacks.
        environment = {**os.environ, "TERM": "xterm", "PYTHON_COLORS": "0"}
        self._process = Process(arguments, cwd=folder, env=environment, terminal=inside)
        os.close(inside)

    @property
    def text(self) -> str:
        """Everything that was written to the terminal."""
        return self._shown.decode(errors="replace")

    @property
    def screen(self) -> list[str]:
        """The lines that the terminal shows, if it has so many rows that it never scrolls, and so
        many columns that it never wraps."""
        return self._replay()[0]

    @property
    def widest(self) -> int:
        """The width of the widest line that the terminal has ever shown."""
        return self._replay()[1]

    def _replay(self) -> tuple[list[str], int]:
        lines, row, column, widest = [""], 0, 0, 0
        for found in CONTROLS.finditer(self.text):
            count, control = found.groups()
            if control == "A":
                row -= int(count)
            elif control == "K":
                lines[row] = lines[row][:column]
            elif control == "J":
                del lines[row + 1 :]
                lines[row] = lines[row][:column]
            elif found.group() == "\r":
                column = 0
            elif found.group() == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            else:
                line = lines[row].ljust(column)
                lines[row] = line[:column] + found.group() + line[column + 1 :]
                column += 1
                wide = sum(east_asian_width(c) in "WF" for c in lines[row])
                widest = max(widest, len(lines[row]) + wide)
        return [line.rstrip() for line in lines], widest

    def press(self, key: bytes) -> None:
        os.write(self._reader, key)

    def wait_for(self, pattern: str, seconds: float = 120) -> str:
        """Wait until the screen shows what matches a pattern, and return the whole screen."""
        end = time.monotonic() + seconds
        while not re.search(pattern, screen := "\n".join(self.screen), re.MULTILINE):
            assert time.monotonic() < end, f"{pattern} is not shown:\n{screen}"
            assert self._read(1.0), f"it ended without {pattern}:\n{screen}"
        return screen

    def wait(self) -> int:
        """Wait until the program ends, and return its exit code."""
        while self._read(120.0):
            pass
        os.close(self._reader)
        return self._process.wait()

    def _read(self, seconds: float) -> bool:
        """Read what is there, and wait for it if there is nothing; False at the end."""
        ready, _, _ = select.select([self._reader], [], [], seconds)
        try:
            chunk = os.read(self._reader, 65536) if ready else None
        except OSError:  # the other end is closed
            return False
        self._shown += chunk or b""
        return chunk is None or bool(chunk)
