"""Regular files inside a study's folder, opened without trusting what is there.

A study may come from an untrusted source, as an archive or on a shared disk. Its folder may then
contain symbolic links, FIFOs or devices with the names that deepband uses, and opening those could
read, overwrite or delete files elsewhere, or block forever. These functions walk from a root folder
one name at a time, refuse every link on the way, and accept regular files only. Each step is
relative to the descriptor of the previous one, so swapping a name in between has no effect.

The only link that is followed is the study's folder itself, because a user may have moved it to
another disk (see `files_folder`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


def _flags(*names: str) -> int:
    """Flags of `os.open`. They are missing on Windows, where nothing here is used."""
    return sum(getattr(os, name, 0) for name in names)


_FOLDER = os.O_RDONLY | _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
_FILE = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
"""O_NONBLOCK opens a FIFO without waiting for its other end."""


def files_folder(study: Path) -> Path:
    """The folder of a study file. A link to a folder of the same name is resolved, so that the
    folder can be on another disk; the functions below refuse any other link."""
    folder = study.with_name(study.name + ".files")
    if not folder.is_symlink():
        return folder
    target = Path(os.path.realpath(folder))
    return target if target.name == folder.name else folder


@contextmanager
def opened_folder(root: Path, *names: str, make: bool = False) -> Iterator[int]:
    """A descriptor of the folder root/names. With `make`, missing folders are created.

    Raises an OSError if anything on the way is a link or not a folder.
    """
    path = str(root)
    descriptor = _enter(path, path, None, make)
    try:
        for name in names:
            path = f"{path}/{name}"
            inner = _enter(path, name, descriptor, make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(root: Path, *names: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file root/names. Raises an OSError for anything else."""
    *folders, name = names
    with opened_folder(root, *folders) as folder:
        descriptor = os.open(name, flags | _FILE, dir_fd=folder)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(root.joinpath(*names)))


def read_file(root: Path, *names: str, most: int) -> bytes:
    """The content of a regular file. Raises an OSError if it has more than `most` bytes."""
    with open(open_file(root, *names), "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(root.joinpath(*names)))
    return content


def create_file(root: Path, *names: str) -> int:
    """A descriptor of a new, empty file, open for reading and writing. Anything with the same name
    is unlinked first, never written to: it may be a link to another file."""
    *folders, name = names
    with opened_folder(root, *folders, make=True) as folder:
        return create_inside(folder, name)


def create_inside(folder: int, name: str) -> int:
    """The same in a folder that is open, given by its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
    try:
        return os.open(name, flags, 0o644, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
    return os.open(name, flags, 0o644, dir_fd=folder)


def link_file(root: Path, folder: str, name: str, others: Sequence[str]) -> None:
    """Give a file in a folder these names, too. Anything with such a name is unlinked first."""
    with opened_folder(root, folder) as inside:
        for other in others:
            with suppress(FileNotFoundError):
                os.unlink(other, dir_fd=inside)
        for other in others:
            os.link(name, other, src_dir_fd=inside, dst_dir_fd=inside, follow_symlinks=False)


def file_names(root: Path, *names: str) -> list[str]:
    """The sorted names of the regular files in a folder; none if the folder is missing."""
    return _names(os.DirEntry.is_file, root, *names)


def folder_names(root: Path, *names: str) -> list[str]:
    """The sorted names of the folders in a folder; none if the folder is missing."""
    return _names(os.DirEntry.is_dir, root, *names)


def _names(is_wanted: Callable[..., bool], root: Path, *names: str) -> list[str]:
    try:
        with opened_folder(root, *names) as folder, os.scandir(folder) as entries:
            return sorted(each.name for each in entries if is_wanted(each, follow_symlinks=False))
    except FileNotFoundError:
        return []


def remove_empty_folder(root: Path, *names: str) -> None:
    """Remove a folder if it exists and is empty. A file or link with that name is left alone."""
    *folders, name = names
    with suppress(OSError), opened_folder(root, *folders) as folder:
        os.rmdir(name, dir_fd=folder)


def remove_file(root: Path, *names: str) -> None:
    """Remove a regular file, if it exists. A folder or link with that name is left alone."""
    *folders, name = names
    with suppress(FileNotFoundError), opened_folder(root, *folders) as folder:
        remove_inside(folder, name)


def rename_inside(folder: int, source: str, target: str) -> None:
    """Rename a file within a folder that is open."""
    os.rename(source, target, src_dir_fd=folder, dst_dir_fd=folder)


def remove_inside(folder: int, name: str) -> None:
    """Remove a regular file, if it exists, from a folder that is open."""
    with suppress(FileNotFoundError):
        if stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)


def _enter(path: str, name: str, above: int | None, make: bool) -> int:
    """A descriptor of a folder, opened by its name in the folder above it. Errors have its path."""
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            problem = "it is a symbolic link or not a folder"
            raise OSError(error.errno, problem, path) from error
        raise
    with suppress(FileExistsError):  # another process has just created it
        os.mkdir(name, dir_fd=above)
    return _enter(path, name, above, make=False)
