"""What workers printed: one file per job in the study's folder, with the last attempt at it.

    FOLDER/output/BRACKET-INDEX-RUNG

A file has at most 1 MiB and stays until the job is run again or the folder is deleted. The folder
may come from an untrusted source: only regular files with these names are read, and only their end
if they are larger than a worker would make them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deepband.analysis.failures import Failures
from deepband.core.facts import JobKey
from deepband.errors import StorageError
from deepband.execution.outbox import NUMBER, OUTPUT, Outbox
from deepband.system import plain_files

NAME = re.compile(rf"{NUMBER}-{NUMBER}-{NUMBER}")
MOST_BYTES = 2 * 1024 * 1024
"""How many bytes of a file are read at most, from its end."""
LAST_BYTES = 4096
"""How many bytes are searched for the last line."""


class OutputFile(NamedTuple):
    """What the last attempt at a job printed."""

    job: JobKey
    size: int
    """In bytes."""
    last_line: str
    """The last line that is not blank."""


def output_files(folder: Path) -> Iterator[OutputFile]:
    """All output that is kept, sorted by bracket, index and rung."""
    outbox = Outbox(folder)
    try:
        named = map(NAME.fullmatch, plain_files.file_names(folder, OUTPUT))
    except OSError as error:
        raise StorageError(folder, f"its output cannot be read: {error}.") from error
    keys = sorted(tuple(map(int, name.groups())) for name in named if name)
    for bracket, index, rung in keys:
        found = _end(outbox, (bracket, index, rung), LAST_BYTES)
        if found is not None:
            size, text = found
            lines = [line for line in text.splitlines() if line.strip()]
            yield OutputFile((bracket, index, rung), size, lines[-1].strip() if lines else "")


def read_output(folder: Path, job: JobKey, most: int = MOST_BYTES) -> str | None:
    """The output of a job, or its end if it has more than `most` bytes; None if none is kept."""
    found = _end(Outbox(folder), job, most)
    if found is None:
        return None
    size, text = found
    return f"... {size - most} bytes left out ...\n{text}" if size > most else text


def first_with_output(folder: Path, groups: Failures) -> JobKey | None:
    """The first failed job whose worker printed something."""
    jobs = (job for group in groups for job in group.jobs)
    return next((job for job in jobs if read_output(folder, job, LAST_BYTES)), None)


def _end(outbox: Outbox, job: JobKey, most: int) -> tuple[int, str] | None:
    """The size of a file, and its end as text."""
    with suppress(OSError), outbox.open_output(job) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most))
        return size, file.read(most).decode(errors="replace")
    return None
