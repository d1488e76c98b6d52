"""The text and tables by which records show themselves, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from html import escape
from typing import Any


def printable(text: str) -> str:
    """A text with control characters escaped, such as those that move the cursor, change colours or
    reverse the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def record_repr(record: Any) -> str:
    """The repr of a dataclass or a named tuple, in which exact fractions are plain numbers and
    mappings are dicts."""
    names = getattr(record, "_fields", None) or _field_names(record)
    values = ", ".join(f"{name}={_value_repr(getattr(record, name))}" for name in names)
    return f"{type(record).__name__}({values})"


def _field_names(record: Any) -> list[str]:
    return [each.name for each in fields(record) if each.repr]


def _value_repr(value: object) -> str:
    if isinstance(value, Fraction):
        return repr(value.numerator if value.denominator == 1 else float(value))
    return repr(dict(value) if isinstance(value, Mapping) else value)


def html_table(caption: str, header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table as HTML for a notebook, with every text escaped. Without any heading, there is no
    row of headings."""
    head = "".join(f"<th scope='col'>{_html(cell)}</th>" for cell in header)
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{_html(caption)}</caption>{head}<tbody>{body}</tbody></table>"


def _html(cell: object) -> str:
    return escape(printable(str(cell)))
