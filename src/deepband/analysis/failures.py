"""Failed evaluations, grouped by their error, and the summary that a run ends with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from deepband.analysis.text import brief, html_table, printable, shortened
from deepband.core.costs import paid
from deepband.core.facts import Config, JobFinished, JobKey, own_copy
from deepband.core.state import State
from deepband.errors import counted

MOST_GROUPS = 3
"""How many errors the summary of a run names."""
MOST_CHARACTERS = 300
"""How much of a config is shown in text."""
MOST_JOBS = 3
"""How many failed jobs of a group are shown, unless all are asked for."""
VARYING = re.compile(
    r"0x[0-9a-f]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|-?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?",
    re.IGNORECASE,
)
"""Addresses, UUIDs and numbers: what differs between messages of the same error."""
TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Evaluations that failed with the same error, sorted by bracket, index and rung. Messages that
    differ only in numbers or addresses count as the same error."""

    error: str
    """The first line of the first one: the type of the error, a colon, and its message."""
    count: int
    messages: int
    """How many different first lines there are."""
    jobs: tuple[JobKey, ...]
    """The (bracket, index, rung) of each."""
    configs: tuple[Config, ...]
    """The config of each."""
    traceback: str | None
    """That of the first failure; None for errors without one, such as a NaN or a dead worker."""

    @property
    def title(self) -> str:
        """The count and the error in one line."""
        varying = " (numbers vary)" if self.messages > 1 else ""
        return f"{self.count} x {shortened(self.error, 200)}{varying}"

    def lines(self, most: int | None = MOST_JOBS) -> Iterator[str]:
        """The title, the first `most` jobs with their configs, and the traceback."""
        yield self.title
        for (bracket, index, rung), config in zip(self.jobs[:most], self.configs, strict=False):
            values = ", ".join(f"{name} = {brief(value)}" for name, value in config.items())
            place = f"bracket {bracket}, index {index}, rung {rung}"
            yield f"    {place}: {shortened(values, MOST_CHARACTERS)}"
        if most is not None and self.count > most:
            yield f"    and {self.count - most} more"
        if self.traceback:
            yield ""
            yield from (f"    {printable(line)}" for line in self.traceback.splitlines())


class Failures(tuple[FailureGroup, ...]):
    """The failures of a study by error, the most frequent first."""

    __slots__ = ()

    @property
    def total(self) -> int:
        """How many evaluations failed."""
        return sum(group.count for group in self)

    def text(self, most: int | None = MOST_JOBS) -> str:
        """All groups, with the first `most` jobs of each."""
        blocks = ("\n".join(group.lines(most)) for group in self)
        return "\n\n".join([f"{self._count()} failed.", *blocks])

    def _count(self) -> str:
        return counted(self.total, "evaluation") if self else "No evaluation"

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = [(each.count, shortened(each.error, 200), _places(each)) for each in self]
        return html_table(
            f"{self._count()} failed", ("count", "error", "bracket, index, rung"), rows
        )


def _places(group: FailureGroup) -> str:
    more = f" and {group.count - MOST_JOBS} more" if group.count > MOST_JOBS else ""
    return " · ".join(", ".join(map(str, job)) for job in group.jobs[:MOST_JOBS]) + more


def failures(state: State) -> Failures:
    """The failed evaluations of all runs."""
    return grouped(state, state.all_results())


def grouped(state: State, results: Iterable[JobFinished]) -> Failures:
    """The failed ones among results, by error."""
    failed = sorted((each for each in results if each.loss is None), key=_key)
    lines = {_key(each): first_line(each.error) for each in failed}
    found: dict[str, list[JobFinished]] = {}
    for result in failed:
        found.setdefault(_merged(lines[_key(result)]), []).append(result)
    groups = sorted(found.values(), key=lambda group: (-len(group), _key(group[0])))
    return Failures(_group(state, group, lines) for group in groups)


def _group(state: State, group: list[JobFinished], lines: Mapping[JobKey, str]) -> FailureGroup:
    return FailureGroup(
        error=lines[_key(group[0])],
        count=len(group),
        messages=len({lines[_key(each)] for each in group}),
        jobs=tuple(map(_key, group)),
        configs=tuple(own_copy(state.config(each.bracket, each.index)) for each in group),
        traceback=_traceback(group[0].error),
    )


def _key(result: JobFinished) -> JobKey:
    return result.bracket, result.index, result.rung


def first_line(error: str | None) -> str:
    """The type of an error and the first line of its message that is not empty."""
    kind, _, message = (error or "unknown").partition(":")
    message = message.partition(TRACEBACK)[0].strip()
    return f"{kind}: {message.splitlines()[0].rstrip()}" if message else kind.strip()


def _traceback(error: str | None) -> str | None:
    _, found, rest = (error or "").partition(f"\n\n{TRACEBACK}")
    return f"{TRACEBACK}{rest}".rstrip() if found else None


@lru_cache(1000)
def _merged(line: str) -> str:
    return VARYING.sub("#", line)


class FailureWatch:
    """Notices what fails from now on, and summarises the runs that this belongs to."""

    def __init__(self, state: State) -> None:
        self._first_run = state.run.number
        self._before = _count_failed(state)

    def summary(self, state: State) -> str | None:
        """How many evaluations failed, and why, in the run that was current and those since; None
        if nothing has failed since. Imported results do not count. It takes the present state: a
        study that reads what another process has written gets a new one."""
        if _count_failed(state) <= self._before:
            return None
        results = [each for each in paid(state) if each.run >= self._first_run]
        found = grouped(state, results)
        count = f"{found.total} of {counted(len(results), 'evaluation')}"
        return _sentence(f"{count}{_of_runs(state, self._first_run)} failed", found)


def _count_failed(state: State) -> int:
    return sum(each.loss is None for each in paid(state))


def _of_runs(state: State, first: int) -> str:
    """Which runs are meant, unless it is all of them."""
    last = state.run.number
    if not first:
        return ""
    return f" of run {first}" if first == last else f" of runs {first} to {last}"


def _sentence(start: str, found: Failures) -> str:
    """One line if there is one error, otherwise one per error, the most frequent first."""
    if len(found) == 1:
        return f"{start}: {found[0].title}"
    lines = [f"{start}:", *(f"  {group.title}" for group in found[:MOST_GROUPS])]
    others = len(found) - MOST_GROUPS
    if others > 0:
        lines.append(f"  and {counted(others, 'other error')}")
    return "\n".join(lines)
