"""What only POSIX systems have. deepband can be imported everywhere; what needs more than Python
itself says so when it is used."""

from __future__ import annotations

from deepband.errors import DeepbandError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # nothing that uses it gets past `require_posix`

__all__ = ["NEEDED", "fcntl", "require_posix"]

NEEDED = (
    "study files, worker processes and executors need Linux or macOS, because they rely on POSIX "
    "file locks: on this system, keep the study in memory and run it without workers."
)


def require_posix() -> None:
    """Raise where study files and workers cannot be had."""
    if fcntl is None:
        raise DeepbandError(NEEDED)
