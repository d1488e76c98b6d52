"""What a study must look like after its processes were killed, or its disk was full.

Compared with the same study left alone: the same bytes, and nothing left behind.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import deepband
from deepband import Study, export
from deepband.checkpoints import Checkpoints
from deepband.facts import JobKey
from driving import wait_until
from killing import MODES, Ledger, Mode
from torture import Place, processes_of, start


class Outcome(NamedTuple):
    """What a study came to."""

    canonical: list[str]
    sealed: set[JobKey]
    """The checkpoints that are kept."""


def outcome(study: Study) -> Outcome:
    return Outcome(list(export.canonical(study.state)), set(study.checkpoints.kept()))


def undisturbed(place: Place, name: str) -> Outcome:
    """What a mode comes to when nothing is killed."""
    assert start(place, name, pace=0).wait() == 0
    study = deepband.open_study(place.study)
    check_training(study, MODES[name])
    return outcome(study)


def check(place: Place, mode: Mode, excused: Counter[str], expected: Outcome) -> None:
    """Nothing lost, nothing run again that was finished, nothing left behind."""
    study = deepband.open_study(place.study)
    found = outcome(study)
    assert found.canonical == expected.canonical
    check_repetitions(place.ledger, mode, excused, len(expected.canonical))
    check_processes(place.study)
    check_folder(place)
    check_checkpoints(study.checkpoints)
    check_training(study, mode)
    assert found.sealed == expected.sealed


def check_repetitions(ledger: Ledger, mode: Mode, excused: Counter[str], evaluations: int) -> None:
    """Every job was run once, and again only as often as it was killed while it ran."""
    for event in ("began", "ran"):
        counts = Counter(ledger.jobs(event))
        assert len(counts) == evaluations
        repeated = Counter({job: count - 1 for job, count in counts.items()})
        assert (repeated - excused).total() <= mode.cut_short, repeated - excused
    check_order(ledger)


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
    for folder in ("jobs", "outbox", "output"):
        assert names(place.files / folder) == set(), folder


def check_checkpoints(checkpoints: Checkpoints) -> None:
    """Nothing is there but sealed checkpoints of this study."""
    assert names(checkpoints.folder.parent) <= {checkpoints.folder.name}
    assert names(checkpoints.attempts) == set()
    sealed = {"/".join(map(str, key)) for key in checkpoints.kept()}
    found = {str(each.relative_to(checkpoints.folder)) for each in checkpoints.folder.glob("*/*/*")}
    assert found == sealed | {f"{each}.json" for each in sealed}


def check_training(study: Study, mode: Mode) -> None:
    """Every evaluation continued from the checkpoint of the rung below, where checkpoints are
    kept, and those that `keep` names are there."""
    if mode.service or mode.keep.startswith("top"):
        return
    keeps = mode.keep != "none"
    trained: dict[tuple[int, int], list[int]] = {}
    for each in study.evaluations:  # the lower rungs of a config come first
        below = trained.setdefault((each.bracket, each.index), [])
        assert each.resumed_from == (below[-1] if keeps and below else None), each
        if each.error is None:
            below.append(each.rung)
    newest = slice(None) if mode.keep == "all" else slice(-1, None)
    expected = {(*config, rung) for config, rungs in trained.items() for rung in rungs[newest]}
    assert set(study.checkpoints.kept()) == (expected if keeps else set())


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
