"""The text of a progress display: one line for a log, several for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from unicodedata import combining, east_asian_width

from deepband.analysis.text import about, brief, duration, printable, shortened
from deepband.errors import counted
from deepband.execution.progress import Progress, RunningEvaluation

MOST_RUNNING = 8
"""How many running evaluations are listed."""
MOST_NAME = 24
"""How many characters of a metric's name are shown."""
SHORTEST_BAR, LONGEST_BAR = 8, 40
BARS = {True: ("━", "─"), False: ("#", "-")}
"""What the two parts of a bar are drawn with, if the terminal has Unicode and if it does not."""


def one_line(progress: Progress) -> str:
    """The progress of a run in one line, for a log."""
    return _sentence(progress, state(progress))


def last_line(progress: Progress) -> str:
    """The same when the call has ended."""
    return _sentence(progress, [ending(progress)])


def _sentence(progress: Progress, parts: Sequence[str]) -> str:
    return f"{title(progress)}: {', '.join([*amounts(progress), *best(progress), *parts])}"


def lines(
    progress: Progress, notes: Sequence[str], width: int, height: int, unicode: bool
) -> list[str]:
    """The same for a terminal: a bar on top, then the running evaluations as far as they fit, then
    notes."""
    top = [headline(progress, width, unicode)]
    for parts in (amounts(progress), best(progress), state(progress)):
        top += wrapped(parts, width)
    below = [line for note in notes for line in textwrap.wrap(printable(note), width)]
    most = min(MOST_RUNNING, max(0, height - len(top) - len(below) - 1))
    running = [f"  {each}" for each in running_lines(progress.running, most)]
    return [fitted(line, width) for line in [*top, *running, *below][:height]]


def last_lines(progress: Progress, notes: Sequence[str], width: int, unicode: bool) -> list[str]:
    """What stays on a terminal when a call has ended. Notes may be longer than a line."""
    found = [headline(progress, width, unicode)]
    for parts in (amounts(progress), [*best(progress), ending(progress)]):
        found += wrapped(parts, width)
    return [*(fitted(line, width) for line in found), *map(printable, notes)]


def headline(progress: Progress, width: int, unicode: bool) -> str:
    """The title, a bar over the units of budget, and the percentage."""
    share = share_done(progress)
    name, percentage = f"{title(progress)}  ", f"  {int(100 * share)} %"
    length = min(LONGEST_BAR, max(SHORTEST_BAR, width - len(name) - len(percentage)))
    done, left = BARS[unicode]
    full = int(length * share)
    return f"{name}{done * full}{left * (length - full)}{percentage}"


def title(progress: Progress) -> str:
    """What is in progress."""
    return "confirming" if progress.confirming else f"run {progress.run}"


def share_done(progress: Progress) -> float:
    """How much of the budget is spent, from 0 to 1."""
    if progress.done:
        return 1.0
    return float(progress.spent / progress.total) if progress.total else 0.0


def amounts(progress: Progress) -> list[str]:
    """Evaluations and units of budget, how many evaluations failed or were stopped early, and how
    many configs were rejected."""
    extends = progress.run > 0 and not progress.confirming
    bound = "at least " if extends else ""
    if progress.stopped_training:
        bound = "about " if extends else "at most "
    bound = "" if progress.done else bound
    evaluations = counted(progress.total_evaluations, "evaluation")
    units = "unit" if progress.total == 1 else "units"
    found = [
        f"{progress.evaluations:,} of {bound}{evaluations}",
        f"{_units(progress.spent)} of {bound}{_units(progress.total)} {units}",
    ]
    counts = {
        "failed": progress.failed,
        "rejected": progress.rejected,
        "stopped early": progress.stopped_training,
    }
    return [*found, *(f"{count:,} {name}" for name, count in counts.items() if count)]


def best(progress: Progress) -> list[str]:
    """The best value with its budget, and the main metric or, with several objectives, the size of
    the front."""
    if progress.front:
        return [f"front of {counted(progress.front, 'evaluation')}"]
    found = progress.best
    if found is None or found.value is None:
        return ["no result yet"]
    text = f"best {brief(found.value)} on budget {brief(found.budget)}"
    if progress.metric is None:
        return [text]
    value = brief(found.metrics[progress.metric])
    return [text, f"{shortened(progress.metric, MOST_NAME)} {value}"]


def state(progress: Progress) -> list[str]:
    """What is running, and how long the run takes."""
    workers = counted(progress.workers, "worker")
    found = [f"{len(progress.running)} running on {workers}", f"{clock(progress.seconds)} elapsed"]
    left = progress.seconds_left
    return [*found, "no estimate yet" if left is None else f"{about(max(1, round(left)))} left"]


def ending(progress: Progress) -> str:
    """How a call has ended, and how long it took."""
    return f"{'done in' if progress.done else 'stopped after'} {duration(progress.seconds)}"


def running_lines(running: Sequence[RunningEvaluation], most: int = MOST_RUNNING) -> list[str]:
    """The running evaluations as aligned lines, and how many are not listed."""
    rows = [(_place(each), clock(each.seconds)) for each in running[:most]]
    longest = [max((len(row[place]) for row in rows), default=0) for place in (0, 1)]
    found = [f"{where.ljust(longest[0])}  {time.rjust(longest[1])}" for where, time in rows]
    more = len(running) - len(rows)
    return [*found, f"and {more} more"] if more else found


def _place(running: RunningEvaluation) -> str:
    place = f"bracket {running.bracket}, index {running.index}, budget {brief(running.budget)}"
    return place if running.repetition is None else f"{place}, repetition {running.repetition}"


def wrapped(parts: Iterable[str], width: int) -> list[str]:
    """Parts joined by commas, on as many lines as they need."""
    found: list[str] = []
    for part in parts:
        if found and columns(found[-1]) + 2 + columns(part) <= width:
            found[-1] += f", {part}"
        else:
            found.append(part)
    return found


def fitted(line: str, width: int) -> str:
    """A line that fits into this many columns."""
    if columns(line) <= width:
        return line
    while line and columns(line) > width - 1:
        line = line[:-1]
    return f"{line}…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def clock(seconds: float) -> str:
    """A time that passes, such as 0:07, 12:30 or 1:02:03."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _units(amount: int | float) -> str:
    return f"{amount:,}" if isinstance(amount, int) or amount >= 1e6 else f"{amount:.6g}"
