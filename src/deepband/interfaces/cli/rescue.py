"""What a command does with a study whose file was lost while it ran."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from deepband.errors import DeepbandError, GoneError, StorageError
from deepband.study.study import Study


def rescued(study: Study, error: GoneError) -> StorageError:
    """Save a study in the folder of its file, the current one or that of temporary files, and
    return the error that says where."""
    lost = Path(str(error.path))
    for place in _places(lost):
        with suppress(DeepbandError):
            study.save_as(place)
            study.close()
            return StorageError(
                lost,
                f"{error.reason} during the run. The study with all its results is saved in "
                f"{place}: continue with `deepband run {place}`.",
            )
    return error


def _places(lost: Path) -> Iterator[Path]:
    """Files that do not exist yet, one in each folder that might be written to."""
    for folder in (lost.parent, Path.cwd(), Path(tempfile.gettempdir())):
        if folder.is_dir():
            names = (f"{lost.stem}.rescued{number or ''}{lost.suffix}" for number in count())
            yield next(folder / name for name in names if not (folder / name).exists())
