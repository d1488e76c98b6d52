"""Where the tests find surrogates: tiny ones that they write, and YAHPO Gym's published ones."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

PLACES = [os.environ.get("YAHPO_DATA"), Path(__file__).parents[3] / "shared" / "yahpo_data"]
PUBLISHED = next((Path(place) for place in PLACES if place and Path(place).is_dir()), None)

ABSENT = "no YAHPO Gym data: set YAHPO_DATA to a clone of https://github.com/slds-lmu/yahpo_data"
needs_published_data = pytest.mark.skipif(PUBLISHED is None, reason=ABSENT)


@cache
def data() -> Path:
    """A folder of tiny surrogates, written once per process."""
    from tiny_yahpo import write_tiny_yahpo

    folder = Path(tempfile.mkdtemp(prefix="tiny-yahpo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_tiny_yahpo(folder / "data").resolve()


def published_data() -> Path:
    """The published surrogates; tests that call this are marked with `needs_published_data`."""
    assert PUBLISHED is not None
    return PUBLISHED.resolve()
