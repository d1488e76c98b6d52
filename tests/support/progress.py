"""The progress of a soak test."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType

import pytest

from killing import MODES
from torture import Tally


class Progress:
    """Reports the progress of a soak test after every study, on the terminal and in the file
    DEEPBAND_SOAK_LOG, so that a test that is stopped can be reported as well. Only kills whose
    study was checked afterwards count."""

    def __init__(self, goal: int, capsys: pytest.CaptureFixture[str]) -> None:
        self.goal = goal
        self.tally = Tally()
        self.modes: Counter[str] = Counter()
        self.studies = 0
        self.mode = ""
        """The current mode."""
        self._capsys = capsys
        self._log = os.environ.get("DEEPBAND_SOAK_LOG")

    def __enter__(self) -> Progress:
        self._say(f"begins: {self.goal} kills in {len(MODES)} modes")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        violated = kind is not None and issubclass(kind, AssertionError)
        ending = "finished" if kind is None else f"stopped by {kind.__name__} in {self.mode}"
        modes = ", ".join(f"{name} {count}" for name, count in self.modes.items())
        self._say(f"{ending}; {self._reached()}; violations {int(violated)}; by mode: {modes}")

    def through(self, names: Iterable[str]) -> Iterator[str]:
        """These modes; sets `mode` to each."""
        for self.mode in names:
            yield self.mode

    def add(self, name: str, tally: Tally) -> None:
        self.studies += 1
        self.tally.drivers += tally.drivers
        self.tally.workers += tally.workers
        self.tally.servers += tally.servers
        self.modes[name] += tally.kills
        self._say(f"{self._reached()}; violations 0; last mode: {name}")

    def _reached(self) -> str:
        tally = self.tally
        return (
            f"{tally.kills} of {self.goal} kills ({tally.drivers} of drivers, {tally.workers} of "
            f"workers, {tally.servers} of fork servers) in {self.studies} studies"
        )

    def _say(self, text: str) -> None:
        line = f"{datetime.now().isoformat(timespec='seconds')} soak: {text}"
        with self._capsys.disabled():
            print(line, flush=True)
        if self._log:
            with open(self._log, "a") as log:
                print(line, file=log)
