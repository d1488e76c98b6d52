"""The index of the objects that `Context.save` has saved: which file holds which object.

It is the file `saved.json` of a checkpoint, replaced in one step, and names only files that are
complete. Sizes and digests in it detect files that were damaged, or did not reach the disk before a
power failure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import NamedTuple

from deepband.errors import StorageError
from deepband.storage.checkpoints import INDEX
from deepband.storage.object_formats import READERS

Curve = list[tuple[float, float]]


class SavedObject(NamedTuple):
    """One object in the index."""

    file: str
    is_state: bool
    """Whether it is a state dict, to be loaded into an object."""
    size: int
    digest: str


class SavedIndex(NamedTuple):
    """The index of a folder."""

    folder: Path
    objects: dict[str, SavedObject]
    step: float | None
    """The number that was saved as `step`, if there was one."""
    curve: Curve
    """The learning curve up to that moment."""

    def check(self, names: Iterable[str]) -> None:
        """Raise a StorageError unless the files of these objects are as they were saved."""
        for name in names:
            saved = self.objects[name]
            found = fingerprint(self.folder / saved.file)
            if found is None or found != (saved.size, saved.digest):
                raise damaged(self.folder / saved.file)

    @property
    def is_intact(self) -> bool:
        """Whether all files are as they were saved."""
        with suppress(StorageError):
            self.check(self.objects)
            return True
        return False


def read_index(folder: Path) -> SavedIndex | None:
    """The index of a folder; None if nothing was saved there."""
    place = folder / INDEX
    try:
        if place.is_symlink() or not place.is_file():  # reading a FIFO would block
            return None
        row = json.loads(place.read_text())
        objects = {name: SavedObject(*each) for name, each in row["objects"].items()}
        if not all(_is_valid(name, each) for name, each in objects.items()):
            raise damaged(place)
        step = None if row["step"] is None else float(row["step"])
        curve = [(float(at), float(loss)) for at, loss in row["curve"]]
        return SavedIndex(folder, objects, step, curve)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(place) from error


def write_index(
    folder: Path, written: Mapping[str, SavedObject], step: object, curve: Curve
) -> None:
    """Replace the index of a folder in one step."""
    number = None
    with suppress(OverflowError):  # nothing counts that far
        number = float(step) if isinstance(step, Real) and not isinstance(step, bool) else None
    row = {"objects": written, "step": number, "curve": curve}
    temporary = folder / f"{INDEX}.new"
    temporary.write_text(json.dumps(row))
    temporary.replace(folder / INDEX)


def fingerprint(file: Path) -> tuple[int, str] | None:
    """The size and digest of a regular file; None for a link, or anything else, or nothing."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "blake2b").hexdigest()
        return file.stat().st_size, digest
    except OSError as error:
        raise StorageError(file, f"cannot be read: {error}.") from error


def damaged(place: Path) -> StorageError:
    """The error for a file that is not as it was saved."""
    return StorageError(place, "is damaged: it is not as context.save wrote it.")


def _is_valid(name: str, saved: SavedObject) -> bool:
    """Whether an object in the index has a file that `save` would write."""
    stem, dot, suffix = str(saved.file).rpartition(".")
    return name.isidentifier() and stem in (name, f"{name}-2") and dot + suffix in READERS
