"""Unexpected things in a study's folder, with the names that deepband uses."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

SECRET = "a secret of somebody else"
HUGE = 3 * 2**30
"""The size of a sparse file: too large to read, but cheap to create."""
Maker = Callable[[Path, Path], None]
"""Creates something at a path; the second path is a folder outside of the study."""


def make_outside(outside: Path) -> Path:
    """A folder outside of the study, with some file names that deepband also uses."""
    outside.mkdir()
    (outside / "secret").write_text(SECRET)
    for name in ("lock", "driver.json", "new", "0-0-0", "0-2-0.abcd", ".0-2-0.abcd", ".driver-a"):
        (outside / name).write_text(SECRET)
    (outside / "empty").touch()
    (outside / "1-1-1").touch()
    for name in ("jobs", "outbox", "output", "attempts", "0-2-0.partial"):
        (outside / name).mkdir()
        (outside / name / "0-2-0.abcd").write_text(SECRET)
        (outside / name / "0-0-0").write_text(SECRET)
    return outside


def snapshot(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder, with what reveals a change."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = status.st_ino, status.st_mode, status.st_mtime_ns, content
    return found


def link_to_file(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "secret")


def link_to_empty_file(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "empty")


def link_to_folder(place: Path, outside: Path) -> None:
    place.symlink_to(outside)


def dangling_link(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "missing")


def link_to_itself(place: Path, outside: Path) -> None:
    place.symlink_to(place)


def fifo(place: Path, outside: Path) -> None:
    os.mkfifo(place)


def unix_socket(place: Path, outside: Path) -> None:
    with chdir(place.parent), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place.name)  # a whole path may be too long for a socket


def folder(place: Path, outside: Path) -> None:
    place.mkdir()


def full_folder(place: Path, outside: Path) -> None:
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "file").touch()


def empty_file(place: Path, outside: Path) -> None:
    place.touch()


def garbage(place: Path, outside: Path) -> None:
    place.write_bytes(bytes(range(256)) * 20)


def huge_file(place: Path, outside: Path) -> None:
    place.touch()
    os.truncate(place, HUGE)


def deep_json(place: Path, outside: Path) -> None:
    place.write_text("[" * 100_000)


def holding(value: object) -> Maker:
    """A file with a value as JSON."""

    def make(place: Path, outside: Path) -> None:
        place.write_text(json.dumps(value))

    return make


LINKS: Mapping[str, Maker] = {
    each.__name__: each
    for each in (link_to_file, link_to_empty_file, link_to_folder, dangling_link, link_to_itself)
}
SPECIAL: Mapping[str, Maker] = {each.__name__: each for each in (fifo, unix_socket)}
FOLDERS: Mapping[str, Maker] = {each.__name__: each for each in (folder, full_folder)}
FILES: Mapping[str, Maker] = {
    each.__name__: each for each in (empty_file, garbage, huge_file, deep_json)
}
