"""Models that the next rung continues to train, in the study's folder.

    FOLDER/PLACE.FOLD.SIZE        the model of a config on a training fold, trained up to SIZE
    FOLDER/PLACE.FOLD.SIZE.json   its manifest: bytes, digest, and the size it continued from

A model is a pickle, and is loaded only if it matches its manifest; otherwise it is trained again.
Manifests detect damaged and partial files, not those of an attacker.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import joblib


class Models:
    """The models of one config on one training fold, by size: calls, iterations or trees."""

    def __init__(self, folder: Path, place: str, fold: str) -> None:
        self.folder, self.stem = folder, f"{place}.{fold}"

    def newest(self, size: int) -> tuple[Any, int] | None:
        """The largest intact model up to a size, and its size."""
        for done in sorted(self._kept(), reverse=True):
            if done <= size and (content := self._intact(done)) is not None:
                return joblib.load(io.BytesIO(content)), done
        return None

    def keep(self, model: Any, size: int, before: int) -> None:
        """Save a model that was continued from the size `before`, and remove the others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        others = self._kept() - {size}
        stream = io.BytesIO()
        joblib.dump(model, stream)
        content = stream.getvalue()
        self._write(self._path(size), content)
        self._write(self._manifest(size), json.dumps([*_seal(content), before]).encode())
        for other in others:
            self._manifest(other).unlink(missing_ok=True)
            self._path(other).unlink(missing_ok=True)

    def _intact(self, size: int) -> bytes | None:
        """The content of a model; None if it does not match its manifest."""
        try:
            content = _read(self._path(size))
            sealed = json.loads(_read(self._manifest(size)))
        except (OSError, ValueError):
            return None
        return content if sealed[:2] == _seal(content) else None

    def _kept(self) -> set[int]:
        paths = self.folder.glob(f"{self.stem}.*")
        suffixes = (path.name.removeprefix(f"{self.stem}.") for path in paths)
        return {int(suffix) for suffix in suffixes if suffix.isdecimal()}

    def _path(self, size: int) -> Path:
        return self.folder / f"{self.stem}.{size}"

    def _manifest(self, size: int) -> Path:
        return self.folder / f"{self.stem}.{size}.json"

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file completely or not at all."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)


def continued_from(folder: Path, place: str, size: int) -> int:
    """The size from which the models of a config were trained on all folds; 0 is the start."""
    paths = list(folder.glob(f"{place}.*.{size}.json"))
    return min((_size_before(path) for path in paths), default=0)


def _size_before(manifest: Path) -> int:
    try:
        return int(json.loads(_read(manifest))[2])
    except (OSError, ValueError, TypeError, LookupError):
        return 0


def _seal(content: bytes) -> list[int | str]:
    return [len(content), hashlib.blake2b(content).hexdigest()]


def _read(path: Path) -> bytes:
    """The content of a file; a symbolic link is an error."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        return stream.read()
