"""Texts in a study that could harm those who look at it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import Study

NAMES = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "</script></style></textarea></title><svg onload=alert(3)>",
    "'; alert(4); '",
    "javascript:alert(5)",
    "../../etc/passwd",
    "two\nlines\r\tand a tab",
    "\x1b[31mred\x07\x08",
    "\u202egnp.exe\u2066 turned",
    "$x^{$",
    "_hidden",
    "=cmd|' /C calc'!A0",
    "[bold]{{7*7}}%s",
    "&lt;b&gt; &amp;",
    "\ud800 alone",
    "nul\0byte",
    "long " + "x" * 5000,
]
SPACE: dict[str, Any] = {
    name: [f"{name} as a value", "b", 3] if number % 2 else (0.0, 1.0)
    for number, name in enumerate(NAMES)
}


def objective(config: dict[str, Any], budget: float) -> dict[str, Any]:
    """Fails sometimes, with a hostile text, and prints and measures such texts."""
    for name in NAMES:
        print(name.encode("utf-8", "backslashreplace").decode())
    number = sum(value for value in config.values() if isinstance(value, float))
    if number % 1 < 0.15:
        raise ValueError("\n".join(NAMES))
    return {"loss": number / budget, NAMES[0]: NAMES[1]}


def make(place: Path, workers: int = 1) -> Study:
    """A study of hostile names; the file's own name is one if the caller says so."""
    study = deepband.open_study(place, space=SPACE, max_budget=3)
    with pytest.warns(deepband.FailedEvaluationsWarning):
        _run_and_deepen(study, workers)
    return study


def _run_and_deepen(study: Study, workers: int) -> None:
    study.optimize(objective, workers=workers)
    study.deepen("preserving")
    study.optimize(objective, workers=workers)


class Outline(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "link", "input", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


TURNING = {"\x1b", "\x07", "\x08", "\0", "\u202e", "\u2066"}


def check_harmless(page: str) -> Outline:
    """Check that no text of a user became markup."""
    outline = Outline(page)
    for tag, attributes in outline.tags:
        assert tag not in {"svg", "iframe", "textarea", "b"}
        assert not any(name.startswith("on") for name in attributes), tag
        source = attributes.get("src") or "/"
        assert source.startswith(("/static/", "data:image/", "/")), tag
        assert not (attributes.get("href") or "").startswith("javascript"), tag
    assert not set(page) & TURNING
    return outline


def check_self_contained(page: str) -> Outline:
    """Check that a page loads nothing and runs nothing."""
    outline = check_harmless(page)
    tags = {tag for tag, _ in outline.tags}
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & tags
    for _, attributes in outline.tags:
        assert "href" not in attributes
        for source in (attributes.get("src"), attributes.get("srcset")):
            assert source is None or source.startswith("data:image/svg+xml;base64,")
    assert not re.search(r"url\(|@import", page)
    return outline
