"""Writing a file completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from deepband.errors import InputError


def write_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or raise an InputError and leave the old content as it was.

    A link keeps pointing to its target, which is replaced. A device or FIFO is written to.
    """
    try:
        _write(Path(path), content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}.") from error


def _write(path: Path, content: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()
    partial = target.with_name(f".deepband-{os.getpid()}")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
