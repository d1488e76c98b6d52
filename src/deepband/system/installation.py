"""The command that installs an extra, for whatever way deepband itself was installed.

`pip install 'deepband[plots]'` is right for a release. In a clone, it would replace the clone by a
release, or fail if there is none.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

SOURCE = Path(__file__).absolute().parents[2]
"""The folder that contains the package: `src` in a clone."""


def install_command(extra: str) -> str:
    """A command to type in a shell, such as "pip install 'deepband[plots]'"."""
    program = "uv pip install" if _record("INSTALLER").strip() == "uv" else "pip install"
    clone = SOURCE.parent
    if _is_clone(clone):
        return f"{program} -e {_quoted(clone, extra)}"
    return f"{program} {_requirement(extra, _record('direct_url.json'))}"


def _requirement(extra: str, origin: str) -> str:
    """What to install, given where deepband came from, as pip records it (PEP 610)."""
    found = _parsed(origin)
    url = str(found.get("url", ""))
    path = Path(unquote(urlparse(url).path))
    if "dir_info" in found and _is_clone(path):
        return _quoted(path, extra)
    if isinstance(vcs := found.get("vcs_info"), dict):
        revision = vcs.get("requested_revision") or vcs.get("commit_id")
        return shlex.quote(f"deepband[{extra}] @ {vcs.get('vcs')}+{url}@{revision}")
    if "archive_info" in found and (not url.startswith("file:") or path.is_file()):
        return shlex.quote(f"deepband[{extra}] @ {url}")
    return shlex.quote(f"deepband[{extra}]")


def _quoted(clone: Path, extra: str) -> str:
    here = os.path.realpath(clone) == os.path.realpath(os.curdir)
    return shlex.quote(f"{'.' if here else clone}[{extra}]")


def _is_clone(folder: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        lines = (folder / "pyproject.toml").read_text().splitlines()
        return 'name = "deepband"' in lines and (folder / "src" / "deepband").is_dir()
    return False


def _record(name: str) -> str:
    """A file that the installer wrote; empty if there is none."""
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError, OSError, UnicodeDecodeError):
        return distribution("deepband").read_text(name) or ""
    return ""


def _parsed(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        found = json.loads(text)
        return found if isinstance(found, dict) else {}
    return {}
