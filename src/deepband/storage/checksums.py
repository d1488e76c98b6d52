"""Checksums of rows, so that damage to a file is never read as data.

Every row has a CRC-32, and the row of the study has the sum of all others, which reveals missing
rows. A CRC-32 detects every error within 32 adjacent bits and misses others about once in four
billion times. It guards against accidents, not against deliberate changes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from deepband.errors import FactError

Row: TypeAlias = tuple[Any, ...]


def checksum(table: str, row: Row) -> int:
    """The CRC-32 of a row's `ascii()`, which is the same in every version of Python for texts,
    integers, floats and None."""
    return zlib.crc32(ascii(row).encode(), zlib.crc32(table.encode()))


class Tally:
    """Verifies rows while they are read, and sums their checksums."""

    def __init__(self, total: int = 0) -> None:
        self.total = total

    def checked(self, table: str, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows without their last column, the checksum. Raises a FactError at the first row
        that does not match it."""
        crc32, start = zlib.crc32, zlib.crc32(table.encode())  # as `checksum` does, but faster
        for row in rows:
            values, expected = row[:-1], row[-1]
            if crc32(ascii(values).encode(), start) != expected:
                raise FactError(f"a row of the table {table} does not match its checksum")
            self.total += expected
            yield values
