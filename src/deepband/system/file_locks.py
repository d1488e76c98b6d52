"""Whether locks of files keep other processes out, which not every file system does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from deepband.system import plain_files
from deepband.system.posix import fcntl

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "fuse.sshfs", "afs", "ceph"}
"""File systems that several machines may share."""
LOCAL_LOCKS = {
    "nfs": {"nolock", "local_lock=all", "local_lock=flock"},
    "nfs4": {"nolock", "local_lock=all", "local_lock=flock"},
    "cifs": {"nobrl"},
    "smb3": {"nobrl"},
}
"""The options with which a file system keeps locks on one machine, so that processes on another one
do not see them."""
MOUNTS = Path("/proc/mounts")
_TRIAL = """
import fcntl, sys
for take, name in zip((fcntl.flock, fcntl.lockf), sys.argv[1:]):
    try:
        take(open(name, "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        continue
    sys.exit(1)
"""
"""Exits with 1 if it can lock a file that another process has locked."""


def excludes_others(folder: Path, name: str) -> bool:
    """Whether the lock of a file, which this process has locked, keeps other processes from locking
    it, also those on other machines that share the file system."""
    if not is_shared_safely(*mount_of(folder)):
        return False
    descriptor = plain_files.open_file(folder, name, flags=os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # then the first lock could not have been taken either
        return False
    finally:
        os.close(descriptor)
    return False


def exclude_processes(folder: Path) -> bool:
    """Whether both kinds of locks that deepband and SQLite use can be taken in a folder, and keep
    another process out."""
    with suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as trial:
        names = [os.path.join(trial, name) for name in ("whole", "record")]
        with open(names[0], "wb") as whole, open(names[1], "wb") as record:
            fcntl.flock(whole, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = subprocess.run([sys.executable, "-c", _TRIAL, *names], check=False)
            return found.returncode == 0
    return False


def mount_of(folder: Path) -> tuple[str, frozenset[str]]:
    """The type of the file system that a folder is on, and the options it is mounted with."""
    lines: list[str] = []
    with suppress(OSError):
        lines = MOUNTS.read_text().splitlines()
    found = [tuple(line.split()[1:4]) for line in lines]
    above = [each for each in found if len(each) == 3 and folder.is_relative_to(_path(each[0]))]
    _, kind, options = max(above, key=lambda mount: len(mount[0]), default=("", "unknown", ""))
    return kind, frozenset(options.split(","))


def is_shared_safely(kind: str, options: frozenset[str]) -> bool:
    """Whether processes on all machines that share a file system see each other's locks, or it is
    not known to be otherwise."""
    if kind == "fuse.sshfs":
        return False
    if kind == "lustre":
        return "flock" in options
    return not LOCAL_LOCKS.get(kind, set()) & options


def _path(escaped: str) -> str:
    """A mount point as a path: spaces and some other characters are octal numbers."""
    return escaped.encode().decode("unicode_escape") if "\\" in escaped else escaped
