"""The commands that error messages give to install extras."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from deepband.system import installation
from deepband.system.installation import _requirement, install_command

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "deepband"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    (folder / "src" / "deepband").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "deepband"\n')
    return folder


def test_a_clone_installs_its_own_extras(
    clone: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installation, "SOURCE", clone / "src")
    monkeypatch.chdir(tmp_path)
    assert install_command("plots").endswith(f"pip install -e '{clone}[plots]'")
    monkeypatch.chdir(clone)
    assert install_command("plots").endswith("pip install -e '.[plots]'")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "'deepband[plots]'"),
        ({"url": "file:///gone", "dir_info": {}}, "'deepband[plots]'"),
        (
            {
                "url": "https://example.org/deepband.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"},
            },
            "'deepband[plots] @ git+https://example.org/deepband.git@main'",
        ),
        (
            {"url": "https://example.org/deepband-1.tar.gz", "archive_info": {}},
            "'deepband[plots] @ https://example.org/deepband-1.tar.gz'",
        ),
        ({"url": "file:///gone/deepband-1-py3-none-any.whl", "archive_info": {}}, None),
    ],
)
def test_what_to_install_is_where_it_came_from(origin: dict[str, Any], command: str | None) -> None:
    assert _requirement("plots", json.dumps(origin)) == (command or "'deepband[plots]'")


def test_a_copy_of_a_clone_installs_from_the_clone(clone: Path) -> None:
    origin = json.dumps({"url": clone.as_uri(), "dir_info": {}})
    assert _requirement("plots", origin) == f"'{clone}[plots]'"


@pytest.mark.parametrize("record", ["", "no JSON", "[]", '{"vcs_info": 1}'])
def test_a_record_that_says_nothing(record: str) -> None:
    assert _requirement("plots", record) == "'deepband[plots]'"


def test_all_messages_use_the_command_and_all_extras_exist() -> None:
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    assert [path for path, text in texts.items() if "pip install 'deepband" in text] == [
        SOURCE / "system" / "installation.py"
    ]
    named = set(re.findall(r"install_command\('([^']+)'\)", "".join(texts.values())))
    extras = re.findall(r"^([a-z-]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {extra for each in named for extra in each.split(",")} <= set(extras)
    assert len(named) > 10
