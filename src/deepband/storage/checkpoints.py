"""Where a config's training state lives, how long it is kept, and when it is trusted.

    FOLDER/BRACKET/INDEX/RUNG/                 what the objective saved on a rung
    FOLDER/BRACKET/INDEX/RUNG.json             its manifest: every file with size and digest
    FOLDER/attempts/BRACKET-INDEX-RUNG.TOKEN/  what one attempt at a job is saving
    FOLDER/attempts/BRACKET-INDEX-RUNG.partial/  what an interrupted attempt had saved

Every attempt saves into a folder of its own and seals it there with a manifest. The process that
records the result renames the folder first; it alone creates and removes anything else. An attempt
that was given up but still runs can therefore only write into its own folder.

A checkpoint counts only together with a recorded result and a manifest that fits: a folder that
was deleted, damaged or left by an interrupted attempt is never trained on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from deepband.core.facts import JobKey
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.core.strategies import FRUGAL
from deepband.errors import InputError, StorageError

KEEP = "'newest' (of each config), 'all', 'none' or 'top:N' (the newest of the N best configs)"
PARTIAL = "partial"
ENDINGS = (".json", ".new")
"""Of manifests, whole or being written."""


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


def seal(attempt: Path) -> bool:
    """Write the manifest of what an attempt saved; False, and nothing left, if it saved nothing.

    A link or a file in the place of the folder is not what was handed out, and counts as nothing.
    """
    if attempt.is_symlink() or not attempt.is_dir() or not any(attempt.iterdir()):
        _remove(attempt)
        return False
    manifest = _manifest(attempt)
    temporary = attempt.with_name(f"{attempt.name}.new")
    temporary.write_text(json.dumps(_digests(attempt)))
    temporary.rename(manifest)
    return True


def abandon(attempt: Path) -> None:
    """Remove what an attempt saved."""
    _manifest(attempt).unlink(missing_ok=True)
    _remove(attempt)


class Checkpoints:
    """The checkpoints of one study, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempts = folder / "attempts"

    def path(self, key: JobKey) -> Path:
        bracket, index, rung = key
        return self.folder / str(bracket) / str(index) / str(rung)

    def begin(self, key: JobKey) -> tuple[Path, Path | None]:
        """An empty folder for an attempt at a job, and what an interrupted one had saved, if any.

        A checkpoint without a recorded result is what an interrupted attempt had saved, too.
        """
        self._refuse_links(self.attempts / "any", self.path(key))
        self.attempts.mkdir(parents=True, exist_ok=True)
        partial = self.attempts / _attempt_name(key, PARTIAL)
        for left in [self.path(key), *self._left(key)]:
            if not left.is_symlink() and left.is_dir() and any(left.iterdir()):
                _remove(partial)
                left.rename(partial)
            abandon(left)
        if partial.is_symlink():
            _remove(partial)
        path = self.attempts / _attempt_name(key, secrets.token_hex(4))
        path.mkdir()
        return path, partial if partial.is_dir() else None

    def accept(self, key: JobKey, attempt: str) -> None:
        """Make a sealed attempt, by its name, the checkpoint of its job, before the result is
        recorded. Nothing happens if that was done before."""
        source, path = self.attempts / attempt, self.path(key)
        if _attempt_key(attempt) != key or not _manifest(source).is_file():
            return
        self._refuse_links(source, path)
        if source.is_dir():  # else it was renamed before a crash
            abandon(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            source.rename(path)
        _manifest(source).rename(_manifest(path))

    def discard(self, key: JobKey) -> None:
        """Remove all that is kept of a config on a rung."""
        path = self.path(key)
        self._refuse_links(path)
        abandon(path)
        for folder in path.parents[:2]:
            with suppress(OSError):  # it holds something else
                folder.rmdir()

    def sweep(self, is_wanted: Callable[[JobKey], bool]) -> None:
        """Remove what attempts left at jobs whose results nobody waits for any more."""
        self._refuse_links(self.attempts / "any")
        for name in self._names():
            key = _attempt_key(name)
            if key is not None and not is_wanted(key):
                _remove(self.attempts / name)

    def is_whole(self, key: JobKey) -> bool:
        """Whether a checkpoint is there, and is what it was when its job finished."""
        path = self.path(key)
        try:
            self._refuse_links(path / "any")
            manifest = _manifest(path)
            if manifest.is_symlink() or not manifest.is_file():  # a FIFO would never end
                return False
            return bool(json.loads(manifest.read_text()) == _digests(path))
        except (OSError, ValueError, RecursionError, StorageError):
            return False

    def nearest(self, key: JobKey, rungs: Collection[int]) -> int | None:
        """The highest of these rungs below the job's own that has a whole checkpoint."""
        bracket, index, rung = key
        lower = sorted((each for each in rungs if each < rung), reverse=True)
        return next((each for each in lower if self.is_whole((bracket, index, each))), None)

    def kept(self) -> Iterator[JobKey]:
        """Every sealed checkpoint."""
        for manifest in self.folder.glob("*/*/*.json"):
            names = (*manifest.parts[-3:-1], manifest.stem)
            if all(map(_is_number, names)) and manifest.with_suffix("").is_dir():
                bracket, index, rung = map(int, names)
                yield bracket, index, rung

    def size(self, keys: Iterable[JobKey]) -> int:
        """How many bytes these checkpoints take."""
        files = (file for key in keys for file in self.path(key).rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files)

    def _left(self, key: JobKey) -> list[Path]:
        """The folders that attempts at a job have left, the oldest first."""
        partial = _attempt_name(key, PARTIAL)
        names = [name for name in self._names() if _attempt_key(name) == key and name != partial]
        folders = [self.attempts / name for name in names if not name.endswith(ENDINGS)]
        return sorted(folders, key=lambda folder: folder.lstat().st_mtime_ns)

    def _refuse_links(self, *places: Path) -> None:
        """Raise for a link among the folders above these places: the study may come from somebody
        else, and what is removed or written behind a link is not ours."""
        files = self.folder.parents[1]
        for place in places:
            for folder in place.parents[: len(place.relative_to(files).parts) - 1]:
                if folder.is_symlink():
                    raise StorageError(
                        folder,
                        "is a symbolic link within the study's folder. Checkpoints are not kept "
                        "behind links: remove it, and move the whole folder instead.",
                    )

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.attempts)
        except FileNotFoundError:
            return []


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
        top, (order, slots) = state.schedule.top, state.frugal_contest()
        lacking = sum((*place, top) not in kept for place in order[:slots])
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
            min(count, deeper.slots(bracket, rung + 1)) * deeper.budget(rung)
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
    front, run = state.progress[bracket], state.run
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


def _remove(place: Path) -> None:
    """Remove a folder with all that it holds, or what stands in its place, following no link."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def _manifest(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.json")


def _attempt_name(key: JobKey, token: str) -> str:
    bracket, index, rung = key
    return f"{bracket}-{index}-{rung}.{token}"


def _attempt_key(name: str) -> JobKey | None:
    """The job of an attempt, by the name of its folder or manifest; None for other names."""
    match = _ATTEMPT.fullmatch(name)
    if match is None:
        return None
    bracket, index, rung = map(int, match.groups())
    return bracket, index, rung


_ATTEMPT = re.compile(r"(\d{1,9})-(\d{1,9})-(\d{1,9})\.[a-z0-9]+(?:\.json|\.new)?", re.ASCII)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()
