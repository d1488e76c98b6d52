"""The studies that the dashboard watches. Each keeps its state and reads only what is new."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TypeVar

from deepband.core.facts import Fact, JobKey
from deepband.core.state import State
from deepband.errors import InputError, StorageError
from deepband.execution.outbox import Outbox
from deepband.interfaces.dashboard.overview import overview
from deepband.storage import state_of
from deepband.storage.codec import Summary
from deepband.storage.sqlite import SqliteStorage

SECONDS_PER_READ = 0.5
"""A study file is not read more often than this, however many pages are open."""
MOST_OUTPUT = 100_000
"""How many characters of a worker's output are shown, from its end."""

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

    @property
    def name(self) -> str:
        return self.path.name

    def summary(self) -> Summary:
        return self._storage.summary()

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
                drawn = overview(state, self._running)
                self._drawn = self._version, json.dumps(drawn, allow_nan=False)
            return self._drawn[1]

    def output(self, key: JobKey) -> str | None:
        """The end of the output of the last attempt at a job; None if none is kept."""
        with suppress(OSError), self._outbox.open_output(key) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_OUTPUT))
            return file.read(MOST_OUTPUT).decode(errors="replace")
        return None

    def _refresh(self) -> State:
        if self._state is not None and time.monotonic() - self._last_read < SECONDS_PER_READ:
            return self._state
        news = None if self._state is None else self._storage.news(self._state)
        if self._state is None or news is None:
            self._load()
        elif news:
            self._follow(self._state, news)
        running = frozenset(job.key for job in self._outbox.running())
        self._version += running != self._running
        self._running = running
        self._last_read = time.monotonic()
        assert self._state is not None
        return self._state

    def _follow(self, state: State, news: list[Fact]) -> None:
        try:
            state.apply(news)
            self._version += 1
        except Exception:  # the state is now half updated: read everything again
            self._load()

    def _load(self) -> None:
        self._state = None
        state = state_of(self._storage)
        if not state.runs:
            raise StorageError(self.path, "is gone.")
        self._state = state
        self._version += 1


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
