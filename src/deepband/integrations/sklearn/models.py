"""Models that the rung above continues, in the study's folder.

    FOLDER/PLACE.FOLD.CALLS        the model of a config on a training fold after so many calls
    FOLDER/PLACE.FOLD.CALLS.json   its manifest: size and digest

A model is a pickle, so only one that is what its manifest says is loaded; any other is trained
again. Manifests tell damaged files and those of an interrupted attempt, not those of an attacker.
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
    """The models of one config on one training fold, by how many calls trained them."""

    def __init__(self, folder: Path, place: str, fold: str) -> None:
        self.folder, self.stem = folder, f"{place}.{fold}"

    def newest(self, calls: int) -> tuple[Any, int] | None:
        """The whole model that was trained longest, but not longer than `calls`, and how long."""
        for made in sorted(self._kept(), reverse=True):
            if made <= calls and (content := self._whole(made)) is not None:
                return joblib.load(io.BytesIO(content)), made
        return None

    def keep(self, model: Any, calls: int) -> None:
        """Keep a model in place of all others."""
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

    def _whole(self, calls: int) -> bytes | None:
        """The content of a model, if it is what it was when it was kept."""
        try:
            content = _read(self._path(calls))
            sealed = json.loads(_read(self._manifest(calls)))
        except (OSError, ValueError):
            return None
        return content if sealed == _seal(content) else None

    def _kept(self) -> set[int]:
        ends = (path.name.removeprefix(f"{self.stem}.") for path in self._files())
        return {int(end) for end in ends if end.isdecimal()}

    def _files(self) -> list[Path]:
        return list(self.folder.glob(f"{self.stem}.*"))

    def _path(self, calls: int) -> Path:
        return self.folder / f"{self.stem}.{calls}"

    def _manifest(self, calls: int) -> Path:
        return self.folder / f"{self.stem}.{calls}.json"

    def _write(self, path: Path, content: bytes) -> None:
        """Put a file there whole or not at all."""
        made = path.with_name(f".{path.name}.{os.getpid()}")
        made.write_bytes(content)
        made.replace(path)


def _seal(content: bytes) -> list[int | str]:
    return [len(content), hashlib.blake2b(content).hexdigest()]


def _read(path: Path) -> bytes:
    """The content of a file; a link to somewhere else is an error."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as stream:
        return stream.read()
