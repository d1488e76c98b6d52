"""Checkpoints: passed from rung to rung, ignored when damaged, kept according to `keep`."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import (
    Context,
    Evaluation,
    FailedEvaluationsWarning,
    InputError,
    Job,
    StorageError,
    Study,
)
from deepband.analysis import export
from deepband.core.facts import Outcome
from deepband.core.records import Attempt
from deepband.execution.outbox import Outbox
from deepband.storage.checkpoints import seal
from deepband.storage.retention import read_keep, superfluous

Objective = Callable[[dict[str, Any], float, Context], float]
heavy = pytest.mark.heavy


def train(config: dict[str, Any], budget: float, context: Context) -> float:
    """Saves the budget it has reached, and fails if it received anything else."""
    assert list(context.path.iterdir()) == []
    if context.previous is None:
        assert context.previous_budget == 0
    else:
        reached = (context.previous / "deep" / "state").read_text()
        assert float(reached) == context.previous_budget
        assert context.previous_budget < budget
    (context.path / "deep").mkdir()
    (context.path / "deep" / "state").write_text(str(budget))
    return float(config["x"])


def open_study(path: Path | None = None, **settings: Any) -> Study:
    settings = {"space": {"x": (0.0, 1.0)}, "max_budget": 9, **settings}
    return deepband.open_study(path, **settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def folders(study: Study) -> set[tuple[int, int, int]]:
    return set(study.session.checkpoints.kept())


def key_of(evaluation: Evaluation) -> tuple[int, int, int]:
    return evaluation.bracket, evaluation.index, evaluation.rung


def newest(study: Study) -> set[tuple[int, int, int]]:
    top: dict[tuple[int, int], int] = {}
    for each in study.evaluations:
        top[each.bracket, each.index] = max(each.rung, top.get((each.bracket, each.index), 0))
    return {(bracket, index, rung) for (bracket, index), rung in top.items()}


@pytest.mark.parametrize("stored", [True, False])
def test_training_goes_on_from_the_rung_below(path: Path, stored: bool) -> None:
    study = open_study(path if stored else None)
    study.optimize(train)
    study.deepen("efficient")
    study.optimize(train)
    for each in study.evaluations:
        assert each.resumed_from == (each.rung - 1 if each.rung > each.bracket else None)
    assert [run.trained for run in study.runs] == [run.cost_resumed for run in study.runs]
    assert folders(study) == newest(study)
    study.close()
    assert study.session.checkpoints.folder.exists() == stored


def test_an_objective_that_saves_nothing_leaves_nothing(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        assert context.previous is None
        return 1.0

    study = open_study(path)
    study.optimize(objective)
    assert folders(study) == set()
    assert [run.trained for run in study.runs] == [run.cost for run in study.runs]


def damage_by_deleting(folder: Path) -> None:
    shutil.rmtree(folder)


def damage_by_cutting(folder: Path) -> None:
    (folder / "deep" / "state").write_text("")


def damage_by_flipping(folder: Path) -> None:
    file = folder / "deep" / "state"
    file.write_text("".join(chr(ord(c) ^ 1) for c in file.read_text()))


def damage_by_adding(folder: Path) -> None:
    (folder / "more").write_text("x")


def damage_the_manifest(folder: Path) -> None:
    folder.with_suffix(".json").write_text("{")


DAMAGES = [
    damage_by_deleting,
    damage_by_cutting,
    damage_by_flipping,
    damage_by_adding,
    damage_the_manifest,
]


@pytest.mark.parametrize(
    ("damage", "keep"),
    [
        pytest.param(damage, keep, marks=() if number % 2 == other else heavy)
        for number, damage in enumerate(DAMAGES)
        for other, keep in enumerate(["newest", "all"])
    ],
)
def test_a_damaged_checkpoint_is_not_trained_on(
    path: Path, damage: Callable[[Path], None], keep: str
) -> None:
    with open_study(path, keep=keep) as study:
        study.optimize(train)
        best = study.best_at()
        key = (best.bracket, best.index, best.rung)
        damage(study.session.checkpoints.path(key))
        study.deepen("discarding")
        study.optimize(train)
        went_on = [
            each
            for each in study.evaluations
            if (each.bracket, each.index, each.rung) == (*key[:2], key[2] + 1)
        ]
        assert len(went_on) == 1
        wanted = key[2] - 1 if keep == "all" and key[2] > key[0] else None
        assert went_on[0].resumed_from == wanted
        assert study.runs[1].trained > study.runs[1].cost_resumed


def test_an_interrupted_attempt_finds_what_it_had_saved(path: Path) -> None:
    attempts: list[str | None] = []

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        assert list(context.path.iterdir()) == []
        partial = context.partial
        saved = (partial / "half").read_text() if partial else None
        attempts.append(saved)
        if len(attempts) == 2:
            raise KeyboardInterrupt  # before anything is saved, so the older one stays
        (context.path / "half").write_text(f"attempt {len(attempts)}")
        if len(attempts) in (1, 3):
            raise KeyboardInterrupt
        return 1.0

    for _ in range(3):
        with open_study(path) as study, pytest.raises(KeyboardInterrupt):
            study.optimize(objective)
    with open_study(path) as study:
        study.optimize(objective, max_cost=1)
        assert attempts == [None, "attempt 1", "attempt 1", "attempt 3"]
        assert not list(study.session.checkpoints.folder.rglob("*.partial"))


def test_a_sealed_folder_without_a_result_is_only_partial(path: Path) -> None:
    """Killed between sealing and recording: the next attempt starts again with a partial folder."""
    with open_study(path) as study:
        job = study.ask()
        assert job is not None
        folder, _ = study.session.checkpoints.begin(job.key)
        (folder / "deep").mkdir()
        (folder / "deep" / "state").write_text("1")
        assert seal(folder)
        study.session.checkpoints.accept(job.key, folder.name)
    found: list[Path | None] = []

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        found.append(context.partial)
        return train(config, budget, context)

    with open_study(path) as study:
        study.optimize(objective)
        assert found[0] is not None
        assert set(found[1:]) == {None}
        assert study.evaluations[0].resumed_from is None


def test_a_failed_evaluation_leaves_no_checkpoint(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        loss = train(config, budget, context)
        if config["x"] > 0.5:
            raise ValueError
        return loss

    with open_study(path) as study:
        with pytest.warns(FailedEvaluationsWarning, match="evaluations failed"):
            study.optimize(objective)
        failed = {(e.bracket, e.index, e.rung) for e in study.evaluations if e.loss is None}
        assert failed
        assert not failed & folders(study)


def test_a_quote_says_nothing_of_checkpoints_that_were_never_made(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(lambda config, budget: config["x"])
        assert study.quote().retraining == 0
    with open_study() as study:
        study.optimize(train)
        assert study.quote().retraining == 0


def test_all_are_kept_when_told(path: Path) -> None:
    with open_study(path, keep="all") as study:
        study.optimize(train)
        assert len(folders(study)) == len(study.evaluations)


def test_none_are_kept_when_told(path: Path) -> None:
    with open_study(path, keep="none") as study:
        study.optimize(train)
        quote = study.quote("efficient")
        # eta 3, 9 to 27: configs that may be promoted into a free slot train their rung again:
        # bracket 0: 6 at budget 1, 2 at 3, 1 at 9; bracket 1: 4 at 3, 1 at 9; bracket 2: 2 at 9.
        assert quote.retraining == 6 * 1 + 2 * 3 + 1 * 9 + 4 * 3 + 1 * 9 + 2 * 9
        assert "retraining    up to" in str(quote)
        assert folders(study) == set()
        assert all(each.resumed_from is None for each in study.evaluations)


def test_the_best_are_kept_when_told(path: Path) -> None:
    with open_study(path, keep="top:4", max_budget=27) as study:
        study.optimize(train)
        # Within the run nothing that could be promoted was removed.
        assert study.runs[0].trained == study.runs[0].cost_resumed
        kept = folders(study)
        assert len(kept) == 4
        assert {rung for _, _, rung in kept} == {3}
        losses = {(e.bracket, e.index): e.loss for e in study.evaluations if e.rung == 3}
        best = sorted(losses, key=lambda each: (losses[each], each))[:4]
        assert {key[:2] for key in kept} == set(best)


def worse_with_budget(config: dict[str, Any], budget: float, context: Context) -> float:
    """Overfits: the best loss of every config is that of its lowest rung."""
    return train(config, budget, context) + budget


@pytest.mark.parametrize(
    ("keep", "workers"),
    [
        ("newest", 1),
        ("top:1", 2),
        ("top:3", 1),
        pytest.param("newest", 2, marks=heavy),
        pytest.param("top:1", 1, marks=heavy),
        pytest.param("top:3", 2, marks=heavy),
    ],
)
def test_the_best_evaluation_keeps_its_checkpoint(path: Path, keep: str, workers: int) -> None:
    with open_study(path, keep=keep, max_budget=27) as study:
        for _ in range(2):
            study.optimize(worse_with_budget, workers=workers)
            best, top = study.best, study.best_at()
            assert best.rung == 0
            assert top.rung == study.session.state.schedule.top
            assert best.checkpoint == study.session.checkpoints.path(key_of(best))
            assert float((best.checkpoint / "deep" / "state").read_text()) == best.budget
            assert top.checkpoint is not None
            assert float((top.checkpoint / "deep" / "state").read_text()) == top.budget
            if keep == "newest":
                assert folders(study) == newest(study) | {key_of(best)}
            else:
                assert key_of(best) in folders(study)
                assert len(folders(study)) <= int(keep[4:]) + 1
            study.deepen("efficient")
            if keep == "top:1":
                break


def test_every_best_on_the_way_has_its_checkpoint_and_no_former_one_stays(path: Path) -> None:
    """The loss falls with every evaluation, then rises with the rung: the best changes often, and
    often while its config is already on a higher rung."""
    done = 0

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        nonlocal done
        if done:
            with deepband.open_study(path) as seen:
                assert seen.best.checkpoint is not None
                assert seen.best_at().checkpoint is not None
        done += 1
        train(config, budget, context)
        return float((-1) ** done * config["x"] - done + budget / 3)

    with open_study(path) as study:
        study.optimize(objective)
        assert done == 22
        assert folders(study) == newest(study) | {key_of(study.best)}


def test_nothing_is_kept_of_the_best_when_told(path: Path) -> None:
    with open_study(path, keep="none") as study:
        study.optimize(worse_with_budget)
        assert study.best.checkpoint is None
        assert study.best_at().checkpoint is None


@pytest.mark.parametrize("keep", ["newest", "top:1"])
def test_removing_checkpoints_later_spares_the_best(path: Path, keep: str) -> None:
    with open_study(path, keep="all") as study:
        study.optimize(worse_with_budget)
        gone = superfluous(study.session.state, read_keep(keep), folders(study))
        assert {key_of(study.best), key_of(study.best_at())}.isdisjoint(gone)
        assert len(gone) == len(study.evaluations) - (18 if keep == "newest" else 2)
        nothing = superfluous(study.session.state, read_keep("none"), folders(study))
        assert len(nothing) == len(study.evaluations)


def test_an_evaluation_names_its_checkpoint(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(train)
        kept = {key_of(each): each.checkpoint for each in study.evaluations}
        assert {key for key, folder in kept.items() if folder} == folders(study)
        assert all(folder.is_absolute() for folder in kept.values() if folder)
        sent = pickle.loads(pickle.dumps(study.best))
        assert sent.checkpoint == study.best.checkpoint
        assert sent.checkpoint is not None
    again = deepband.open_study(path)
    assert again.best.checkpoint == sent.checkpoint
    assert again.best == study.best


def test_where_a_checkpoint_is_makes_no_difference(path: Path) -> None:
    """Two equal studies in different folders, one of them without any checkpoint."""
    with open_study(path, seed=1) as study:
        study.optimize(train)
    with open_study(None, seed=1, keep="none") as other:
        other.optimize(train)
        mine, others = (
            [each._replace(seconds=None, resumed_from=None) for each in every.evaluations]
            for every in (study, other)
        )
        assert mine == others
        assert study.best.checkpoint is not None
        assert other.best.checkpoint is None
        assert "checkpoint" not in study.best._asdict()
        assert "checkpoint" not in "".join(export.jsonl(study.session.state))
        assert "checkpoint" not in study.to_pandas().columns


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_not_named(path: Path, damage: Callable[[Path], None]) -> None:
    with open_study(path) as study:
        study.optimize(train)
        best, top = study.best, study.best_at()
        assert best.checkpoint is not None
        damage(best.checkpoint)
        assert study.best.checkpoint is None
        assert best.checkpoint is None
        assert (top.checkpoint is None) == (key_of(top) == key_of(best))


def test_an_evaluation_of_a_study_without_files_has_no_checkpoint() -> None:
    with open_study() as study:
        study.optimize(lambda config, budget: config["x"])
        assert study.best.checkpoint is None
        assert "files" not in vars(study.session)  # and no folder was made to say so


@pytest.mark.parametrize("keep", ["top", "top:", "top:-1", "top:x", "some", "", "newest:3"])
def test_a_bad_keep_is_refused(path: Path, keep: str) -> None:
    with pytest.raises(InputError, match="give 'newest'"):
        open_study(path, keep=keep)
    assert not path.exists()


def test_what_keep_means() -> None:
    assert read_keep("top:20") == (False, 20)


@pytest.mark.parametrize("workers", [1, 4])
def test_keeping_none_costs_no_result(path: Path, workers: int) -> None:
    with open_study(path, keep="none", max_budget=27) as study:
        study.optimize(train, workers=workers, retries=0)
        study.deepen("efficient")
        study.optimize(train, workers=workers, retries=0)
        assert [each.error for each in study.evaluations if each.error] == []
        assert [file.name for file in study.session.checkpoints.folder.rglob("*")] == ["attempts"]


def replace_by_a_link(folder: Path, outside: Path) -> None:
    folder.rmdir()
    folder.symlink_to(outside)


def replace_by_a_file(folder: Path, outside: Path) -> None:
    folder.rmdir()
    folder.write_text("not a folder")


def remove_all(folder: Path, outside: Path) -> None:
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize(
    ("replace", "keep"),
    [
        pytest.param(replace, keep, marks=() if number % 3 == other else heavy)
        for number, keep in enumerate(["newest", "none", "all", "top:1"])
        for other, replace in enumerate([replace_by_a_link, replace_by_a_file, remove_all])
    ],
)
def test_an_objective_that_replaces_its_folder_saves_nothing(
    path: Path, replace: Callable[[Path, Path], None], keep: str
) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        if config["x"] < 0.5:
            replace(context.path, outside)
            return float(config["x"])
        return train(config, budget, context)

    outside = path.with_name("outside")
    outside.mkdir()
    (outside / "mine").write_text("mine")
    with open_study(path, keep=keep) as study:
        study.optimize(objective)
        study.deepen("preserving")
        study.optimize(objective)
        assert study.done
        assert all(each.error is None for each in study.evaluations)
        assert all(
            each.resumed_from is None for each in study.evaluations if each.config["x"] < 0.5
        )
        assert [file.name for file in outside.iterdir()] == ["mine"]


def test_an_attempt_that_was_given_up_writes_into_no_other(path: Path) -> None:
    """A thread cannot be killed: it wakes up while the next attempt at its job runs."""
    first: list[Path] = []
    hung, resumed, written = threading.Event(), threading.Event(), threading.Event()

    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        if not first:
            first.append(context.path)
            (context.path / "state").write_text("first")
            hung.set()
            assert resumed.wait(60)
            with contextlib.suppress(OSError):
                (context.path / "state").write_text("too late")
            written.set()
            return 0.0
        (context.path / "state").write_text("second")
        if context.partial is not None:
            assert (context.partial / "state").read_text() == "first"
            resumed.set()
            assert written.wait(60)
        return float(config["x"])

    with open_study(path, max_budget=1) as study, ThreadPoolExecutor(2) as pool:
        study.optimize(objective, executor=pool, timeout=0.5, retries=1)
        assert hung.is_set()
        assert written.is_set()
        states = [
            study.session.checkpoints.path(key) / "state"
            for key in study.session.checkpoints.kept()
        ]
        assert [state.read_text() for state in states] == ["second"]
        assert all(map(study.session.checkpoints.is_intact, study.session.checkpoints.kept()))


def test_other_folders_beside_checkpoints_are_left_alone(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(train)
        notes = study.session.checkpoints.folder / "notes" / "of mine"
        notes.mkdir(parents=True)
        (notes / "1.json").write_text("{}")
        (notes / "1").mkdir()
        expected = study.quote().retraining
        assert expected == 0
        study.deepen("efficient")
        study.optimize(train)
        assert (notes / "1.json").exists()


def test_work_ahead_leaves_no_folder_that_nobody_wants(path: Path) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        (context.path / "state").write_text("half")
        time.sleep(0.05 * budget)
        return float(config["x"])

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, workers=3, ahead=True)
        left = {
            each.name.partition(".")[0] for each in study.session.checkpoints.attempts.iterdir()
        }
        # A job that ended as the run did: its result waits for the next call.
        assert left <= {
            "-".join(map(str, each.job.key)) for (each,) in Outbox(study.session.files).waiting()
        }


def test_an_interrupted_attempt_is_swept_when_its_job_is_done(path: Path) -> None:
    with open_study(path) as study:
        job = study.ask()
        assert job is not None
        folder, _ = study.session.checkpoints.begin(job.key)
        (folder / "half").write_text("half")
    with open_study(path) as study:
        study.tell(study.ask_all()[0], 1.0)
        assert folder.exists()
        study.optimize(train)
        assert list(study.session.checkpoints.attempts.iterdir()) == []


@pytest.mark.parametrize("place", ["checkpoints", "checkpoints/STUDY", "attempts", "0", "0/0"])
def test_nothing_behind_a_link_is_touched(path: Path, place: str) -> None:
    """A study from an untrusted source may have links in place of folders."""
    with open_study(path) as study:
        study.optimize(train, max_cost=3)
        top = study.session.checkpoints.folder
        named = {"checkpoints": top.parent, "checkpoints/STUDY": top}
        linked = named.get(place, top / place)
    outside = path.with_name("outside")
    shutil.copytree(linked, outside)
    shutil.rmtree(linked)
    linked.symlink_to(outside)
    for name in ("0-0-0.abcdef", "0/0/0", "0/0", "0"):
        (outside / name).mkdir(parents=True, exist_ok=True)
        (outside / name / "mine").write_text("mine")
    before = sorted(outside.rglob("*"))
    with open_study(path) as study, contextlib.suppress(StorageError):
        study.optimize(train)
    with open_study(path) as study, contextlib.suppress(StorageError):
        for key in list(study.session.checkpoints.kept()):
            study.session.checkpoints.discard(key)
    assert sorted(outside.rglob("*")) == before


def test_a_manifest_that_never_ends_is_not_read(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(train)
        for key in list(study.session.checkpoints.kept()):
            manifest = study.session.checkpoints.path(key).with_suffix(".json")
            manifest.unlink()
            os.mkfifo(manifest)
            assert not study.session.checkpoints.is_intact(key)


def test_a_crash_between_the_two_renames_costs_no_checkpoint(path: Path) -> None:
    with open_study(path) as study:
        job = study.ask()
        assert job is not None
        folder, _ = study.session.checkpoints.begin(job.key)
        (folder / "state").write_text("1")
        assert seal(folder)
        study.session.checkpoints.path(job.key).parent.mkdir(parents=True)
        folder.rename(study.session.checkpoints.path(job.key))
        study.session.checkpoints.accept(job.key, folder.name)
        assert study.session.checkpoints.is_intact(job.key)
        study.session.checkpoints.accept(job.key, folder.name)
        assert study.session.checkpoints.is_intact(job.key)


def test_what_a_killed_driver_had_no_time_to_prune_is_pruned_by_the_next(path: Path) -> None:
    """It was killed between recording a result and removing superfluous checkpoints."""
    with open_study(path) as study:
        study.optimize(train)
        best = next(each for each in study.evaluations if each.rung > each.bracket)
        key = (best.bracket, best.index, best.rung)
        lower = study.session.checkpoints.path((*key[:2], best.rung - 1))
        shutil.copytree(study.session.checkpoints.path(key), lower)
        study.session.checkpoints.path(key).with_suffix(".json").rename(lower.with_suffix(".json"))
        assert seal(study.session.checkpoints.path(key))
        job = Job(*key, best.budget, best.config, study.session.state.created.study)
        outbox = Outbox(study.session.files)
        outbox.make()
        with outbox.hold([key], "abcd", None) as held:
            held.put([Attempt(job, Outcome(best.loss))])
        assert len(folders(study)) == len(newest(study)) + 1
    with open_study(path) as study:
        study.optimize(train)
        assert folders(study) == newest(study)
        assert outbox.waiting() == []


@pytest.mark.parametrize("half", [False, True])
def test_a_former_best_is_pruned_after_a_kill_too(path: Path, half: bool) -> None:
    """A driver recorded a new best, and was killed before it had removed the former one: then, or
    in the middle of its removal."""
    with open_study(path, keep="all") as study:
        study.optimize(worse_with_budget)
        best = study.best
        risen = {key_of(e)[:2] for e in study.evaluations if e.rung} - {key_of(best)[:2]}
        former = next(e for e in study.evaluations if not e.rung and key_of(e)[:2] in risen)
        for key in folders(study) - newest(study) - {key_of(best), key_of(former)}:
            study.session.checkpoints.discard(key)
        if half:
            study.session.checkpoints.path(key_of(former)).with_suffix(".json").unlink()
        job = Job(*key_of(best), best.budget, best.config, study.session.state.created.study)
        outbox = Outbox(study.session.files)
        outbox.make()
        with outbox.hold([key_of(best)], "abcd", None) as held:
            held.put([Attempt(job, Outcome(best.loss))])
    with open_study(path) as study:
        study.optimize(train)
        assert folders(study) == newest(study) | {key_of(best)}
        assert not study.session.checkpoints.path(key_of(former)).exists()


def test_what_an_interrupted_attempt_saved_is_no_link(path: Path) -> None:
    outside = path.with_name("outside")
    outside.mkdir()
    with open_study(path) as study:
        job = study.ask()
        assert job is not None
        folder, _ = study.session.checkpoints.begin(job.key)
        folder.with_name("0-0-0.partial").symlink_to(outside)
        _, partial = study.session.checkpoints.begin(job.key)
        assert partial is None


def test_a_saved_study_takes_nothing_along_from_behind_links(path: Path) -> None:
    outside = path.with_name("outside")
    outside.mkdir()
    (outside / "secret").write_text("secret")
    with open_study(path) as study:
        study.optimize(train)
        (study.session.checkpoints.folder / "7").symlink_to(outside)
        study.save_as(path.with_name("b.study"))
        copied = study.session.checkpoints.folder
        assert set(folders(study)) == newest(study)
        assert (copied / "7").is_symlink()


def content(folder: Path) -> dict[Path, bytes | None]:
    return {
        each.relative_to(folder): each.read_bytes() if each.is_file() else None
        for each in folder.rglob("*")
    }


@pytest.mark.parametrize(
    ("keep", "stored"),
    [
        ("newest", True),
        ("top:1", False),
        ("all", True),
        pytest.param("newest", False, marks=heavy),
        pytest.param("top:1", True, marks=heavy),
        pytest.param("all", False, marks=heavy),
    ],
)
def test_a_copy_continues_from_the_checkpoints_of_the_original(
    path: Path, stored: bool, keep: str
) -> None:
    with open_study(path if stored else None, keep=keep) as study:
        study.optimize(train)
        before = content(study.session.checkpoints.folder)
        copy = study.copy()
        assert copy.best.checkpoint == study.best.checkpoint
        assert copy.quote().retraining == study.quote().retraining
        for what_if in (copy, copy.copy(), study.copy().copy()):
            what_if.deepen("efficient")
            what_if.optimize(train)
            if keep != "top:1":
                assert what_if.runs[1].trained == what_if.runs[1].cost_resumed
            assert what_if.best.checkpoint is not None
            what_if.close()
            assert content(study.session.checkpoints.folder) == before
        study.deepen("efficient")
        study.optimize(train)
        assert [each._replace(seconds=0) for each in study.evaluations] == [
            each._replace(seconds=0) for each in what_if.evaluations
        ]


@pytest.mark.parametrize("grown", [True, False])
def test_a_copy_that_is_saved_takes_the_checkpoints_along(path: Path, grown: bool) -> None:
    with open_study() as study:
        study.optimize(train)
        copy = study.copy()
        if grown:
            copy.deepen("efficient")
            copy.optimize(train)
        saved = {key_of(each) for each in copy.evaluations if each.checkpoint}
        copy.save_as(path)
    copy.close()
    with deepband.open_study(path) as again:
        assert {key_of(each) for each in again.evaluations if each.checkpoint} == saved
        again.deepen("efficient")
        assert again.quote().retraining == 0
        again.optimize(train)
        assert again.runs[-1].trained == again.runs[-1].cost_resumed


def test_a_copy_reads_nothing_that_the_original_saves_later(path: Path) -> None:
    with open_study(path) as study:
        study.optimize(train, max_cost=20)
        copy = study.copy()
        while job := copy.ask():
            copy.tell(job, job.config["x"])
        study.optimize(train)
        known = set(copy.session.inheritance.keys) if copy.session.inheritance else set()
        later = {key_of(each): each.checkpoint for each in copy.evaluations}
        theirs = {key_of(each) for each in study.evaluations if each.checkpoint}
        mine = {key for key, folder in later.items() if folder}
        assert mine < theirs <= known
        copy.deepen("efficient")
        copy.optimize(train)
        assert copy.runs[1].trained > copy.runs[1].cost_resumed


def test_a_copy_of_a_study_that_is_gone_trains_again(path: Path) -> None:
    with open_study() as study:
        study.optimize(train)
        copy = study.copy()
        assert copy.quote().retraining == 0
    assert copy.best.checkpoint is None
    assert "because checkpoints are missing" in str(copy.quote())
    copy.deepen("efficient")
    copy.optimize(train)
    assert copy.runs[1].trained > copy.runs[1].cost_resumed
