"""Text formatting: aligned tables, durations, and user texts that are safe to show."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from deepband.core.exact_numbers import as_number
from deepband.core.record_text import html_table, printable

__all__ = ["about", "brief", "duration", "html_table", "printable", "shortened", "table", "units"]


def shortened(text: str, most: int = 40) -> str:
    """A printable text of at most `most` characters. The middle is left out: long names often
    differ only at their ends."""
    whole = printable(text if len(text) <= most else f"{text[:most]}{text[-most:]}")
    if len(text) <= most and len(whole) <= most:
        return whole
    end = most // 4
    return f"{whole[: most - 1 - end]}…{whole[len(whole) - end :]}"


def brief(value: object, most: int = 80) -> str:
    """A value as a short text. Floats have six digits."""
    return shortened(f"{value:.6g}" if isinstance(value, float) else str(value), most)


def duration(seconds: float) -> str:
    """A time in words: "4.3 s", "43 s", "1 min 30 s", "12 min", "2 h 05 min" or "3 d 4 h"."""
    if seconds < 0.001:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 10:
        return f"{minutes} min {rest:02} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def about(seconds: float) -> str:
    """An estimated time in words, such as "about 43 s"."""
    return f"about {duration(seconds)}"


def units(cost: Fraction) -> str:
    """A cost in words: "1 unit" or "13.5 units"."""
    return f"{as_number(cost):,.10g} unit{'' if cost == 1 else 's'}"


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
