"""The failures of a study as the page shows them: groups of equal errors."""

from __future__ import annotations

from typing import Any

from deepband.analysis.failures import FailureGroup, failures
from deepband.analysis.text import printable, shortened
from deepband.core.state import State

MOST_GROUPS, MOST_JOBS, MOST_CHARACTERS = 20, 10, 4000
"""How many errors, jobs of each, and characters of a traceback are shown, from its end."""


def failure_list(state: State) -> dict[str, Any]:
    """The most frequent errors, and how many others there are."""
    found = failures(state)
    return {
        "failed": found.total,
        "groups": [_group(each) for each in found[:MOST_GROUPS]],
        "others": max(0, len(found) - MOST_GROUPS),
    }


def _group(group: FailureGroup) -> dict[str, Any]:
    traceback = (group.traceback or "")[-MOST_CHARACTERS:]
    return {
        "error": shortened(group.error, 300),
        "count": group.count,
        "messages": group.messages,
        "jobs": group.jobs[:MOST_JOBS],
        "more": max(0, group.count - MOST_JOBS),
        "traceback": "\n".join(map(printable, traceback.splitlines())),
    }
