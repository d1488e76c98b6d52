"""A small disk that can be filled to the last byte: a tmpfs in a mount namespace of its own.

Root may mount one, and any other user where the system allows unprivileged user namespaces. A
process that only waits keeps the namespace; others enter it to see the disk, and from outside its
files are reached by /proc/PID/root.
"""

from __future__ import annotations

import errno
import itertools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMESPACES = (("--user", "--map-root-user", "--mount"), ("--mount",))
"""What `unshare` is asked for: as an ordinary user, or as root where that is not allowed."""
MOUNT = 'mount -t tmpfs -o "$1" tmpfs "$2" && echo ready && read -r _'


@dataclass(frozen=True)
class Disk:
    """A disk that is mounted in a namespace."""

    mount: Path
    root: Path
    """Where the namespace is seen from outside."""
    enter: tuple[str, ...]
    """The command that runs another one inside."""

    @property
    def filler(self) -> Path:
        return self.outside(self.mount) / "filler"

    def outside(self, path: Path) -> Path:
        """How a path inside is reached from outside."""
        return self.root / path.relative_to("/")

    def fill(self) -> None:
        """Take all space that is left."""
        with suppress_full(), open(self.filler, "ab", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def fill_inodes(self) -> None:
        """Take all inodes that are left, so that no file can be made."""
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


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Disk]:
    """A disk with these options of tmpfs, such as "size=1m", mounted over a folder."""
    folder.mkdir(exist_ok=True)
    for flags in NAMESPACES:
        keeper = subprocess.Popen(
            ["unshare", *flags, "sh", "-c", MOUNT, "sh", options, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with keeper:
            assert keeper.stdout is not None
            if keeper.stdout.readline() == "ready\n":
                root = Path(f"/proc/{keeper.pid}/root")
                yield Disk(folder, root, _enter(keeper.pid, "--user" in flags))
                return  # closing its input ends the keeper, and the disk with it
    pytest.skip("no disk can be mounted: this needs root or unprivileged user namespaces")


def _enter(pid: int, as_user: bool) -> tuple[str, ...]:
    user = ("--user", "--preserve-credentials") if as_user else ()
    return ("nsenter", "--target", str(pid), *user, "--mount")
