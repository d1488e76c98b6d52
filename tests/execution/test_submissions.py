"""The files of submissions to Slurm, and what squeue prints, without a Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
from deepband import DeepbandError, InputError, StorageError
from deepband.execution.executors.slurm_parameters import read_parameters
from deepband.execution.slurm_queue import QueuedJob, _parsed
from deepband.execution.submissions import SUBMISSIONS, Submissions, SubmittedCall

TOKEN = "0123456789abcdef"


def calls_of(count: int) -> list[SubmittedCall]:
    return [SubmittedCall((TOKEN, n), [(0, n, 0), (1, n, 2)], f"t{n}") for n in range(count)]


@given(count=st.integers(1, 20), data=st.data())
def test_calls_that_have_not_ended_are_found(
    count: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    submissions, calls = Submissions(tmp_path_factory.mktemp("a")), calls_of(count)
    submissions.write(calls, b"objective")
    ended = data.draw(st.sets(st.sampled_from(range(count))))
    for number in ended:
        submissions.end(calls[number].place)
    left = [call for call in calls if call.place[1] not in ended]
    assert sorted(submissions.calls()) == left
    assert [call for call in calls if submissions.is_open(call.place)] == left
    assert submissions.path(TOKEN).exists() is bool(left)


BAD_KEYS: list[object] = [[], [[0, -1, 0]], [[0, 0]], [[0, 0, "0"]], 1]
CONTENTS = ["", "[", "{}", "[]", "[" * 100_000]
CONTENTS += [json.dumps({"keys": keys, "token": "a"}) for keys in BAD_KEYS]


@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_files_that_are_not_ours_are_ignored(content: str, tmp_path: Path) -> None:
    folder = tmp_path / SUBMISSIONS / TOKEN
    folder.mkdir(parents=True)
    (folder / "0.json").write_text(content)
    assert Submissions(tmp_path).calls() == []


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / SUBMISSIONS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="It lists the jobs in Slurm's queue"):
        Submissions(tmp_path).calls()


def test_what_squeue_prints() -> None:
    text = (
        f"12|0|RUNNING|None|deepband-{TOKEN}\n12|1|PENDING|Resources|a|b-{TOKEN}\n"
        "13|N/A|PENDING|None|deepband\n14|N/A|COMPLETED|None|deepband-fedcba9876543210\n"
    )
    assert _parsed(text) == {
        (TOKEN, 0): QueuedJob("12_0", "RUNNING", "None"),
        (TOKEN, 1): QueuedJob("12_1", "PENDING", "Resources"),
        ("fedcba9876543210", 0): QueuedJob("14", "COMPLETED", "None"),
    }


def test_parameters_have_defaults_and_prefixes() -> None:
    found = read_parameters({"slurm_partition": "gpu", "time": 1, "gres": "gpu:1"}, 7)
    assert (found.name, found.requeues, found.gpu) == ("deepband", 3, True)
    assert found.options["slurm_partition"] == "gpu"
    assert found.options["timeout_min"] == 1
    assert found.options["slurm_signal_delay_s"] == 12
    assert found.options["slurm_array_parallelism"] == 7
    with pytest.raises(InputError, match=r"timeout_min is None"):
        read_parameters(None, 7)


def test_jobs_in_a_queue_that_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run stops before it evaluates these jobs itself; with wait=False it does."""
    monkeypatch.setenv("PATH", str(tmp_path))
    place = tmp_path / "a.study"
    with deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=3) as study:
        job = study.ask()
        assert job is not None
        study.release(job)
        folder = tmp_path / "a.study.files" / SUBMISSIONS / TOKEN
        folder.mkdir(parents=True)
        (folder / "0.json").write_text(json.dumps({"keys": [job.key], "token": "t"}))
        with pytest.raises(DeepbandError, match="there is no squeue here"):
            study.optimize(lambda config, budget: config["x"])
        assert job.key not in {each[:3] for each in study.evaluations}
        study.optimize(lambda config, budget: config["x"], wait=False)
        assert study.done
