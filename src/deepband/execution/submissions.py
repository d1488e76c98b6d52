"""Files that say which jobs were submitted to Slurm, so that no driver submits them again.

    FOLDER/slurm/TOKEN/                a submission: a job array, or a single job
    FOLDER/slurm/TOKEN/NUMBER.json     the jobs of a call that has not ended
    FOLDER/slurm/TOKEN/objective       the objective
    FOLDER/slurm/TOKEN/*               what submitit writes: scripts, arguments and logs

TOKEN is the end of the name of the jobs in Slurm. The files of calls are written before the jobs
are submitted, so a job in Slurm's queue always has one, however a driver ends. A file is removed
before the results of its call are recorded: a worker that Slurm starts again later has nothing to
do then.

The folder may come from an untrusted source. It can only name jobs of the study, and only those
that Slurm knows under the same token are waited for.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from deepband.core.facts import JobKey
from deepband.errors import StorageError
from deepband.execution.slurm_queue import Place
from deepband.system import plain_files

SUBMISSIONS = "slurm"
OBJECTIVE = "objective"
MOST_BYTES = 2**24
_TOKEN = re.compile("[0-9a-f]{16}")
_CALL = re.compile(r"(0|[1-9][0-9]{0,5})\.json")


class SubmittedCall(NamedTuple):
    """A call of the objective that was submitted, and has not ended."""

    place: Place
    keys: Sequence[JobKey]
    token: str
    """How the tokens of its attempts begin."""


class Submissions:
    """The submissions of a study that have not ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, token: str) -> Path:
        return self.folder / SUBMISSIONS / token

    def write(self, calls: Sequence[SubmittedCall], objective: bytes) -> Path:
        """Create the folder of a submission with these calls."""
        token = calls[0].place[0]
        try:
            self._write(token, OBJECTIVE, objective)
            for call in calls:
                note = {"keys": call.keys, "token": call.token}
                self._write(token, _file_name(call.place), json.dumps(note).encode())
        except OSError as error:
            raise StorageError(self.path(token), f"cannot be written: {error}.") from error
        return self.path(token)

    def _write(self, token: str, name: str, content: bytes) -> None:
        descriptor = plain_files.create_file(self.folder, SUBMISSIONS, token, name)
        with open(descriptor, "wb") as file:
            file.write(content)

    def calls(self) -> list[SubmittedCall]:
        """All calls that have not ended. Submissions without any are removed."""
        try:
            tokens = plain_files.folder_names(self.folder, SUBMISSIONS)
            found = {token: self._calls(token) for token in tokens if _TOKEN.fullmatch(token)}
        except OSError as error:
            raise StorageError(
                self.folder / SUBMISSIONS,
                f"cannot be read: {error}. It lists the jobs in Slurm's queue: make it a readable "
                "folder without symbolic links in it, or remove it to submit all jobs again.",
            ) from error
        for token in [token for token, calls in found.items() if not calls]:
            self.remove(token)
        return [call for calls in found.values() for call in calls]

    def _calls(self, token: str) -> list[SubmittedCall]:
        names = plain_files.file_names(self.folder, SUBMISSIONS, token)
        named = [found for name in names if (found := _CALL.fullmatch(name))]
        read = [self._read(token, int(found[1])) for found in named]
        return [call for call in read if call is not None]

    def _read(self, token: str, number: int) -> SubmittedCall | None:
        place = token, number
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            names = SUBMISSIONS, token, _file_name(place)
            note = json.loads(plain_files.read_file(self.folder, *names, most=MOST_BYTES))
            return SubmittedCall(place, _keys(note["keys"]), str(note["token"]))
        return None

    def is_open(self, place: Place) -> bool:
        """Whether a call has not ended, so that its results are wanted."""
        token, _ = place
        return (self.path(token) / _file_name(place)).exists()

    def end(self, place: Place) -> None:
        """Note that a call has ended, or that its results are not wanted any more."""
        token, _ = place
        with suppress(OSError):
            plain_files.remove_file(self.folder, SUBMISSIONS, token, _file_name(place))

    def remove(self, token: str) -> None:
        """Remove the folder of a submission."""
        with suppress(OSError), plain_files.opened_folder(self.folder, SUBMISSIONS) as folder:
            shutil.rmtree(token, dir_fd=folder)


def _file_name(place: Place) -> str:
    return f"{place[1]}.json"


def _keys(given: Any) -> list[JobKey]:
    """The keys of a file, or a ValueError."""
    if not isinstance(given, list) or not given or not all(map(_is_key, given)):
        raise ValueError("these are not the keys of jobs")
    return [(bracket, index, rung) for bracket, index, rung in given]


def _is_key(given: Any) -> bool:
    if not isinstance(given, list) or len(given) != 3:
        return False
    return all(type(each) is int and 0 <= each < 2**63 for each in given)
