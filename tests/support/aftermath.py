"""What a study must look like after its processes were killed, or its disk was full.

Compared with the same study left alone: the same bytes, and nothing left behind.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import deepband
from deepband import Study
from deepband.analysis import export
from deepband.core.facts import JobKey
from deepband.storage.checkpoints import Checkpoints
from driving import wait_until
from killing import MODES, Ledger, Mode
from torture import Place, processes_of, start


class Outcome(NamedTuple):
    """What a study came to."""

    canonical: list[str]
    sealed: set[JobKey]
    """The checkpoints that are kept."""


def outcome(study: Study) -> Outcome:
    return Outcome(
        list(export.canonical(study.session.state)), set(study.session.checkpoints.kept())
    )


def undisturbed(place: Place, name: str) -> Outcome:
    """What a mode comes to when nothing is killed."""
    assert start(place, name, pace=0).wait() == 0
    study = deepband.open_study(place.study)
    found = outcome(study)
    check_training(study, MODES[name])
    assert found.sealed == wanted_checkpoints(study, MODES[name])
    return found


def check(place: Place, mode: Mode, excused: Counter[str], expected: Outcome) -> None:
    """Nothing lost, nothing run again that was finished, nothing left behind."""
    study = deepband.open_study(place.study)
    found = outcome(study)
    assert found.canonical == expected.canonical
    for event in ("began", "ran"):
        assert len(set(place.ledger.jobs(event))) == len(expected.canonical)
        check_repetitions(place.ledger, event, excused, mode.cut_short)
    check_order(place.ledger)
    check_processes(place.study)
    check_folder(place)
    check_checkpoints(study.session.checkpoints)
    check_training(study, mode)
    # A driver that is killed between recording a result and removing what that makes superfluous
    # leaves more than is wanted.
    assert expected.sealed <= found.sealed <= successes(study)


def check_repetitions(ledger: Ledger, event: str, excused: Counter[str], spare: int = 0) -> None:
    """This happened to every job once, and again only as often as is excused."""
    repeated = Counter({job: count - 1 for job, count in Counter(ledger.jobs(event)).items()})
    assert (repeated - excused).total() <= spare, repeated - excused


def check_order(ledger: Ledger) -> None:
    """No job was begun after its result was recorded."""
    recorded: set[str] = set()
    for line in ledger.path.read_text().splitlines():
        event, job = line.split(" ", 1)
        assert event == "recorded" or job not in recorded, f"{job} was recorded, and {event} again"
        if event == "recorded":
            recorded.add(job)


def check_processes(study: Path) -> None:
    wait_until(lambda: not processes_of(study))


def check_folder(place: Place, *others: str) -> None:
    """Everything beside the study is accounted for. There may be others, which are not its own."""
    assert names(place.folder) <= {"a.study", "a.study.files", "ledger", *others}
    known = {"checkpoints", "driver.json", "jobs", "lock", "outbox", "output"}
    assert names(place.files) <= known
    for folder in ("jobs", "outbox"):
        assert names(place.files / folder) == set(), folder
    ran = {job.replace("/", "-") for job in place.ledger.jobs("ran")}
    assert names(place.files / "output") <= ran


def check_checkpoints(checkpoints: Checkpoints) -> None:
    """Nothing is there but sealed checkpoints of this study."""
    assert names(checkpoints.folder.parent) <= {checkpoints.folder.name}
    assert names(checkpoints.attempts) == set()
    sealed = {"/".join(map(str, key)) for key in checkpoints.kept()}
    found = {str(each.relative_to(checkpoints.folder)) for each in checkpoints.folder.glob("*/*/*")}
    assert found == sealed | {f"{each}.json" for each in sealed}


def check_training(study: Study, mode: Mode) -> None:
    """Every evaluation continued from the checkpoint of the rung below, where those are kept."""
    if mode.service or mode.keep.startswith("top"):
        return
    keeps = mode.saves and mode.keep != "none"
    below: dict[tuple[int, int], int] = {}
    for each in study.evaluations:  # the lower rungs of a config come first
        config = each.bracket, each.index
        assert each.resumed_from == (below.get(config) if keeps else None), each
        if each.error is None:
            below[config] = each.rung


def wanted_checkpoints(study: Study, mode: Mode) -> set[JobKey]:
    """The checkpoints that `keep` names."""
    found = successes(study) if mode.saves and not mode.service else set()
    if mode.keep == "all":
        return found
    newest = {key[:2]: key for key in sorted(found)}
    if mode.keep == "newest":
        return set(newest.values())
    losses = {(e.bracket, e.index, e.rung): e.loss or 0.0 for e in study.evaluations}
    best = sorted(newest.values(), key=lambda key: (-key[2], losses[key], key))
    return set(best[: 1 if mode.keep == "top:1" else 0])


def successes(study: Study) -> set[JobKey]:
    return {(e.bracket, e.index, e.rung) for e in study.evaluations if e.error is None}


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
