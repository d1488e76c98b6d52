"""Models that the next rung continues to train, in the study's folder.

    FOLDER/PLACE.FOLD.CALLS        the model of a config on a training fold after CALLS calls
    FOLDER/PLACE.FOLD.CALLS.json   its manifest: size and digest

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
    """The models of one config on one training fold, by number of calls."""

    def __init__(self, folder: Path, place: str, fold: str) -> None:
        self.folder, self.stem = folder, f"{place}.{fold}"

    def newest(self, calls: int) -> tuple[Any, int] | None:
        """The intact model with the most calls up to `calls`, and its number of calls."""
        for done in sorted(self._kept(), reverse=True):
            if done <= calls and (content := self._intact(done)) is not None:
                return joblib.load(io.BytesIO(content)), done
        return None

    def keep(self, model: Any, calls: int) -> None:
        """Save a model and remove the others."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = self._kept()
        stream = io.BytesIO()
        joblib.dump(model, stream)
        content = stream.getvalue()
        self._write(self._path(calls), content)
        self._write(self._manifest(calls), json.dumps(_seal(content)).encode())
        for older in before - {calls}:
            self._manifest(older).unlink(missing_ok=True)
            self._path(older).unlink(missing_ok=True)

    def _intact(self, calls: int) -> bytes | None:
        """The content of a model; None if it does not match its manifest."""
        try:
            content = _read(self._path(calls))
            sealed = json.loads(_read(self._manifest(calls)))
        except (OSError, ValueError):
            return None
        return content if sealed == _seal(content) else None

    def _kept(self) -> set[int]:
        paths = self.folder.glob(f"{self.stem}.*")
        suffixes = (path.name.removeprefix(f"{self.stem}.") for path in paths)
        return {int(suffix) for suffix in suffixes if suffix.isdecimal()}

    def _path(self, calls: int) -> Path:
        return self.folder / f"{self.stem}.{calls}"

    def _manifest(self, calls: int) -> Path:
        return self.folder / f"{self.stem}.{calls}.json"

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file completely or not at all."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(content)
        partial.replace(path)


def _seal(content: bytes) -> list[int | str]:
    return [len(content), hashlib.blake2b(content).hexdigest()]


def _read(path: Path) -> bytes:
    """The content of a file; a symbolic link is an error."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        return stream.read()
