"""Print pip constraints that pin every dependency to the lowest version pyproject.toml declares:
`python tools/lowest.py test` for the project itself and its extra `test`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def declared(extras: Iterable[str]) -> Iterator[Requirement]:
    """The requirements of the project and of these extras, and of the extras these refer to."""
    project = tomllib.loads(PROJECT.read_text())["project"]

    def unfolded(requirements: Iterable[str]) -> Iterator[Requirement]:
        for requirement in map(Requirement, requirements):
            if requirement.name != project["name"]:
                yield requirement
            for extra in requirement.extras if requirement.name == project["name"] else ():
                yield from unfolded(project["optional-dependencies"][extra])

    own = ",".join(extras)
    return unfolded([*project["dependencies"], f"{project['name']}[{own}]"])


def bounds(requirements: Iterable[Requirement]) -> dict[str, set[Version]]:
    """Every lower bound that is declared, by the name of the package."""
    found: dict[str, set[Version]] = {}
    for requirement in requirements:
        lowest = {Version(part.version) for part in requirement.specifier if part.operator == ">="}
        found.setdefault(requirement.name, set()).update(lowest)
    return found


if __name__ == "__main__":
    for name, versions in sorted(bounds(declared(sys.argv[1:])).items()):
        print(f"{name}=={max(versions)}")
