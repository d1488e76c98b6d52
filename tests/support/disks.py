"""A small disk that can be filled completely: a tmpfs in its own mount namespace.

Mounting it needs root or unprivileged user namespaces. A waiting process keeps the namespace alive;
others enter it to see the disk. From outside, its files are under /proc/PID/root.
"""

from __future__ import annotations

import atexit
import errno
import itertools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

NAMESPACES = (("--user", "--map-root-user", "--mount"), ("--mount",))
"""Options of `unshare`: for an ordinary user, or for root where that is not allowed."""
KEEP = "mount -t tmpfs tmpfs /mnt && umount /mnt && echo ready && read -r _"
"""Says so when disks can be mounted, and waits."""


@dataclass(frozen=True)
class Disk:
    """A disk that is mounted in a namespace."""

    mount: Path
    root: Path
    """The root of the namespace, as seen from outside."""
    enter: tuple[str, ...]
    """The command that runs another command inside."""

    @property
    def filler(self) -> Path:
        return self.outside(self.mount) / "filler"

    def outside(self, path: Path) -> Path:
        """The path from outside of a path inside."""
        return self.root / path.relative_to("/")

    def fill(self) -> None:
        """Use up all space."""
        with suppress_full(), open(self.filler, "ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def fill_inodes(self) -> None:
        """Use up all inodes, so that no file can be created."""
        with suppress_full():
            self.filler.mkdir(exist_ok=True)
            for number in itertools.count():
                (self.filler / str(number)).touch()

    def free(self) -> None:
        if self.filler.is_dir():
            shutil.rmtree(self.filler)
        self.filler.unlink(missing_ok=True)


@contextmanager
def suppress_full() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


class Namespace(NamedTuple):
    """A mount namespace, which all disks share: so do the processes that are forked there."""

    root: Path
    """Its root, as seen from outside."""
    enter: tuple[str, ...]
    """The command that runs another command inside."""


@cache
def namespace() -> Namespace | None:
    """A mount namespace for this test process; None if that is not allowed."""
    for flags in NAMESPACES:
        keeper = subprocess.Popen(
            ["unshare", *flags, "sh", "-c", KEEP], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert keeper.stdout is not None
        if keeper.stdout.readline() == b"ready\n":
            atexit.register(keeper.communicate)  # closing its input ends it, and the disks with it
            return Namespace(
                Path(f"/proc/{keeper.pid}/root"), _enter(keeper.pid, "--user" in flags)
            )
        keeper.communicate()
    return None


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Disk]:
    """A disk with these options of tmpfs, such as "size=1m", mounted over a folder."""
    folder.mkdir(exist_ok=True)
    if not (found := namespace()):
        pytest.skip("no disk can be mounted: this needs root or unprivileged user namespaces")
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run([*found.enter, *mount], check=True)
    try:
        yield Disk(folder, found.root, found.enter)
    finally:
        subprocess.run([*found.enter, "umount", "--lazy", str(folder)], check=True)


def _enter(pid: int, as_user: bool) -> tuple[str, ...]:
    user = ("--user", "--preserve-credentials") if as_user else ()
    return ("nsenter", "--target", str(pid), *user, "--mount")
