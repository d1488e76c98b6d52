"""Saving a study whose file was lost while a command ran it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from deepband.errors import DeepbandError, GoneError, StorageError
from deepband.interfaces.cli.output import command
from deepband.interfaces.cli.user_code import recalled, remembered
from deepband.study.settings import open_study
from deepband.study.study import Study


def rescued(study: Study, error: GoneError) -> StorageError:
    """Save the study elsewhere and return an error that says where: in the folder of the lost file,
    in the current folder, or in the one for temporary files."""
    lost = Path(str(error.path))
    for path in _free_paths(lost):
        with suppress(DeepbandError):
            study.save_as(path)
            study.close()
            _name_objective(lost, path)
            return StorageError(
                lost,
                f"{error.reason} during the run. The study with all its results is saved in "
                f"{path}: continue with `{command('run', path)}`.",
            )
    return error


def _name_objective(lost: Path, path: Path) -> None:
    """Store where the objective is, as seen from the new file."""
    with suppress(DeepbandError), open_study(path) as study:  # it may be gone, too
        if named := study.session.state.objective:
            study.session.name_objective(remembered(recalled(named, lost), path))


def _free_paths(lost: Path) -> Iterator[Path]:
    """A path in each folder that does not exist yet."""
    for folder in (lost.parent, Path.cwd(), Path(tempfile.gettempdir())):
        if folder.is_dir():
            names = (f"{lost.stem}.rescued{number or ''}{lost.suffix}" for number in count())
            yield next(folder / name for name in names if not (folder / name).exists())
