"""Finding the processes that a dead worker has left."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deepband.system.process_tree import _environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_a_process_that_is_about_to_start_a_program_has_an_environment() -> None:
    """For a moment it has none. About one in thirty was then not found on a busy machine."""
    for _ in range(200):
        process = subprocess.Popen(["sleep", "99"], start_new_session=True)
        try:
            assert _environment(Path("/proc", str(process.pid)), time.monotonic() + 60)
        finally:
            process.kill()
            process.wait()


def test_a_process_without_an_environment_is_not_waited_for() -> None:
    with subprocess.Popen(["sleep", "99"], env={}) as process:
        folder = Path("/proc", str(process.pid))
        assert _environment(folder, time.monotonic()) == b""
        process.kill()
        while " (sleep) Z " not in (folder / "stat").read_text():
            time.sleep(0.001)
        with contextlib.suppress(ProcessLookupError):  # it has ended
            assert _environment(folder, math.inf) == b""
