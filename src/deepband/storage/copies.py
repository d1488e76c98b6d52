"""Copies of a study in a new file, with its checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from deepband.core.facts import Fact
from deepband.errors import StorageError
from deepband.storage.sqlite import SqliteStorage


def write_copy(storage: SqliteStorage, facts: Iterable[Fact], checkpoints: Path | None) -> None:
    """Write facts to a new study file, which stays locked. The checkpoints are copied first, so
    that the file never exists without them."""
    storage.lock()
    try:
        if checkpoints is not None and _is_ours(checkpoints):
            target = storage.files / "checkpoints" / checkpoints.name
            shutil.copytree(checkpoints, target, symlinks=True, dirs_exist_ok=True)
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
