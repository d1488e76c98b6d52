"""Observers: who is told what a study has recorded, and can do nothing about it.

An observer gets facts after they are kept, as copies of its own. What it raises is a warning, once,
and it is told what comes later all the same: a tracker that is out of reach for an hour costs
nothing but what it would have shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Protocol

from deepband.core.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    ObjectiveNamed,
    StudyCreated,
    own_copy,
)
from deepband.core.state import State
from deepband.errors import DeepbandError, InputError, ObserverWarning, show_warning, shown


class Observer(Protocol):
    """Is told facts."""

    def observe(self, facts: Sequence[Fact]) -> None:
        """Take in facts that were recorded, in order.

        The first call has all that is known so far, from StudyCreated on, and another one may
        have it again, after somebody else has written to the study: an observer that hands
        facts on remembers what it has handed on.
        """


def history(state: State) -> Iterator[Fact]:
    """Facts that lead to a state, each config before its results. Who runs what is not among
    them, and what was taken back is not either."""
    yield state.created
    if state.objective is not None:
        yield ObjectiveNamed(state.objective)
    results = _by_run(state)
    for run in state.runs:
        yield run.started
        if not run.number:
            yield from _drawn(state)
        yield from results.get(run.number, ())
    yield from state.ahead.results.values()


def _drawn(state: State) -> Iterator[ConfigsDrawn]:
    for bracket, configs in enumerate(state.configs):
        places = ((bracket, index) for index in range(len(configs)))
        for origin, same in groupby(places, key=state.origins.get):
            indices = [index for _, index in same]
            drawn = tuple(configs[index] for index in indices)
            yield ConfigsDrawn(bracket, indices[0], drawn, origin)


def _by_run(state: State) -> dict[int, list[JobFinished]]:
    """What each run evaluated, from the starting rungs up."""
    found: dict[int, list[JobFinished]] = {}
    for _, results in sorted(state.results.items()):
        for told in sorted(results.values(), key=attrgetter("index")):
            found.setdefault(told.run, []).append(told)
    return found


class Observers:
    """Those who observe one study."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._warned: set[int] = set()
        """The places of those whose error was shown."""
        self._telling = False

    def check_quiet(self) -> None:
        """Raise for an observer that would change the study while it is told something."""
        if self._telling:
            raise DeepbandError("an observer only looks: let it note what to do, and do it after.")

    def add(self, observer: Observer, state: State) -> None:
        """Take in one more, and tell it what is known so far. One that is here is only told."""
        self.check_quiet()
        if not callable(getattr(observer, "observe", None)):
            raise InputError(
                f"{shown(observer)} is no observer: give an object with a method observe(facts)."
            )
        places = [place for place, each in enumerate(self._observers) if each is observer]
        if not places:
            places = [len(self._observers)]
            self._observers.append(observer)
        self._tell(places[0], list(history(state)))

    def tell(self, facts: Iterable[Fact]) -> None:
        """Tell everybody what was recorded."""
        whole = list(facts)
        for place in range(len(self._observers)):
            self._tell(place, whole)

    def _tell(self, place: int, facts: Sequence[Fact]) -> None:
        observer = self._observers[place]
        self._telling = True
        try:
            observer.observe(tuple(map(copied, facts)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: it is not for an observer to end a run
            self._warn(place, error)
        finally:
            self._telling = False

    def _warn(self, place: int, error: BaseException) -> None:
        if place in self._warned:
            return
        self._warned.add(place)
        who = type(self._observers[place]).__name__
        show_warning(
            f"the observer {who} failed with {type(error).__name__}: {_message(error)}\n"
            "The study goes on and tells it what comes; further errors of it are not shown. Once "
            "it is mended, give it to study.observe again: it is told everything.",
            ObserverWarning,
        )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(no message)"


def copied(fact: Fact) -> Fact:
    """A fact that can be changed without changing the study's own."""
    make = _COPY.get(type(fact))
    return fact if make is None else make(fact)


def _copy_created(fact: StudyCreated) -> StudyCreated:
    return fact._replace(space=own_copy(fact.space))


def _copy_drawn(fact: ConfigsDrawn) -> ConfigsDrawn:
    return fact._replace(configs=tuple(map(own_copy, fact.configs)))


def _copy_finished(fact: JobFinished) -> JobFinished:
    return fact._replace(metrics=own_copy(fact.metrics)) if fact.metrics else fact


_COPY: dict[type, Callable[[Any], Fact]] = {
    StudyCreated: _copy_created,
    ConfigsDrawn: _copy_drawn,
    JobFinished: _copy_finished,
}
