"""Results that equal configs share, in a study that was created to reuse them.

A config takes the result of an equal one on the same rung instead of being evaluated:

1. from an earlier run, of any bracket: the equal config with the smallest (bracket, index) that did
   not fail. What earlier runs have recorded is fixed when a run starts.
2. from the same bracket of the current run: equal configs on a rung are tried in the order of their
   indices, each after the one before has failed, until one has a loss. The others take it.

Which configs arrive on a rung of a bracket depends on results of that bracket alone, so neither
rule depends on the order in which jobs finish. Between brackets of the current run, which equal
config is evaluated first would depend on that order, so these share nothing. A failure is not
shared, because its cause may be the machine. Neither is training that was stopped early, because
that depends on the bracket.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from deepband.core.facts import (
    PRECHECK,
    SAME,
    Fact,
    JobFinished,
    JobSkipped,
    JobsReopened,
    is_shared,
)
from deepband.core.schedule import Cell
from deepband.core.state import State

_PLAIN = frozenset({int, float, str, bool, type(None)})


def identity(value: Any) -> Hashable:
    """Something that is equal for equal values of the same type. Objects that a file cannot store
    are equal only to themselves."""
    if type(value) in _PLAIN:
        return type(value).__name__, repr(value)
    if type(value) is dict:
        return "dict", frozenset((name, identity(each)) for name, each in value.items())
    if type(value) in (list, tuple):
        return "list", tuple(map(identity, value))
    return "object", id(value)


@dataclass(slots=True)
class _Groups:
    """The configs that have arrived on a rung of a bracket, grouped by their values."""

    run: int
    rung: int
    arrived: list[int]
    counted: int = 0
    """How many of `arrived` are grouped: those whose configs are sampled."""
    identities: dict[int, Hashable] = field(default_factory=dict)
    indices: dict[Hashable, list[int]] = field(default_factory=dict)
    """By identity, in ascending order."""


class SharedResults:
    """Which results of a study are due to be shared, and which jobs wait for one."""

    def __init__(self) -> None:
        self._groups: dict[int, _Groups] = {}
        """By bracket."""
        self._earlier: dict[tuple[int, Hashable], JobFinished] = {}
        """By rung and identity, of the runs before `_run`."""
        self._run = -1

    def due(
        self, state: State, facts: Iterable[Fact], now: float, held: Collection[int] = ()
    ) -> list[JobFinished]:
        """The shared results that can be recorded after these facts, except in the brackets that
        are held. A job that is leased at this time takes none: another process is evaluating it."""
        changed: dict[int, set[Hashable]] = {}
        for fact in facts:
            if isinstance(fact, JobFinished) and (groups := self._groups.get(fact.bracket)):
                if fact.index in groups.identities:
                    changed.setdefault(fact.bracket, set()).add(groups.identities[fact.index])
            elif isinstance(fact, JobsReopened | JobSkipped):
                self._groups.clear()
        found: list[JobFinished] = []
        for bracket, progress in enumerate(state.progress):
            if progress.waiting and bracket not in held:
                new = self._update(state, bracket)
                found += self._shared(state, bracket, changed.get(bracket, set()) | new, now)
        return sorted(found, key=itemgetter(0, 1))

    def waits(self, state: State, bracket: int, index: int) -> bool:
        """Whether a job that can start waits for that of an equal config."""
        groups = self._groups[bracket]
        results = state.results[bracket, groups.rung]
        group = groups.indices[groups.identities[index]]
        return next(each for each in group if each not in results) != index

    def _update(self, state: State, bracket: int) -> set[Hashable]:
        """Group the configs that have arrived or were sampled since, and return their groups."""
        run, rung = state.run.number, state.progress[bracket].rung
        groups = self._groups.get(bracket)
        if groups is None or (groups.run, groups.rung) != (run, rung):
            groups = _Groups(run, rung, sorted(state.run.arrived[bracket, rung]))
            self._groups[bracket] = groups
        sampled, new = len(state.configs[bracket]), set()
        while groups.counted < len(groups.arrived):
            index = groups.arrived[groups.counted]
            if index >= sampled:
                break
            key = identity(state.config(bracket, index))
            groups.identities[index] = key
            groups.indices.setdefault(key, []).append(index)
            groups.counted += 1
            new.add(key)
        return new

    def _shared(
        self, state: State, bracket: int, changed: Iterable[Hashable], now: float
    ) -> Iterator[JobFinished]:
        """The results that members of these groups take."""
        groups, progress = self._groups[bracket], state.progress[bracket]
        for key in changed:
            source = self._source(state, (bracket, groups.rung), key)
            if source is not None:
                for index in groups.indices.get(key, ()):
                    leased = state.is_leased((bracket, index, groups.rung), now)
                    if progress.is_waiting(index) and not leased:
                        yield _copy(source, bracket, index, state.run.number)

    def _source(self, state: State, cell: Cell, key: Hashable) -> JobFinished | None:
        """The result that equal configs take on a rung of a bracket, if there is one."""
        if self._run != state.run.number:
            self._run, self._earlier = state.run.number, dict(_earlier(state))
        bracket, rung = cell
        earlier = self._earlier.get((rung, key))
        if earlier is not None:
            return earlier
        results = state.results[cell]
        members = (results.get(index) for index in self._groups[bracket].indices.get(key, ()))
        return next((each for each in members if each and _is_final(each)), None)


def _earlier(state: State) -> Iterator[tuple[tuple[int, Hashable], JobFinished]]:
    """The results of earlier runs by rung and identity. Among those of equal configs, the one to
    share comes last, so that it stays in a dict."""
    for (bracket, rung), indices in sorted(state.run.before.items(), reverse=True):
        for index in sorted(indices, reverse=True):
            result = state.results[bracket, rung][index]
            if _is_final(result):
                yield (rung, identity(state.config(bracket, index))), result


def _is_final(result: JobFinished) -> bool:
    """Whether equal configs take a result."""
    return result.loss is not None and result.stopped_after is None


def _copy(source: JobFinished, bracket: int, index: int, run: int) -> JobFinished:
    """The result of an equal config. One that was rejected stays rejected: it was not evaluated."""
    place = f"{SAME} ({source.bracket}, {source.index})"
    keeps = is_shared(source.origin) or source.origin == PRECHECK
    origin = source.origin if keeps else place
    return JobFinished(
        bracket, index, source.rung, run, source.loss, metrics=source.metrics, origin=origin
    )
