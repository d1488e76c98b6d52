"""Observers, which receive the facts that a study records and cannot change the study.

An observer receives copies of facts after they are recorded. Its first exception becomes a warning,
and it still receives later facts: a tracker that is unreachable for an hour does not stop a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from deepband.core.facts import (
    ConfigsDrawn,
    Confirmed,
    Fact,
    JobFinished,
    JobSkipped,
    ObjectiveNamed,
    RunStarted,
    RunStopped,
    StudyCreated,
    own_copy,
)
from deepband.core.state import State
from deepband.errors import DeepbandError, InputError, ObserverWarning, show_warning, shown


class Observer(Protocol):
    """An object that receives facts, for example to log them to a tracker."""

    def observe(self, facts: Sequence[Fact]) -> None:
        """Process facts that were recorded, in order.

        The first call contains all facts recorded so far, starting with StudyCreated. A later call
        may contain them again, after another process has written to the study. An observer that
        forwards facts must therefore remember what it has forwarded.
        """


def history(state: State) -> Iterator[Fact]:
    """Facts that lead to a state, each config before its results. Running jobs and withdrawn
    failures are not among them."""
    yield state.created
    if state.objective is not None:
        yield ObjectiveNamed(state.objective)
    results = _by_run(state)
    for run in state.runs:
        yield run.started
        if not run.number:
            yield from _drawn(state)
        found: list[Iterable[JobSkipped | JobFinished]] = [run.skips(), results.get(run.number, ())]
        yield from merge(*found, key=itemgetter(0, 2))
        if run.stopped is not None:
            yield RunStopped(run.number, run.stopped)
    yield from state.ahead.results.values()
    yield from (fact for _, fact in sorted(state.confirmations.items()))


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
        for result in sorted(results.values(), key=attrgetter("index")):
            found.setdefault(result.run, []).append(result)
    return found


class Observers:
    """The observers of one study."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._warned: set[int] = set()
        """The positions of the observers whose error was shown."""
        self._telling = False

    def check_quiet(self) -> None:
        """Raise if an observer tries to change the study while it receives facts."""
        if self._telling:
            raise DeepbandError(
                "an observer cannot change its study: make changes after `observe` has returned."
            )

    def add(self, observer: Observer, state: State) -> None:
        """Add an observer, unless it is already there, and send it all facts so far."""
        self.check_quiet()
        if not callable(getattr(observer, "observe", None)):
            raise InputError(
                f"{shown(observer)} is not an observer: give an object with a method "
                "observe(facts)."
            )
        places = [place for place, each in enumerate(self._observers) if each is observer]
        if not places:
            places = [len(self._observers)]
            self._observers.append(observer)
        self._tell(places[0], list(history(state)))

    def tell(self, facts: Iterable[Fact]) -> None:
        """Send new facts to all observers."""
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
        except BaseException as error:  # including SystemExit: an observer must not end a run
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
            "The run continues, and the observer still receives new facts; its further errors are "
            "not shown. Once it is fixed, pass it to study.observe again to send it all facts.",
            ObserverWarning,
        )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(no message)"


def copied(fact: Fact) -> Fact:
    """A copy of a fact, which can be changed without changing the study."""
    make = _COPY.get(type(fact))
    return fact if make is None else make(fact)


def _copy_created(fact: StudyCreated) -> StudyCreated:
    return fact._replace(space=own_copy(fact.space))


def _copy_run(fact: RunStarted) -> RunStarted:
    if fact.change is None:
        return fact
    space, added = map(own_copy, fact.change[:2])
    return fact._replace(change=fact.change._replace(space=space, added=added))


def _copy_drawn(fact: ConfigsDrawn) -> ConfigsDrawn:
    return fact._replace(configs=tuple(map(own_copy, fact.configs)))


def _copy_finished(fact: JobFinished | Confirmed) -> JobFinished | Confirmed:
    return fact._replace(metrics=own_copy(fact.metrics)) if fact.metrics else fact


_COPY: dict[type, Callable[[Any], Fact]] = {
    StudyCreated: _copy_created,
    RunStarted: _copy_run,
    ConfigsDrawn: _copy_drawn,
    JobFinished: _copy_finished,
    Confirmed: _copy_finished,
}
