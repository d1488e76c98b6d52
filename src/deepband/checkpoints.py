"""Where a config's training state lives, how long it is kept, and when it is trusted.

    FOLDER/bracket/index/rung/          what the objective saved on a rung
    FOLDER/bracket/index/rung.json      its manifest: every file with size and digest
    FOLDER/bracket/index/rung.partial/  what an interrupted attempt had saved

A checkpoint counts only together with a recorded result and a manifest that fits: a folder that
was deleted, damaged or left by an interrupted attempt is never trained on.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from deepband.errors import InputError
from deepband.facts import JobKey
from deepband.schedule import Schedule
from deepband.state import State
from deepband.strategies import FRUGAL

KEEP = "'newest' (of each config), 'all', 'none' or 'top:N' (the newest of the N best configs)"


class Keep(NamedTuple):
    """How many checkpoints are kept: all, or the newest of each of the best `configs`."""

    all: bool
    configs: int | None
    """None is of every config."""


def read_keep(given: str) -> Keep:
    """What a user wrote as `keep`."""
    named = {"newest": Keep(False, None), "all": Keep(True, None), "none": Keep(False, 0)}
    if given in named:
        return named[given]
    word, _, number = str(given).partition(":")
    if word != "top" or not number.isdecimal():
        raise InputError(f"keep is {given!r}: give {KEEP}.")
    return Keep(False, int(number))


class Checkpoints:
    """The checkpoints of one study, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: JobKey) -> Path:
        bracket, index, rung = key
        return self.folder / str(bracket) / str(index) / str(rung)

    def begin(self, key: JobKey) -> tuple[Path, Path | None]:
        """An empty folder for a job, and what an interrupted attempt at it had saved, if any."""
        path, partial = self.path(key), self._partial(key)
        self._manifest(key).unlink(missing_ok=True)
        if path.exists():
            if any(path.iterdir()):
                _remove(partial)
                path.rename(partial)
            else:
                path.rmdir()
        path.mkdir(parents=True)
        return path, partial if partial.exists() else None

    def finish(self, key: JobKey) -> None:
        """Seal what a job saved, before its result is recorded."""
        path = self.path(key)
        if not path.is_dir():  # the objective removed it: it saved nothing
            pass
        elif any(path.iterdir()):
            manifest = self._manifest(key)
            temporary = manifest.with_suffix(".new")
            temporary.write_text(json.dumps(_digests(path)))
            temporary.rename(manifest)
        else:
            path.rmdir()
        _remove(self._partial(key))

    def discard(self, key: JobKey) -> None:
        """Remove all that is kept of a config on a rung."""
        self._manifest(key).unlink(missing_ok=True)
        _remove(self.path(key))
        _remove(self._partial(key))
        for folder in self.path(key).parents[:2]:
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def is_whole(self, key: JobKey) -> bool:
        """Whether a checkpoint is there, and is what it was when its job finished."""
        try:
            sealed = json.loads(self._manifest(key).read_text())
            return bool(sealed == _digests(self.path(key)))
        except (OSError, ValueError):
            return False

    def nearest(self, key: JobKey, rungs: Collection[int]) -> int | None:
        """The highest of these rungs below the job's own that has a whole checkpoint."""
        bracket, index, rung = key
        lower = sorted((each for each in rungs if each < rung), reverse=True)
        return next((each for each in lower if self.is_whole((bracket, index, each))), None)

    def kept(self) -> Iterator[JobKey]:
        """Every sealed checkpoint."""
        for manifest in self.folder.glob("*/*/*.json"):
            if manifest.with_suffix("").is_dir():
                bracket, index, rung = (*manifest.parts[-3:-1], manifest.stem)
                yield int(bracket), int(index), int(rung)

    def size(self, keys: Iterable[JobKey]) -> int:
        """How many bytes these checkpoints take."""
        files = (file for key in keys for file in self.path(key).rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files)

    def _manifest(self, key: JobKey) -> Path:
        return self.path(key).with_suffix(".json")

    def _partial(self, key: JobKey) -> Path:
        return self.path(key).with_suffix(".partial")


def superfluous(state: State, keep: Keep, kept: Iterable[JobKey]) -> list[JobKey]:
    """The checkpoints that `keep` does not keep.

    Those of configs on a rung that the current run has not decided yet are spared: they may be
    needed next.
    """
    if keep.all:
        return []
    newest: dict[tuple[int, int], int] = {}
    for bracket, index, rung in (kept := [key for key in kept if _is_recorded(state, key)]):
        newest[bracket, index] = max(rung, newest.get((bracket, index), rung))
    ranked = sorted(newest, key=lambda config: _rank(state, (*config, newest[config])))
    spared = set(ranked[: keep.configs]) | {each for each in ranked if _undecided(state, *each)}
    return [
        (bracket, index, rung)
        for bracket, index, rung in kept
        if (bracket, index) not in spared or rung < newest[bracket, index]
    ]


def retraining_cost(
    state: State,
    kept: Collection[JobKey],
    strategy: str = "preserving",
    schedule: Schedule | None = None,
) -> Fraction:
    """The most that the next deepening, or that to a schedule, may have to train again because
    checkpoints are missing.

    Whoever goes up a rung for the first time goes on from the rung below; without a checkpoint
    there it pays that budget once more.
    """
    if strategy == FRUGAL:
        top, (order, places) = state.schedule.top, state.frugal_contest()
        lacking = sum((*place, top) not in kept for place in order[:places])
        return lacking * state.schedule.max_budget
    deeper, kept = schedule or state.schedule.deepened(), set(kept)
    missing = {
        (bracket, rung, index)
        for (bracket, rung), results in state.results.items()
        for index, told in results.items()
        if told.loss is not None
        and (bracket, index, rung) not in kept
        and index not in state.results.get((bracket, rung + 1), {})
    }
    counts = Counter((bracket, rung) for bracket, rung, _ in missing)
    return sum(
        (
            min(count, deeper.places(bracket, rung + 1)) * deeper.budget(rung)
            for (bracket, rung), count in counts.items()
            if rung < deeper.top
        ),
        Fraction(0),
    )


def _is_recorded(state: State, key: JobKey) -> bool:
    bracket, index, rung = key
    return index in state.results.get((bracket, rung), {})


def _rank(state: State, key: JobKey) -> tuple[int, float, int, int]:
    """Higher rungs first, then smaller losses."""
    bracket, index, rung = key
    told = state.results[bracket, rung].get(index)
    loss = told.loss if told and told.loss is not None else float("inf")
    return -rung, loss, bracket, index


def _undecided(state: State, bracket: int, index: int) -> bool:
    front, run = state.fronts[bracket], state.run
    return front.open > 0 and index in run.arrived[bracket, front.rung]


def _digests(folder: Path) -> dict[str, list[int | str]]:
    """Every file below a folder with its size and digest."""
    digests: dict[str, list[int | str]] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "blake2b").hexdigest()
            digests[str(file.relative_to(folder))] = [file.stat().st_size, digest]
    return digests


def _remove(folder: Path) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)
