"""The row of the study in its file: settings, the numbers of commits, and the sum of checksums."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from deepband.core.criteria import Criteria, read_criteria
from deepband.core.facts import StudyCreated
from deepband.errors import FactError, InputError
from deepband.storage import lease_rows
from deepband.storage.schema import FIRST_WITH_LEASES, STUDY, check_references, format_of
from deepband.storage.tagged_json import from_text
from deepband.storage.verified_rows import tally_of, verified_rows

Head: TypeAlias = Mapping[str, Any]
"""The row of the study, by column, and its `checksum`. Two entries are not stored: the `format` of
the file, and as `leased` the part of `contents` that belongs to leases, whose rows are removed one
day."""
ID = re.compile("[0-9A-Za-z]{1,64}")
"""What the id of a study may look like: it is also the name of a folder."""


def read_head(connection: sqlite3.Connection) -> Head:
    """The verified row of the study, and its format. Columns that an older format does not have are
    None."""
    check_references(connection)
    tally = tally_of(connection)
    rows = list(verified_rows(connection, "studies", tally))
    if len(rows) != 1:
        raise FactError(f"the table studies has {len(rows)} rows, not one")
    version = format_of(connection)
    leased = lease_rows.total(connection) if version >= FIRST_WITH_LEASES else 0
    more = {"checksum": tally and tally.total, "format": version, "leased": leased}
    return dict(zip(STUDY, rows[0], strict=True)) | more


def study_created(row: Head) -> StudyCreated:
    """The fact that a row stands for."""
    if not ID.fullmatch(row["study"]):  # "../.." would lead out of the study's folder
        raise FactError(f"its id {row['study']!r} is not a valid name of a folder")
    criteria = _criteria(row)
    return StudyCreated(
        row["study"],
        from_text(row["space"]),
        row["eta"],
        Fraction(row["min_budget"]),
        Fraction(row["max_budget"]),
        int(row["seed"]),
        bool(row["maximize"]),
        bool(row["integer_budgets"]),
        row["sampler"],
        row["chunk"],
        bool(row["whole_costs"]),
        bool(row["reuse_identical"]),
        row["parallel"],
        criteria.objectives,
        criteria.constraints,
    )


def _criteria(row: Head) -> Criteria:
    """The objectives and constraints of a study. They are checked like those that users give."""
    objectives, constraints = _pairs(row["objectives"]), _pairs(row["constraints"])
    maximize = None if objectives else bool(row["maximize"])
    try:
        found = read_criteria(maximize, objectives or None, constraints or None)
    except InputError as error:
        raise FactError(str(error)) from error
    if found.maximize != bool(row["maximize"]):
        raise FactError("the direction of its objective is ambiguous")
    return found


def _pairs(text: str | None) -> dict[Any, Any]:
    """The pairs in a JSON list, as a mapping."""
    pairs = [] if text is None else json.loads(text)
    found = dict(pairs)
    if not isinstance(pairs, list) or len(found) != len(pairs) or (text is not None and not pairs):
        raise FactError(f"{text!r} are not objectives or constraints")
    return found
