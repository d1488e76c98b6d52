"""Opening files inside a study's folder without trusting what is in it.

A study may come from somebody else, as an archive or on a shared disk. Its folder can then hold
symbolic links, FIFOs or devices under the names that deepband uses, and opening those would read,
overwrite or delete files elsewhere, or block forever. The functions here walk from a root folder
one name at a time, refuse every link on the way, and work on regular files only. Because each step
is relative to the descriptor of the last one, a name that is swapped meanwhile changes nothing.

Only `files_folder` accepts a link: that of the folder itself, which a user may have put on another
disk.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def _flags(*names: str) -> int:
    """Flags of `os.open`; Windows, where nothing here is used, does not have these."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER = os.O_RDONLY | _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
"""A FIFO is opened without waiting for its other end."""


def files_folder(study: Path) -> Path:
    """The folder of a study file. A link to a folder of the same name is resolved, so that it can
    be kept on another disk; the functions below refuse any other link."""
    folder = study.with_name(study.name + ".files")
    if not folder.is_symlink():
        return folder
    target = Path(os.path.realpath(folder))
    return target if target.name == folder.name else folder


@contextmanager
def opened_folder(root: Path, *names: str, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder root/names. With `make`, what is missing is created.

    Raises an OSError when anything on the way is a link or not a folder.
    """
    descriptor = _enter(root, None, make)
    try:
        for depth in range(1, len(names) + 1):
            inner = _enter(root.joinpath(*names[:depth]), descriptor, make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(root: Path, *names: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file root/names; anything else is an OSError."""
    *folders, name = names
    with opened_folder(root, *folders) as folder:
        descriptor = os.open(name, flags | _FILE, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(root.joinpath(*names)))


def read_file(root: Path, *names: str, most: int) -> bytes:
    """The content of a regular file; a file of more than `most` bytes is an OSError."""
    with open(open_file(root, *names), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(root.joinpath(*names)))
    return content


def create_file(root: Path, *names: str) -> int:
    """A descriptor of a new, empty file, open for reading and writing. Whatever had its name is
    unlinked and not written to: it may be a link to somebody's file."""
    *folders, name = names
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
    with opened_folder(root, *folders, make=True) as folder:
        try:
            return os.open(name, flags, 0o644, dir_fd=folder)
        except FileExistsError:
            os.unlink(name, dir_fd=folder)
        return os.open(name, flags, 0o644, dir_fd=folder)


def file_names(root: Path, *names: str) -> list[str]:
    """The names of the regular files in a folder, sorted; none when the folder is missing."""
    try:
        with opened_folder(root, *names) as folder, os.scandir(folder) as entries:
            return sorted(each.name for each in entries if each.is_file(follow_symlinks=False))
    except FileNotFoundError:
        return []


def remove_file(root: Path, *names: str) -> None:
    """Remove a regular file, if it is there. A folder or a link of that name is left alone."""
    *folders, name = names
    with suppress(FileNotFoundError), opened_folder(root, *folders) as folder:
        if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)


def _enter(path: Path, above: int | None, make: bool) -> int:
    """A descriptor of a folder, by its whole path or from the folder above it."""
    place = path if above is None else path.name
    try:
        return os.open(place, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            problem = "it is a symbolic link or not a folder"
            raise OSError(error.errno, problem, str(path)) from error
        raise
    with suppress(FileExistsError):  # another process was faster
        os.mkdir(place, dir_fd=above)
    return _enter(path, above, make=False)
