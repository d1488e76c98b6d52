"""Checksums of rows: damage to a file must not be read as data.

CRC-32, because damage is accidental: it finds every error within 32 neighbouring bits, overlooks
others once in four billion times, and is in Python's standard library. Nobody is kept from
changing a file on purpose.

Each row has its own. The row of the study also has the sum of all others, which reveals rows that
are missing although those that are left look good.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from deepband.errors import FactError

Row: TypeAlias = tuple[Any, ...]


def checksum(table: str, row: Row) -> int:
    """The CRC-32 of a row: texts, integers, floats and None as Python writes them in ASCII, which
    is the same in every version."""
    return zlib.crc32(ascii(row).encode(), zlib.crc32(table.encode()))


class Tally:
    """Checks rows while they are read, and adds up their checksums."""

    def __init__(self, total: int = 0) -> None:
        self.total = total

    def checked(self, table: str, rows: Iterable[Row]) -> Iterator[Row]:
        """Rows without their checksums, which come last. Raises a FactError at the first row that
        is not as it was written."""
        crc32, start = zlib.crc32, zlib.crc32(table.encode())  # as `checksum` does, but faster
        for row in rows:
            values, expected = row[:-1], row[-1]
            if crc32(ascii(values).encode(), start) != expected:
                raise FactError(f"a row of the table {table} does not match its checksum")
            self.total += expected
            yield values
