"""Checkpoints: the files that objectives save, by bracket, config and rung.

    FOLDER/BRACKET/INDEX/RUNG/                   what the objective saved on a rung
    FOLDER/BRACKET/INDEX/RUNG.json               its manifest: size and digest of every file
    FOLDER/attempts/BRACKET-INDEX-RUNG.TOKEN/    what a running attempt at a job is saving
    FOLDER/attempts/BRACKET-INDEX-RUNG.partial/  what an interrupted attempt had saved
    FOLDER/attempts/BRACKET-INDEX-RUNG.*.watch   what an attempt was watched for (see below)

Every attempt saves into its own folder and seals it with a manifest. The process that records the
result first renames the folder; only this process creates or removes anything else. An attempt
that was given up but still runs can therefore write into its own folder only.

If training may be stopped early, a watch file says how far it was compared with its limits, so that
the next attempt is not compared with them again (`execution/training_watch.py`).

A checkpoint is used only if its result is recorded and its manifest matches: training never
continues from a folder that is damaged or was left by an interrupted attempt.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deepband.core.facts import JobKey
from deepband.errors import StorageError

PARTIAL = "partial"
INDEX = "saved.json"
"""The file in the folder of an attempt that shows that `Context.save` is complete."""
WATCH = ".watch"
ENDINGS = (".json", ".new", WATCH)
"""Suffixes of the files beside the folders of attempts: manifests, files that are being written,
and watch files."""


def seal(attempt: Path) -> bool:
    """Write the manifest of what an attempt saved. False if it saved nothing, or replaced its
    folder by a link or a file; that is then removed."""
    watch_file(attempt).unlink(missing_ok=True)
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
    watch_file(attempt).unlink(missing_ok=True)
    _remove(attempt)


def watch_file(attempt: Path) -> Path:
    """The file that says what an attempt was watched for."""
    return attempt.with_name(f"{attempt.name}{WATCH}")


class Inherited(NamedTuple):
    """The checkpoints that the copy of a study reads, and never changes."""

    original: Checkpoints | Inherited
    keys: frozenset[JobKey]
    """The jobs that had a result when the copy was made. What the original evaluates later is not
    part of the copy."""

    @property
    def exist(self) -> bool:
        """Whether the original ever saved anything. Otherwise a copy inherits nothing."""
        return True

    def intact(self, key: JobKey) -> Path | None:
        """The folder of an intact checkpoint, if there is one."""
        return self.original.intact(key) if key in self.keys else None

    def available(self) -> set[JobKey]:
        """The jobs that have a sealed checkpoint."""
        return self.original.available() & self.keys


class Checkpoints:
    """The checkpoints of one study, in one folder. A copy has some in another folder, too."""

    def __init__(self, folder: Path, inherited: Inherited | None = None) -> None:
        self.folder = folder
        self.attempts = folder / "attempts"
        self.inherited = inherited

    def path(self, key: JobKey) -> Path:
        bracket, index, rung = key
        return self.folder / str(bracket) / str(index) / str(rung)

    def begin(self, key: JobKey, token: str | None = None) -> tuple[Path, Path | None]:
        """An empty folder for an attempt at a job, named after a token, by default a new one, and
        the folder that an interrupted attempt saved, if any. A checkpoint without a recorded result
        is also one of those. An attempt that was interrupted during its first `Context.save` does
        not replace one that had saved."""
        self._refuse_links(self.attempts / "any", self.path(key))
        self.attempts.mkdir(parents=True, exist_ok=True)
        partial = self.attempts / _attempt_name(key, PARTIAL)
        for left in [self.path(key), *self._left(key)]:
            is_newer = (left / INDEX).is_file() or not (partial / INDEX).is_file()
            if is_newer and not left.is_symlink() and left.is_dir() and any(left.iterdir()):
                _remove(partial)
                left.rename(partial)
            with suppress(FileNotFoundError):
                watch_file(left).replace(watch_file(partial))
            abandon(left)
        if partial.is_symlink():
            _remove(partial)
        path = self.attempts / _attempt_name(key, token or secrets.token_hex(4))
        path.mkdir()
        return path, partial if partial.is_dir() else None

    def left_watch(self, key: JobKey) -> Path:
        """The watch file that an interrupted attempt at a job has left, if there is one."""
        return watch_file(self.attempts / _attempt_name(key, PARTIAL))

    def accept(self, key: JobKey, attempt: str) -> None:
        """Make the sealed attempt of this name the checkpoint of its job, before the result is
        recorded. Accepting it again does nothing."""
        source, path = self.attempts / attempt, self.path(key)
        if _attempt_key(attempt) != key or not _manifest(source).is_file():
            return
        self._refuse_links(source, path)
        if source.is_dir():  # otherwise it was renamed before a crash
            abandon(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            source.rename(path)
        _manifest(source).rename(_manifest(path))

    def discard(self, key: JobKey) -> None:
        """Remove the checkpoint of a config on a rung."""
        path = self.path(key)
        self._refuse_links(path)
        abandon(path)
        for folder in path.parents[:2]:
            with suppress(OSError):  # the folder is not empty
                folder.rmdir()

    def sweep(self, is_wanted: Callable[[JobKey], bool]) -> None:
        """Remove the folders of attempts at jobs whose results are no longer wanted."""
        self._refuse_links(self.attempts / "any")
        for name in self._names():
            key = _attempt_key(name)
            if key is not None and not is_wanted(key):
                _remove(self.attempts / name)

    def is_intact(self, key: JobKey) -> bool:
        """Whether a checkpoint exists and its files have not changed since its job finished."""
        path = self.path(key)
        try:
            self._refuse_links(path / "any")
            manifest = _manifest(path)
            if manifest.is_symlink() or not manifest.is_file():  # reading a FIFO would block
                return False
            return bool(json.loads(manifest.read_text()) == _digests(path))
        except (OSError, ValueError, RecursionError, StorageError):
            return False

    def intact(self, key: JobKey) -> Path | None:
        """The folder of an intact checkpoint, if there is one."""
        if self.is_intact(key):
            return self.path(key)
        return self.inherited.intact(key) if self.inherited else None

    def nearest(self, key: JobKey, rungs: Collection[int]) -> tuple[int, Path] | None:
        """The highest of these rungs below the job's own that has an intact checkpoint, and the
        folder of that."""
        bracket, index, rung = key
        for lower in sorted((each for each in rungs if each < rung), reverse=True):
            folder = self.intact((bracket, index, lower))
            if folder is not None:
                return lower, folder
        return None

    def add(self, others: Inherited) -> None:
        """Copy the checkpoints of jobs that have none here."""
        for key in sorted(others.available()):
            folder, path = others.intact(key), self.path(key)
            if folder is not None and not self.is_intact(key):
                shutil.copytree(folder, path, symlinks=True, dirs_exist_ok=True)
                shutil.copyfile(_manifest(folder), _manifest(path))

    def kept(self) -> Iterator[JobKey]:
        """The jobs that have a sealed checkpoint."""
        for manifest in self.folder.glob("*/*/*.json"):
            key = _folder_key(manifest.with_suffix(""))
            if key is not None and self.path(key).is_dir():
                yield key

    def available(self) -> set[JobKey]:
        """The jobs that have a sealed checkpoint here, or in the original of a copy."""
        return {*self.kept(), *(self.inherited.available() if self.inherited else ())}

    @property
    def exist(self) -> bool:
        """Whether there are any, here or in the original of a copy."""
        return self.inherited is not None or any(self.folder.glob("[0-9]*"))

    def found(self) -> set[JobKey]:
        """The jobs that have a checkpoint, or the rest of one whose removal was interrupted."""
        keys = {_folder_key(entry.with_suffix("")) for entry in self.folder.glob("*/*/*")}
        return {key for key in keys if key is not None}

    def size(self, keys: Iterable[JobKey]) -> int:
        """The size of these checkpoints in bytes."""
        files = (file for key in keys for file in self.path(key).rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files)

    def _left(self, key: JobKey) -> list[Path]:
        """The folders that attempts at a job have left, oldest first."""
        partial, start = _attempt_name(key, PARTIAL), _attempt_name(key, "")
        names = [name for name in self._names() if name.startswith(start) and name != partial]
        names = [name for name in names if _attempt_key(name) == key]
        folders = [self.attempts / name for name in names if not name.endswith(ENDINGS)]
        return sorted(folders, key=lambda folder: folder.lstat().st_mtime_ns)

    def _refuse_links(self, *places: Path) -> None:
        """Raise for a link among the folders above these places: in a study from an untrusted
        source it could make deepband write or remove files elsewhere."""
        files = self.folder.parents[1]
        for place in places:
            for folder in place.parents[: len(place.relative_to(files).parts) - 1]:
                if folder.is_symlink():
                    raise StorageError(
                        folder,
                        "is a symbolic link inside the folder of a study, where links are not "
                        "followed: remove it, and move the whole folder instead.",
                    )

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.attempts)
        except FileNotFoundError:
            return []


def _digests(folder: Path) -> dict[str, list[int | str]]:
    """The size and digest of every file below a folder, by relative path."""
    digests: dict[str, list[int | str]] = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "blake2b").hexdigest()
            digests[str(file.relative_to(folder))] = [file.stat().st_size, digest]
    return digests


def _remove(place: Path) -> None:
    """Remove a folder with its content, or a file or link in its place, without following links."""
    with suppress(OSError):  # it has content, or is not a folder
        place.rmdir()
        return
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
    """The job of an attempt, from the name of its folder or manifest; None for other names."""
    match = _ATTEMPT.fullmatch(name)
    if match is None:
        return None
    bracket, index, rung = map(int, match.groups())
    return bracket, index, rung


_ATTEMPT = re.compile(
    r"(\d{1,9})-(\d{1,9})-(\d{1,9})\.[a-z0-9]+(?:\.json|\.new|\.watch)?", re.ASCII
)


def _folder_key(folder: Path) -> JobKey | None:
    """The job of a checkpoint, from the path of its folder; None for other paths."""
    names = folder.parts[-3:]
    if not all(map(_is_number, names)):
        return None
    bracket, index, rung = map(int, names)
    return bracket, index, rung


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal()
