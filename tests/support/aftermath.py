"""Checks of a study after its processes were killed, or its disk was full.

It must be equal to the same study left undisturbed, and nothing else may be left behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

import deepband
from deepband import Study
from deepband.analysis import export
from deepband.core.facts import PRECHECK, JobKey
from deepband.storage.checkpoints import Checkpoints
from driving import wait_until
from killing import MODES, Ledger, Mode
from torture import Place, processes_of, start


class Outcome(NamedTuple):
    """The results of a study."""

    canonical: list[str]
    sealed: set[JobKey]
    """The checkpoints that are kept."""


def outcome(study: Study) -> Outcome:
    return Outcome(
        list(export.canonical(study.session.state)), set(study.session.checkpoints.kept())
    )


def undisturbed(place: Place, name: str) -> Outcome:
    """The outcome of a mode when nothing is killed."""
    assert start(place, name, pace=0).wait() == 0
    study = deepband.open_study(place.study)
    found = outcome(study)
    check_training(study, MODES[name])
    assert found.sealed == wanted_checkpoints(study, MODES[name])
    return found


Expected: TypeAlias = Callable[[str], Outcome]


def undisturbed_outcomes(folders: pytest.TempPathFactory) -> Expected:
    """The undisturbed outcome by mode, each computed once."""
    return cache(lambda name: undisturbed(Place(folders.mktemp("undisturbed")), name))


def check(place: Place, mode: Mode, excused: Counter[str], expected: Outcome) -> None:
    """Check that nothing was lost, repeated after it had finished, or left behind."""
    study = deepband.open_study(place.study)
    found = outcome(study)
    assert found.canonical == expected.canonical
    trained = [each for each in study.evaluations if each.origin != PRECHECK]
    for event in ("began", "ran"):
        assert len(set(place.ledger.jobs(event))) == len(trained)
        check_repetitions(place.ledger, event, excused, mode.cut_short)
    check_order(place.ledger)
    check_processes(place.study)
    check_folder(place)
    check_checkpoints(study.session.checkpoints)
    check_training(study, mode)
    # A driver that is killed between recording a result and removing superfluous checkpoints
    # leaves too many.
    assert expected.sealed <= found.sealed <= successes(study)


def check_repetitions(ledger: Ledger, event: str, excused: Counter[str], spare: int = 0) -> None:
    """Check that this happened to every job once, or more often only if excused."""
    repeated = Counter({job: count - 1 for job, count in Counter(ledger.jobs(event)).items()})
    assert (repeated - excused).total() <= spare, repeated - excused


def check_order(ledger: Ledger) -> None:
    """Check that no job was started after its result was recorded."""
    recorded: set[str] = set()
    for line in ledger.path.read_text().splitlines():
        event, job = line.split(" ", 1)
        assert event == "recorded" or job not in recorded, f"{job} was recorded, and {event} again"
        if event == "recorded":
            recorded.add(job)


def check_processes(study: Path) -> None:
    wait_until(lambda: not processes_of(study))


def check_folder(place: Place, *others: str) -> None:
    """Check that every file beside the study is known, or among `others`."""
    assert names(place.folder) <= {"a.study", "a.study.files", "ledger", *others}
    known = {"checkpoints", "driver.json", "jobs", "lock", "outbox", "output"}
    assert names(place.files) <= known
    for folder in ("jobs", "outbox"):
        assert names(place.files / folder) == set(), folder
    ran = {job.replace("/", "-") for job in place.ledger.jobs("ran")}
    assert names(place.files / "output") <= ran


def check_checkpoints(checkpoints: Checkpoints) -> None:
    """Check that there are only sealed checkpoints of this study."""
    assert names(checkpoints.folder.parent) <= {checkpoints.folder.name}
    assert names(checkpoints.attempts) == set()
    sealed = {"/".join(map(str, key)) for key in checkpoints.kept()}
    found = {str(each.relative_to(checkpoints.folder)) for each in checkpoints.folder.glob("*/*/*")}
    assert found == sealed | {f"{each}.json" for each in sealed}


def check_training(study: Study, mode: Mode) -> None:
    """Check that every evaluation continued from the rung below, if checkpoints are kept."""
    if mode.service or mode.keep.startswith("top"):
        return
    keeps = mode.saves and mode.keep != "none"
    below: dict[tuple[int, int], int] = {}
    for each in study.evaluations:  # the lower rungs of a config come first
        if each.origin == PRECHECK:
            continue
        config = each.bracket, each.index
        assert each.resumed_from == (below.get(config) if keeps else None), each
        if each.error is None and each.stopped_after is None:
            below[config] = each.rung


def wanted_checkpoints(study: Study, mode: Mode) -> set[JobKey]:
    """The checkpoints that `keep` keeps."""
    found = successes(study) if mode.saves and not mode.service else set()
    if mode.keep == "all":
        return found
    if mode.keep == "none":
        return set()
    losses = {(e.bracket, e.index, e.rung): e.loss or 0.0 for e in study.evaluations}
    newest = {key[:2]: key for key in sorted(found)}
    kept = sorted(newest.values(), key=lambda key: (-key[2], losses[key], key))
    best = best_of(study) if found else set()
    return {*(kept[:1] if mode.keep == "top:1" else kept), *best}


def best_of(study: Study) -> set[JobKey]:
    """The best evaluation of any rung or, with several objectives, the front."""
    best = study.front() if study.session.state.criteria.several else [study.best]
    return {(e.bracket, e.index, e.rung) for e in best}


def successes(study: Study) -> set[JobKey]:
    trained = (e for e in study.evaluations if e.error is None and e.origin != PRECHECK)
    return {(e.bracket, e.index, e.rung) for e in trained if e.stopped_after is None}


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
