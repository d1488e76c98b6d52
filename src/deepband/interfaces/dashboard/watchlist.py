"""The studies that the dashboard watches. Each keeps its state and reads only what is new."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from deepband.analysis.importance import importance_of, sample
from deepband.analysis.measures import measure
from deepband.analysis.status import without_result
from deepband.core.facts import Fact, JobKey
from deepband.core.leases import leased_jobs
from deepband.core.state import State
from deepband.errors import DeepbandError, InputError, StorageError
from deepband.execution.outbox import Outbox
from deepband.execution.worker_output import read_output
from deepband.interfaces.dashboard.overview import overview
from deepband.interfaces.dashboard.parameter_charts import MOST_AXES, importance_chart
from deepband.interfaces.dashboard.study_row import study_row
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage

SECONDS_PER_READ = 0.5
"""A study file is not read more often than this, however many pages are open."""
SECONDS_PER_IMPORTANCE = 30.0
"""The importance of parameters, which takes seconds, is not computed more often than this."""
MOST_JUDGED = 300
"""How many evaluations it is computed from."""
MOST_OUTPUT = 100_000
"""How many bytes of a worker's output are shown, from its end."""

Result = TypeVar("Result")


class Watched:
    """One study file, opened for reading. Its methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = hashlib.blake2b(os.fsencode(path), digest_size=8).hexdigest()
        self._storage = SqliteStorage(path, looks_only=True)
        self._outbox = Outbox(self._storage.files)
        self._state: State | None = None
        self._running: frozenset[JobKey] = frozenset()
        self._lock = Lock()
        self._last_read = 0.0
        self._version = 0
        self._drawn = (-1, "{}")
        self._results = 0  # grows with every change but those of running jobs
        self._importance: dict[str, Any] = {}
        self._importance_of = (-1, -math.inf)  # the results and the time that it was computed for
        self._importance_lock = Lock()
        self._order: list[str] = []
        self._row: tuple[object, dict[str, Any]] | None = None
        self._row_until = math.inf
        """When the first lease that the row counts ends."""

    @property
    def name(self) -> str:
        return self.path.name

    def row(self) -> dict[str, Any]:
        """What the list of studies shows. A study that no page shows is read again only if its file
        has changed, and is not kept in memory."""
        with self._lock:
            held, now = self._held(), time.time()
            stamp = *self._stamp(), held
            if self._row is None or self._row[0] != stamp or now >= self._row_until:
                state = state_of(self._storage) if self._state is None else self._refresh()
                if not state.runs:
                    raise StorageError(self.path, "is damaged: it contains no run.")
                running = without_result(state, held.union(leased_jobs(state, now)))
                self._row = stamp, study_row(state, len(running), stamp[0])
                self._row_until = _next_end(state, now)
            return self._row[1]

    def _held(self) -> frozenset[JobKey]:
        """The jobs that workers of this study are running."""
        return frozenset(key for each in self._outbox.running() for key in each.keys)

    def _stamp(self) -> tuple[float, int]:
        """When the file was last written to, and its size."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise StorageError(self.path, f"cannot be read: {error}.") from error
        return found.st_mtime, found.st_size

    def look(self) -> int:
        """Read what is new. Returns a number that increases with every change."""
        with self._lock:
            self._refresh()
            return self._version

    def read(self, reader: Callable[[State], Result]) -> Result:
        """Call a function with the state, which does not change meanwhile."""
        with self._lock:
            return reader(self._refresh())

    def overview(self) -> str:
        """The data of the study page as JSON, computed once for all visitors."""
        with self._lock:
            state = self._refresh()
            if self._drawn[0] != self._version:
                running = frozenset(without_result(state, self._running))
                drawn = overview(state, running, self._order)
                drawn["updated"] = self._stamp()[0]
                self._drawn = self._version, json.dumps(drawn, allow_nan=False)
            return self._drawn[1]

    def importance(self) -> dict[str, Any]:
        """The importance of parameters, or a note that says why there is none. Pages that ask
        meanwhile wait for it; the study itself can be read."""
        with self._importance_lock:
            with self._lock:
                state, (before, when) = self._refresh(), self._importance_of
                is_recent = time.monotonic() - when < SECONDS_PER_IMPORTANCE
                if self._results == before or is_recent:
                    return self._importance
                results, given = self._results, sample(state, most=MOST_JUDGED)
            try:
                found = importance_of(given)
                self._set_order(list(found.shares))
                self._importance = importance_chart(found, measure(state).metric)
            except DeepbandError as error:  # Optuna is missing
                self._importance = {"shares": [], "note": f"Not available: {error}"}
            self._importance_of = results, time.monotonic()
            return self._importance

    def _set_order(self, order: list[str]) -> None:
        """Remember which parameters matter most. The overview changes if it shows only those."""
        with self._lock:
            self._version += order != self._order and len(order) > MOST_AXES
            self._order = order

    def output(self, key: JobKey) -> str | None:
        """The end of the output of the last attempt at a job; None if none is kept."""
        return read_output(self._storage.files, key, MOST_OUTPUT)

    def _refresh(self) -> State:
        if self._state is not None and time.monotonic() - self._last_read < SECONDS_PER_READ:
            return self._state
        news = None if self._state is None else self._storage.news(self._state)
        if self._state is None or news is None:
            self._load()
        elif news:
            self._follow(self._state, news)
        assert self._state is not None
        running = self._held().union(leased_jobs(self._state, time.time()))
        self._version += running != self._running
        self._running = running
        self._last_read = time.monotonic()
        return self._state

    def _follow(self, state: State, news: list[Fact]) -> None:
        try:
            state.apply(news)
            self._version += 1
            self._results += 1
        except Exception:  # the state is now half updated: read everything again
            self._load()

    def _load(self) -> None:
        self._state = None
        state = state_of(self._storage)
        if not state.runs:
            raise StorageError(self.path, "is gone.")
        self._state = state
        self._version += 1
        self._results += 1


def _next_end(state: State, now: float) -> float:
    """When the next lease of a job ends, unless it is renewed."""
    found = (lease.until for leases in state.leases.values() for lease in leases.values())
    return min((until for until in found if until > now), default=math.inf)


class Watchlist:
    """The studies that are shown: one file, or all `*.study` files in a folder."""

    def __init__(self, place: Path) -> None:
        if not os.path.exists(place):
            raise InputError(f"there is no study or folder {place}.")
        self.place = Path(os.path.abspath(place))
        self._watched: dict[Path, Watched] = {}
        if not self.place.is_dir():
            self._watched[self.place] = Watched(self.place)
            self._watched[self.place].look()

    def studies(self) -> list[Watched]:
        """The studies by name. A folder is listed again on every call."""
        paths = [self.place]
        if self.place.is_dir():
            found = self.place.glob("*.study")
            paths = sorted(path for path in found if path.is_file() and not path.is_symlink())
        watched: dict[Path, Watched] = {}
        for path in paths:
            with suppress(StorageError):  # a name that SQLite cannot open
                watched[path] = self._watched.get(path) or Watched(path)
        self._watched = watched
        return list(watched.values())

    def find(self, identity: str) -> Watched | None:
        """The study with an id, if it is still there."""
        return next((each for each in self.studies() if each.id == identity), None)
