"""Results on disk: Parquet files, written atomically, in a folder with its settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_type_hints

from numpy.typing import NDArray

from deepband.errors import DeepbandError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Results by column."""


def prepare_folder(path: Path, settings: dict[str, Any], parts: Iterable[Path]) -> None:
    """Create a folder for results and its subfolders, or check that what is there was started
    with the same settings."""
    place = path / "settings.json"
    if place.exists():
        _check_same(place, settings)
    elif path.exists() and any(path.iterdir()):
        raise InputError(f"{path} contains other files. Give a new or empty folder.")
    for folder in parts:
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(".*"):  # of a process that was killed
            draft.unlink(missing_ok=True)
    if not place.exists():
        write_whole(place, (json.dumps(settings, indent=2) + "\n").encode())


def read_columns(path: Path) -> Columns:
    """Read a results file by column."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def write_rows(place: Path, rows: Sequence[NamedTuple], kind: type[NamedTuple]) -> None:
    """Write rows of one kind as a Parquet file; their types are those of the kind's fields."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int32(), float: pa.float64()}
    fields = [(name, types[hint]) for name, hint in get_type_hints(kind).items()]
    columns = [[row[number] for row in rows] for number in range(len(fields))]
    write_table(place, pa.table(columns, schema=pa.schema(fields)))


def write_joined(place: Path, parts: Iterable[Path], columns: Sequence[str] | None = None) -> None:
    """Write the rows of several Parquet files as one file, with some or all columns."""
    import pyarrow as pa
    from pyarrow import parquet

    whole = pa.concat_tables([parquet.read_table(part) for part in parts])
    write_table(place, (whole.select(columns) if columns else whole).combine_chunks())


def write_table(place: Path, table: pa.Table) -> None:
    """Write a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    write_whole(place, bytes(sink.getvalue()))


def write_whole(place: Path, content: bytes) -> None:
    """Write a file atomically."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(place)


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Return a hash of the content of each file, by name."""
    return {
        file.name: hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files
    }


def _check_same(place: Path, wanted: dict[str, Any]) -> None:
    try:
        kept = json.loads(place.read_text())
    except ValueError as error:
        raise DeepbandError(f"{place} is not JSON: {error}") from error
    old, new = dict(_leaves(kept)), dict(_leaves(wanted))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            raise InputError(
                f"The results in {place.parent} were started with {name} "
                f"{old.get(name, 'not set')}, but it is now {new.get(name, 'not set')}. Results of "
                "different settings cannot be mixed: give another folder."
            )


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested settings, with the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name} {key}".strip())
    else:
        yield name or "settings", value
