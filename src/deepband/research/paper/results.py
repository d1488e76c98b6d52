"""The results on disk: a part a unit of work, written when it is done, then one file for all.

OUT/settings.json      what was asked for, and of which data and versions
OUT/parts/             a Parquet file a unit: who runs the study again goes on after these
OUT/results.parquet    the paper's study, one row a run
OUT/beyond.parquet     several deepenings in a row and wrong first guesses, one row a run
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from deepband.errors import DeepbandError, InputError
from deepband.research.paper.courses import METHODS, Row
from deepband.research.paper.settings import BEYOND, PAPER, Settings, Unit

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FILES = {PAPER: "results.parquet", BEYOND: "beyond.parquet"}
PAPER_COLUMNS = [name for name in Row._fields if name not in ("first_budget", "runs")]


class Folder(NamedTuple):
    """The folder that holds the results of a study."""

    path: Path
    seeds: int

    @classmethod
    def prepare(cls, path: Path, settings: Settings) -> Folder:
        """The folder, new or with what was done before with the same settings."""
        prepare(path, settings.describe(), [path / "parts" / study for study in settings.studies])
        return cls(path, settings.seeds)

    def part(self, unit: Unit) -> Path:
        name = f"{unit.scenario}-{unit.instance}-eta{unit.eta}.parquet"
        return self.path / "parts" / unit.study / name

    def has(self, unit: Unit) -> bool:
        """Whether the unit is done: its part is there, whole, and its own."""
        import pyarrow as pa

        ends = sum(len(course) if unit.every_step else 1 for course in unit.courses)
        expected = self.seeds * len(METHODS) * ends
        try:
            columns = read_columns(self.part(unit))
        except (OSError, pa.ArrowException):
            return False
        own = [
            set(columns[name]) == {getattr(unit, name)} for name in ("scenario", "instance", "eta")
        ]
        return all(own) and len(columns["seed"]) == expected

    def write_part(self, unit: Unit, rows: Iterable[Row]) -> None:
        ordered = sorted(rows, key=_order)
        write_whole(self.part(unit), as_parquet(as_table(ordered, Row)))

    def file(self, study: str) -> Path:
        """The one with all rows of a study."""
        return self.path / FILES[study]

    def collect(self, study: str, units: Sequence[Unit]) -> None:
        """All parts of a study in one file; the paper's study as it stands at its end."""
        import pyarrow as pa
        from pyarrow import parquet

        whole = pa.concat_tables([parquet.read_table(self.part(unit)) for unit in units])
        if study == PAPER:
            whole = whole.select(PAPER_COLUMNS)
        write_whole(self.file(study), as_parquet(whole.combine_chunks()))


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """A results file by column."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def _order(row: Row) -> tuple[Any, ...]:
    return row.seed, row.first_budget, row.max_budget, METHODS.index(row.method), row.runs


def as_table(rows: Sequence[NamedTuple], kind: type[NamedTuple]) -> pa.Table:
    """Rows of a kind by column, which have types though there be no rows."""
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int32(), float: pa.float64()}
    fields = [(name, kinds[hint]) for name, hint in get_type_hints(kind).items()]
    columns = [[row[number] for row in rows] for number in range(len(fields))]
    return pa.table(columns, schema=pa.schema(fields))


def as_parquet(table: pa.Table) -> bytes:
    """A table as the content of a file."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue())


def write_whole(place: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(place)


def prepare(path: Path, wanted: dict[str, Any], parts: Iterable[Path]) -> None:
    """Make a folder for results and those for their parts, or check that what is there was begun
    with the same settings."""
    place = path / "settings.json"
    if place.exists():
        _check_same(place, wanted)
    elif path.exists() and any(path.iterdir()):
        raise InputError(f"{path} holds other files: give a folder that is new or empty.")
    for folder in parts:
        folder.mkdir(parents=True, exist_ok=True)
        for draft in folder.glob(".*"):  # of a run that was killed
            draft.unlink(missing_ok=True)
    if not place.exists():
        write_whole(place, (json.dumps(wanted, indent=2) + "\n").encode())


def _check_same(place: Path, wanted: dict[str, Any]) -> None:
    """Raise an InputError unless results were begun with the same settings."""
    try:
        kept = json.loads(place.read_text())
    except ValueError as error:
        raise DeepbandError(f"{place} is not JSON: {error}") from error
    old, new = dict(_leaves(kept)), dict(_leaves(wanted))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            raise InputError(
                f"{place.parent} was begun with {name} {old.get(name, 'not there')}, now it is "
                f"{new.get(name, 'not there')}. Results are not mixed: give another folder."
            )


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested settings, with the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name} {key}".strip())
    else:
        yield name or "settings", value
