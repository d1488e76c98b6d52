"""Text formatting: aligned tables, durations, and user texts that are safe to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def printable(text: str) -> str:
    """A text with control characters escaped, such as those that move the cursor, change colours or
    reverse the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = 40) -> str:
    """A printable text of at most `most` characters."""
    text = printable(text[: 2 * most])
    return text if len(text) <= most else f"{text[: most - 1]}…"


def brief(value: object, most: int = 80) -> str:
    """A value as a short text. Floats have six digits."""
    return shortened(f"{value:.6g}" if isinstance(value, float) else str(value), most)


def duration(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def about(seconds: float) -> str:
    """An estimated time in words, such as "about 43 s"."""
    return f"about {duration(seconds)}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts as aligned columns: the first left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def html_table(caption: str, header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A table as HTML for a notebook, with every text escaped."""
    head = "".join(f"<th scope='col'>{_html(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<table><caption>{_html(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _html(cell: object) -> str:
    return escape(printable(str(cell)))
