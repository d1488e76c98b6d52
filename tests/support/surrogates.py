"""The location of YAHPO Gym's data, which is not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PLACES = [os.environ.get("YAHPO_DATA"), Path(__file__).parents[3] / "shared" / "yahpo_data"]
DATA = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)

ABSENT = "no YAHPO Gym data: set YAHPO_DATA to a clone of https://github.com/slds-lmu/yahpo_data"
needs_data = pytest.mark.skipif(DATA is None, reason=ABSENT)


def data() -> Path:
    """The folder; tests that call this are marked with `needs_data`."""
    assert DATA is not None
    return DATA.resolve()
