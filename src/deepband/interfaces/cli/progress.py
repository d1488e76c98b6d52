"""The display while a study runs: a live table on a terminal, one line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from deepband.analysis import summary
from deepband.analysis.text import printable
from deepband.core.evaluations import best_evaluation
from deepband.core.facts import Fact
from deepband.core.schedule import as_number
from deepband.interfaces.cli.output import ANY_BUDGET, describe, describe_status, say
from deepband.study.study import Study

LINE_SECONDS, TABLE_SECONDS = 5.0, 0.25


class Progress:
    """Shows the progress of a study; call `show` after each record."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.live: Live | None = None
        self._start = time.monotonic()
        self._run, self._spent = (
            study.session.state.run.number,
            summary.status(study.session.state).spent,
        )
        self._next_update = self._start + LINE_SECONDS
        if sys.stdout.isatty():
            self._next_update = self._start
            self.live = Live(console=Console(markup=False, highlight=False), refresh_per_second=4)

    def __enter__(self) -> Progress:
        if self.live:
            self.live.start()
        self.show()
        self.study.observe(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self._next_update = self._start
            self.show()
            self.live.stop()

    def observe(self, facts: Sequence[Fact]) -> None:
        """Called with everything that is recorded: Progress is an observer."""
        self.show()

    def show(self) -> None:
        """Update the display if it is due."""
        now = time.monotonic()
        if now < self._next_update:
            return
        if self.live:
            self.live.update(Text("\n".join(map(printable, self._table().splitlines()))))
        else:
            say(self._line())
        self._next_update = now + (TABLE_SECONDS if self.live else LINE_SECONDS)

    def _table(self) -> str:
        status = summary.status(self.study.session.state)
        best = describe(best_evaluation(self.study.session.state)).splitlines()[0]
        return f"{describe_status(status)}\n\n{best}\n{self._time_left(status)}"

    def _line(self) -> str:
        status = summary.status(self.study.session.state)
        best = best_evaluation(self.study.session.state)
        found = (
            f"{ANY_BUDGET} {best.value:.6g} (budget {best.budget:.6g})" if best else "no loss yet"
        )
        spent, left = (f"{as_number(cost):.6g}" for cost in (status.spent, status.left))
        parts = f"{status.evaluations} evaluations", f"budget {spent} spent", f"{left} left", found
        return f"run {status.run}: " + ", ".join(filter(None, [*parts, self._time_left(status)]))

    def _time_left(self, status: summary.Status) -> str:
        if status.run != self._run:  # it was deepened in the meantime
            self._run, self._spent, self._start = status.run, status.spent, time.monotonic()
        spent = float(status.spent - self._spent)
        if not spent or status.done:
            return ""
        seconds = (time.monotonic() - self._start) / spent * float(status.left)
        minutes, seconds = divmod(round(seconds), 60)
        return f"about {minutes} min {seconds:02.0f} s left"
