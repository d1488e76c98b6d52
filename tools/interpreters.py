"""Print the oldest or the newest Python on this machine that the project supports:
`python tools/interpreters.py newest`. It looks on PATH and among the versions of pyenv."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MINORS = range(11, 16)
"""Of the versions 3.x that are looked for."""


def candidates(minor: int) -> Iterator[str]:
    """Where a version may be. The one that runs this comes first."""
    if sys.version_info[:2] == (3, minor):
        yield sys.executable
    found = shutil.which(f"python3.{minor}")
    if found:
        yield found
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=True).stdout
        for place in sorted(Path(root.strip(), "versions").glob(f"3.{minor}.*/bin/python")):
            yield str(place)


def works(interpreter: str, minor: int) -> bool:
    """Whether it starts and can make environments: a shim of pyenv may be there without a version
    behind it, and Debian keeps `ensurepip` in a package of its own."""
    code = f"import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, {minor}))"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, check=False)
    return done.returncode == 0


def interpreters() -> list[str]:
    """One of each version that is there, the oldest first."""
    found = [[each for each in candidates(minor) if works(each, minor)] for minor in MINORS]
    return [places[0] for places in found if places]


if __name__ == "__main__":
    print(interpreters()[{"oldest": 0, "newest": -1}[sys.argv[1]]])
