"""A small disk that can be filled completely: a tmpfs in its own mount namespace.

Mounting it needs root or unprivileged user namespaces. A waiting process keeps the namespace alive;
others enter it to see the disk. From outside, its files are under /proc/PID/root.
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

import preloaded

NAMESPACES = (("--user", "--map-root-user", "--mount"), ("--mount",))
"""Options of `unshare`: for an ordinary user, or for root where that is not allowed."""
MOUNT = 'mount -t tmpfs -o "$1" tmpfs "$2" && echo ready && read -r _'


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
                enter = _enter(keeper.pid, "--user" in flags)
                try:
                    yield Disk(folder, root, enter)
                finally:
                    preloaded.end_server(enter)
                return  # closing its input ends the keeper, and the disk with it
    pytest.skip("no disk can be mounted: this needs root or unprivileged user namespaces")


def _enter(pid: int, as_user: bool) -> tuple[str, ...]:
    user = ("--user", "--preserve-credentials") if as_user else ()
    return ("nsenter", "--target", str(pid), *user, "--mount")
