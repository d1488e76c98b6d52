"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown(header: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. The names of its columns are separated by `, ` in the header."""
    names = header.split(", ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
