"""POSIX file locks. deepband can be imported on every system; features that need POSIX raise an
error when they are used elsewhere."""

from __future__ import annotations

from deepband.errors import DeepbandError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # `require_posix` runs before every use

__all__ = ["NEEDED", "fcntl", "require_posix"]

NEEDED = (
    "study files, worker processes and executors need Linux or macOS, because they rely on POSIX "
    "file locks: on this system, keep the study in memory and run it without workers."
)


def require_posix() -> None:
    """Raise a DeepbandError on systems without POSIX file locks."""
    if fcntl is None:
        raise DeepbandError(NEEDED)
