"""The text and tables by which records show themselves, in a terminal and in a notebook."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from html import escape
from typing import Any

NUMBERS = re.compile(r"([-+±\d.,:/%\s]|e[-+]|inf|nan)*")
"""A cell with numbers alone, such as 1e-05, 9/9 or nothing."""


def printable(text: str) -> str:
    """A text with control characters escaped, such as those that move the cursor, change colours or
    reverse the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def record_repr(record: Any, omitted: Collection[str] = ()) -> str:
    """The repr of a dataclass or a named tuple, without the omitted fields. Exact fractions are
    plain numbers in it, and mappings are dicts."""
    names = getattr(record, "_fields", None) or _field_names(record)
    shown = (name for name in names if name not in omitted)
    values = ", ".join(f"{name}={_value_repr(getattr(record, name))}" for name in shown)
    return f"{type(record).__name__}({values})"


def _field_names(record: Any) -> list[str]:
    return [each.name for each in fields(record) if each.repr]


def _value_repr(value: object) -> str:
    if isinstance(value, Fraction):
        return repr(value.numerator if value.denominator == 1 else float(value))
    return repr(dict(value) if isinstance(value, Mapping) else value)


def html_table(caption: str, header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table as HTML for a notebook, with every text escaped. Without any heading, there is no
    row of headings. The caption is not inside the table, whose width it would have."""
    texts, names = [list(map(_html, row)) for row in rows], list(map(_html, header))
    styles = [_style(column) for column in zip(*texts, strict=True)] or [""] * len(names)
    head = "".join(f"<th scope='col'{s}>{t}</th>" for s, t in zip(styles, names, strict=False))
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    rows_html = (
        "".join(f"<td{s}>{t}</td>" for s, t in zip(styles, row, strict=True)) for row in texts
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows_html)
    return f"<div>{_html(caption)}</div><table>{head}<tbody>{body}</tbody></table>"


def _style(column: Iterable[str]) -> str:
    """Notebooks align all cells to the right, as is right for numbers only."""
    numbers = all(map(NUMBERS.fullmatch, column))
    return "" if numbers else " style='text-align: left'"


def _html(cell: object) -> str:
    return escape(printable(str(cell)))
