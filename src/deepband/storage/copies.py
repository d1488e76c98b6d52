"""Copies of a study in a new file, with its checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from deepband.core.facts import Fact
from deepband.errors import StorageError
from deepband.storage.checkpoints import Checkpoints, Inherited
from deepband.storage.sqlite import SqliteStorage


def write_copy(
    storage: SqliteStorage,
    study: str,
    facts: Iterable[Fact],
    checkpoints: Checkpoints | Inherited | None,
) -> None:
    """Write the facts of the study with this id to a new file, which stays locked. The checkpoints
    are copied first, so that the file never exists without them."""
    storage.lock()
    try:
        target = Checkpoints(storage.files / "checkpoints" / study)
        if isinstance(checkpoints, Checkpoints) and _is_ours(checkpoints.folder):
            shutil.copytree(checkpoints.folder, target.folder, symlinks=True, dirs_exist_ok=True)
        others = checkpoints.inherited if isinstance(checkpoints, Checkpoints) else checkpoints
        if others is not None:
            target.add(others)
        storage.append(list(facts))
    except (OSError, shutil.Error) as error:
        storage.close()
        raise StorageError(storage.path, f"the checkpoints cannot be copied: {error}.") from error
    except BaseException:
        storage.close()
        raise


def _is_ours(checkpoints: Path) -> bool:
    """Whether this is a folder of the study itself; nothing is copied through a link."""
    linked = checkpoints.is_symlink() or checkpoints.parent.is_symlink()
    return checkpoints.is_dir() and not linked
