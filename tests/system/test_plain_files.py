"""Files of a study's folder: what is opened, what is refused, and what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deepband.system import plain_files
from odd_files import Maker, dangling_link, fifo, folder, link_to_file, link_to_folder, unix_socket

SECRET = b"not yours"


ODD: list[Maker] = [link_to_file, link_to_folder, dangling_link, fifo, unix_socket, folder]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    (tmp_path / "root" / "inner").mkdir(parents=True)
    return tmp_path / "root"


def outside(root: Path) -> Path:
    return root.with_name("outside")


def test_a_regular_file_is_read_written_listed_and_removed(root: Path) -> None:
    os.close(plain_files.create_file(root, "made", "a"))
    (root / "made" / "a").write_bytes(b"content")
    assert plain_files.read_file(root, "made", "a", most=7) == b"content"
    with pytest.raises(OSError, match="more than 6 bytes"):
        plain_files.read_file(root, "made", "a", most=6)
    assert plain_files.file_names(root, "made") == ["a"]
    plain_files.remove_file(root, "made", "a")
    plain_files.remove_file(root, "made", "a")
    plain_files.remove_file(root, "nowhere", "a")
    assert plain_files.file_names(root, "made") == plain_files.file_names(root, "nowhere") == []


@pytest.mark.parametrize("make", ODD)
def test_nothing_but_a_regular_file_is_opened_listed_or_removed(root: Path, make: Maker) -> None:
    make(root / "inner" / "odd", outside(root))
    with pytest.raises(OSError, match="odd"):
        plain_files.open_file(root, "inner", "odd")
    assert plain_files.file_names(root, "inner") == []
    plain_files.remove_file(root, "inner", "odd")
    assert os.path.lexists(root / "inner" / "odd")


@pytest.mark.parametrize("make", ODD[:-1])
def test_a_new_file_takes_the_place_of_what_had_its_name(root: Path, make: Maker) -> None:
    make(root / "inner" / "odd", outside(root))
    descriptor = plain_files.create_file(root, "inner", "odd")
    os.write(descriptor, b"ours")
    os.close(descriptor)
    assert plain_files.read_file(root, "inner", "odd", most=9) == b"ours"
    assert [path.name for path in outside(root).iterdir()] == ["secret"]
    assert (outside(root) / "secret").read_bytes() == SECRET


@pytest.mark.parametrize("make", ODD[:-1])
@pytest.mark.parametrize("names", [("odd", "secret"), ("odd", "deeper", "secret")])
def test_no_folder_on_the_way_is_a_link(root: Path, make: Maker, names: tuple[str, ...]) -> None:
    make(root / "odd", outside(root))
    for use in (
        plain_files.open_file,
        plain_files.create_file,
        plain_files.file_names,
        plain_files.remove_file,
    ):
        with pytest.raises(OSError, match="odd"):
            use(root, *names)
    assert [path.name for path in outside(root).iterdir()] == ["secret"]


def test_the_folder_of_a_study_may_be_a_link_to_one_of_its_name(tmp_path: Path) -> None:
    study, place = tmp_path / "a.study", tmp_path / "a.study.files"
    assert plain_files.files_folder(study) == place
    disk = tmp_path / "disk" / "a.study.files"
    disk.mkdir(parents=True)
    place.symlink_to(disk)
    assert plain_files.files_folder(study) == disk
    place.unlink()
    place.symlink_to(tmp_path)
    assert plain_files.files_folder(study) == place
    with pytest.raises(OSError, match="symbolic link"):
        plain_files.file_names(place)
