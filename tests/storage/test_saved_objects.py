"""Objects in checkpoints: saved and restored by the context, and loaded from a finished study."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import pickle
import random
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
from deepband import Context, InputError, StorageError
from deepband.storage import object_formats
from deepband.storage.checkpoints import INDEX, Checkpoints
from deepband.storage.object_formats import TAG
from deepband.storage.saved_index import read_index


class Model:
    """Weights that are saved as PyTorch's modules save theirs."""

    def __init__(self, size: int = 3) -> None:
        self.weights = np.zeros(size)
        self.steps = 0

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.weights.copy(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["weights"].shape != self.weights.shape:
            raise RuntimeError("the shapes differ")
        self.weights, self.steps = state["weights"], state["steps"]

    def train(self, rate: float) -> None:
        self.weights = self.weights + rate * (1 - self.weights)
        self.steps += 1

    @property
    def loss(self) -> float:
        return float(np.sum((1 - self.weights) ** 2))


def trained(steps: int, size: int = 3) -> Model:
    model = Model(size)
    for _ in range(steps):
        model.train(0.25)
    return model


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "saved").mkdir()
    return tmp_path / "saved"


@pytest.fixture
def context(folder: Path) -> Context:
    """Of a first attempt on a first rung."""
    return Context(seed=1, path=folder)


def above(folder: Path) -> Context:
    """Of the next rung, where the folder is the previous checkpoint."""
    path = folder.with_name("above")
    path.mkdir(exist_ok=True)
    return Context(seed=2, path=path, previous=folder, previous_budget=3, previous_rung=0)


def again(folder: Path, previous: Path | None = None) -> Context:
    """Of a second attempt, where the folder is what the interrupted one saved."""
    path = folder.with_name("again")
    path.mkdir(exist_ok=True)
    return Context(seed=1, path=path, partial=folder, previous=previous)


# Values

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.text()), inner)
        | st.dictionaries(st.sampled_from([f"{TAG}tuple", f"{TAG}array", "x"]), inner)
    ),
    max_leaves=12,
)


@given(value=plain)
def test_plain_values_are_loaded_as_they_were_saved(
    value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "value"
    file = object_formats.write(value, place)
    assert file.suffix == ".json"
    found = object_formats.read(file)
    assert found == value
    assert repr(found) == repr(value)  # True is not 1, and 0.0 not -0.0


@pytest.mark.parametrize(
    ("value", "suffix"),
    [
        (np.arange(6).reshape(2, 3), ".npy"),
        (np.array([1.5, math.nan]), ".npy"),
        (np.array([], dtype="float16"), ".npy"),
        (np.array(3), ".npy"),
        ({"w": np.eye(2), "b": [np.zeros(3), (1, 2)]}, ".npz"),
        ({f"{TAG}array": np.ones(2)}, ".npz"),
        (np.float64(0.1), ".npz"),
        ([np.int8(3), np.bool_(True)], ".npz"),
        (math.inf, ".json"),
        ({1: {2: (3,)}}, ".json"),
    ],
)
def test_arrays_are_loaded_as_they_were_saved(folder: Path, value: Any, suffix: str) -> None:
    file = object_formats.write(value, folder / "value")
    assert file.suffix == suffix
    found = object_formats.read(file)
    assert repr(found) == repr(value)
    assert type(found) is type(value)
    assert getattr(found, "dtype", None) == getattr(value, "dtype", None)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        b"bytes",
        np.array([None, "x"], dtype=object),
        Fraction(1, 3),
        Path("x"),
    ],
)
def test_what_only_a_pickle_can_hold_is_pickled(context: Context, value: Any) -> None:
    context.save(value=value)
    assert names(context.path) == [INDEX, "value.pickle"]
    found = deepband.load_checkpoint(context.path, unpickle=True)["value"]
    assert repr(found) == repr(value)


# Saving and restoring


def test_training_goes_on_where_it_was_saved(context: Context) -> None:
    first = trained(3)
    context.save(model=first, step=3, rates=np.array([0.25]), note="half")
    model = Model()
    state = above(context.path).restore(model=model, step=0)
    assert state["model"] is model
    assert state["step"] == 3
    assert state["note"] == "half"
    assert np.array_equal(state["rates"], [0.25])
    assert model.steps == 3
    assert np.array_equal(model.weights, first.weights)


def test_nothing_to_restore_gives_what_was_passed(context: Context) -> None:
    model = Model()
    assert context.restore(model=model, step=0) == {"model": model, "step": 0}
    assert context.restore() == {}
    assert context.restore(model=model).get("step", 0) == 0


def test_files_have_the_names_of_the_objects(context: Context) -> None:
    context.save(model=trained(1), step=1, mean=np.zeros(2))
    assert names(context.path) == ["mean.npy", "model.npz", INDEX, "step.json"]
    assert json.loads((context.path / "step.json").read_text()) == 1
    assert np.array_equal(np.load(context.path / "mean.npy"), [0, 0])


def test_a_later_save_replaces_an_earlier_one(context: Context) -> None:
    context.save(model=trained(1), step=1, note="dropped")
    context.save(model=trained(2), step=2)
    assert len(names(context.path)) == 3
    assert above(context.path).restore(model=Model())["step"] == 2
    context.save(model=trained(3), step=np.int64(3))
    assert names(context.path) == ["model.npz", INDEX, "step.npz"]
    assert above(context.path).restore(model=(model := Model()))["step"] == 3
    assert model.steps == 3
    read = read_index(context.path)
    assert read is not None
    assert read.step == 3


def test_a_save_that_fails_changes_nothing(context: Context) -> None:
    context.save(model=trained(1), step=1)
    before = {name: (context.path / name).read_bytes() for name in names(context.path)}
    with pytest.raises(InputError, match="'lock' cannot be saved, because lock cannot be pickled"):
        context.save(model=trained(2), step=2, lock=pickle_proof())
    assert {name: (context.path / name).read_bytes() for name in names(context.path)} == before


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """Let no file become larger than this many bytes, as on a disk that is full by then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


VALUES = {
    "json": "x" * 50_000,
    "npy": np.zeros(50_000),
    "npz": [np.zeros(50_000)],
    "pickle": b"x" * 50_000,
}


@pytest.mark.parametrize("suffix", VALUES)
def test_a_full_disk_is_said_and_nothing_is_left(context: Context, suffix: str) -> None:
    context.save(value=1)
    with small_files(20_000), pytest.raises(OSError, match="File too large") as caught:
        context.save(value=VALUES[suffix])
    assert caught.value.errno == errno.EFBIG  # by its number, the loop knows faults of the machine
    assert names(context.path) == [INDEX, "value.json"]
    context.save(value=VALUES[suffix])
    assert names(context.path) == [INDEX, f"value-2.{suffix}"]


def pickle_proof() -> Any:
    import threading

    return threading.Lock()


def test_an_interrupted_attempt_continues_if_a_step_says_how_far_it_was(context: Context) -> None:
    context.report(1, 0.5)
    context.report(2, 0.25)
    context.save(model=trained(2), step=2)
    context.report(3, 0.125)  # after the save: reported again
    second = again(context.path)
    model = Model()
    assert second.restore(model=model, step=0)["step"] == 2
    assert model.steps == 2
    second.report(3, 0.125)
    assert second.reported == [(1, 0.5), (2, 0.25), (3, 0.125)]


def test_an_interrupted_attempt_without_a_step_is_left_alone(
    context: Context, tmp_path: Path
) -> None:
    """Its loop would train again what is already in the model."""
    context.save(model=trained(2), epoch=2)
    assert again(context.path).restore(model=Model(), epoch=0)["epoch"] == 0
    (below := tmp_path / "below").mkdir()
    Context(seed=0, path=below).save(model=trained(1), epoch=1)
    assert again(context.path, below).restore(model=(model := Model()))["epoch"] == 1
    assert model.steps == 1


@pytest.mark.parametrize(("partial", "below", "wanted"), [(2, 1, 2), (1, 1, 1), (1, 2, 2)])
def test_the_attempt_that_is_further_is_continued(
    context: Context, tmp_path: Path, partial: int, below: int, wanted: int
) -> None:
    context.save(model=trained(partial), step=partial)
    (folder := tmp_path / "below").mkdir()
    Context(seed=0, path=folder).save(model=trained(below), step=below)
    model = Model()
    assert again(context.path, folder).restore(model=model, step=0)["step"] == wanted
    assert model.steps == wanted


@pytest.mark.parametrize("file", ["model.npz", "step.json", INDEX])
def test_a_damaged_interrupted_attempt_is_left_alone(
    context: Context, file: str, tmp_path: Path
) -> None:
    context.save(model=trained(2), step=2)
    (context.path / file).write_bytes(b"\0" * 10)  # as after a power failure
    assert again(context.path).restore(model=Model(), step=0)["step"] == 0


def test_a_process_that_is_killed_while_it_saves_leaves_its_last_save(context: Context) -> None:
    moment = random.Random(5)
    steps = []
    for _ in range(8):
        child = os.fork()
        if child == 0:
            save_forever(context)
        try:
            while not (context.path / INDEX).exists():
                time.sleep(0.001)
            time.sleep(moment.uniform(0, 0.02))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        model = Model(5000)
        state = again(context.path).restore(model=model, copy=Model(5000), step=0)
        assert model.steps == state["copy"].steps == state["step"] > 0
        assert np.all(model.weights == state["copy"].weights)
        steps.append(state["step"])
        shutil.rmtree(context.path)
        context.path.mkdir()
    assert max(steps) > 1


def save_forever(context: Context) -> None:
    model = Model(5000)
    while True:
        model.train(0.01)
        context.save(model=model, copy=model, step=model.steps)


# A whole study


def train(config: dict[str, Any], budget: int, context: Context) -> float:
    model = Model()
    state = context.restore(model=model, step=0)
    for step in range(state["step"], budget):
        model.train(config["rate"])
        context.report(step + 1, model.loss)
        context.save(model=model, step=step + 1)
    return model.loss


@pytest.mark.parametrize("workers", [1, 2])
def test_the_best_model_of_a_study_is_loaded(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "a.study"
    with deepband.open_study(path, space={"rate": (0.01, 0.9)}, max_budget=9) as study:
        study.optimize(train, workers=workers)
        assert [run.trained for run in study.runs] == [run.cost_resumed for run in study.runs]
    best, model = deepband.open_study(path).best, Model()
    values = deepband.load_checkpoint(best.checkpoint, model=model)
    assert values == {"model": model, "step": best.budget}
    assert model.loss == best.loss


def test_an_interrupted_evaluation_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    begun: list[int] = []

    def interrupted(config: dict[str, Any], budget: int, context: Context) -> float:
        model = Model()
        state = context.restore(model=model, step=0)
        begun.append(state["step"])
        for step in range(state["step"], budget):
            model.train(config["rate"])
            context.report(step + 1, model.loss)
            context.save(model=model, step=step + 1)
            if len(begun) in (1, 2) and step == begun[0] + 2 * len(begun):
                raise KeyboardInterrupt
        return model.loss

    settings: dict[str, Any] = {"space": {"rate": (0.01, 0.9)}, "max_budget": 9, "brackets": 1}
    settings |= {"min_budget": 9}
    path = tmp_path / "a.study"
    for _ in range(2):
        with deepband.open_study(path, **settings) as study, pytest.raises(KeyboardInterrupt):
            study.optimize(interrupted)
    with deepband.open_study(path, **settings) as study:
        study.optimize(interrupted)
        assert begun == [0, 3, 5]
        other = deepband.open_study(**settings)
        other.optimize(train)
        (one,), (two,) = study.evaluations, other.evaluations
        assert one._replace(seconds=None) == two._replace(seconds=None)
        assert len(one.curve) == 9


def test_an_attempt_killed_in_its_first_save_does_not_replace_an_earlier_one(
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path / "files" / "checkpoints" / "a")
    first, _ = checkpoints.begin((0, 0, 0))
    Context(seed=0, path=first).save(model=trained(3), step=3)
    second, partial = checkpoints.begin((0, 0, 0))
    (second / "model.npz").write_bytes(b"half")
    third, partial = checkpoints.begin((0, 0, 0))
    context = Context(seed=0, path=third, partial=partial)
    assert context.restore(model=(model := Model()), step=0)["step"] == model.steps == 3
    context.save(model=trained(4), step=4)
    _, partial = checkpoints.begin((0, 0, 0))
    assert partial is not None
    assert deepband.load_checkpoint(partial)["step"] == 4
    assert len(names(checkpoints.attempts)) == 2


def test_an_estimator_is_loaded_only_on_request(context: Context) -> None:
    from sklearn.neural_network import MLPClassifier

    inputs, labels = np.eye(4), [0, 1, 0, 1]
    model = MLPClassifier((3,), random_state=0).partial_fit(inputs, labels, classes=[0, 1])
    context.save(model=model, step=1)
    refused = r"'model' in .* pass unpickle=True"
    with pytest.raises(InputError, match=refused):
        above(context.path).restore(model=model)
    with pytest.raises(InputError, match=refused):
        deepband.load_checkpoint(context.path)
    with pytest.raises(InputError, match=refused):
        deepband.load_checkpoint(context.path, model=model, unpickle=False)
    found = above(context.path).restore(model=None, unpickle=True)["model"]
    assert np.array_equal(found.predict_proba(inputs), model.predict_proba(inputs))
    assert deepband.load_checkpoint(context.path, unpickle=False) == {"step": 1}


class Trap:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("sprung",)


def test_no_code_runs_before_it_is_asked_for(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(context.path.parent)
    context.save(trap=Trap(), step=1)
    for index in ("trap.pickle", "trap.npy", "trap.npz", "trap.json"):
        row = json.loads((context.path / INDEX).read_text())
        row["objects"]["trap"][0] = index
        (context.path / index).write_bytes((context.path / "trap.pickle").read_bytes())
        (context.path / INDEX).write_text(json.dumps(row))
        for unpickle in (None, False):
            with pytest.raises(Exception):  # noqa: B017, PT011 # each format has its own
                deepband.load_checkpoint(context.path, unpickle=unpickle, trap=None)
    assert not Path("sprung").exists()


# What is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "there is nothing to save"),
        ({"a/b": 1}, "cannot be saved as 'a/b'"),
        ({"../up": 1}, "its name becomes that of a file"),
        ({"": 1}, "cannot be saved as ''"),
        ({"x.y": 1}, "cannot be saved as 'x.y'"),
        ({"n" * 101: 1}, "at most 100"),
        ({"unpickle": 1}, "none of 'saved', 'unpickle'"),
        ({"model": 1, "Model": 2}, "differ only in case"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    context: Context, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        context.save(**given)
    assert names(context.path) == []


def test_what_does_not_fit_is_refused(context: Context) -> None:
    context.save(model=trained(1), optimizer=trained(1), step=1)
    above_it = above(context.path)
    with pytest.raises(InputError, match=r"does not have 'modell': it has 'model', 'optimizer'"):
        above_it.restore(modell=Model(), optimizer=Model())
    with pytest.raises(InputError, match=r"also has the state of 'optimizer'.* pass every object"):
        above_it.restore(model=Model())
    with pytest.raises(InputError, match=r"'model' was saved as a state dict: give an object"):
        above_it.restore(model=3, optimizer=Model())
    with pytest.raises(InputError, match=r"'model' was saved as a state dict"):
        above_it.restore(model=Model, optimizer=Model())
    with pytest.raises(InputError, match=r"'step' was not saved as a state dict.* a Model"):
        above_it.restore(model=Model(), optimizer=Model(), step=Model())
    with pytest.raises(RuntimeError, match="the shapes differ"):
        above_it.restore(model=Model(4), optimizer=Model())
    assert deepband.load_checkpoint(context.path, model=(model := Model()))["step"] == 1
    assert model.steps == 1


def test_a_folder_that_was_not_saved_by_us_is_refused(context: Context) -> None:
    (context.path / "state.json").write_text("{}")
    with pytest.raises(InputError, match=r"nothing that context.save saved"):
        above(context.path).restore(model=Model())
    with pytest.raises(InputError, match=r"nothing that context.save saved"):
        deepband.load_checkpoint(context.path)
    with pytest.raises(InputError, match="there is no checkpoint to load: the path is None"):
        deepband.load_checkpoint(None, model=Model())


def test_a_damaged_file_is_not_loaded(context: Context) -> None:
    context.save(model=trained(1), step=1)
    model = Model()
    (context.path / "step.json").write_text("7")
    with pytest.raises(StorageError, match=r"step.json: is damaged"):
        deepband.load_checkpoint(context.path, model=model)
    assert model.steps == 0
    for text in ("{", "[]", '{"objects": {"../x": ["../x.json", false, 1, ""]}}', "1" * 10):
        (context.path / INDEX).write_text(text)
        with pytest.raises(StorageError, match=r"saved.json: is damaged"):
            deepband.load_checkpoint(context.path, model=model)


def test_files_outside_are_not_read(context: Context, tmp_path: Path) -> None:
    context.save(step=1)
    (tmp_path / "secret.json").write_text("1")
    (context.path / "step.json").unlink()
    (context.path / "step.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(StorageError, match="is damaged"):
        deepband.load_checkpoint(context.path)
    row = json.loads((context.path / INDEX).read_text())
    row["objects"]["step"][0] = "../secret.json"
    (context.path / INDEX).write_text(json.dumps(row))
    with pytest.raises(StorageError, match="is damaged"):
        deepband.load_checkpoint(context.path)


def test_unpickled_objects_equal_those_that_were_saved(context: Context) -> None:
    """A class that a worker received by value cannot be pickled by name."""

    class Local:
        value = 3

    with pytest.raises(Exception):  # noqa: B017, PT011
        pickle.dumps(Local())
    context.save(local=Local())
    assert deepband.load_checkpoint(context.path, unpickle=True)["local"].value == 3


# PyTorch


@pytest.mark.heavy
def test_a_part_of_a_tensor_is_saved_without_the_rest(context: Context) -> None:
    """One config of a batch. Tensors that share all of their memory still do so afterwards."""
    import torch

    stacked = torch.arange(1e6).reshape(100, 10_000).requires_grad_()
    whole = torch.ones(3)
    context.save(part=[stacked[7], {"bias": torch.nn.Parameter(whole[1:])}], tied=(whole, whole))
    assert sum(file.stat().st_size for file in context.path.iterdir()) < 60_000
    found = deepband.load_checkpoint(context.path)
    part, others = found["part"]
    assert torch.equal(part, stacked[7])
    assert part.requires_grad
    assert type(others["bias"]) is torch.nn.Parameter
    first, second = found["tied"]
    assert first.data_ptr() == second.data_ptr()


@pytest.mark.heavy
def test_tensors_that_share_memory_and_state_dicts_are_saved_as_they_are(context: Context) -> None:
    import torch

    flat = torch.arange(6.0)
    state = torch.nn.BatchNorm1d(2).state_dict()
    context.save(shared={"flat": flat, "first": flat[:3]}, parts=[flat[:3], flat[3:]], state=state)
    found = deepband.load_checkpoint(context.path)
    found["shared"]["flat"][0] = 7.0
    assert found["shared"]["first"][0] == 7.0
    assert found["parts"][0].untyped_storage().nbytes() == 24
    assert found["state"]._metadata == state._metadata


@pytest.mark.heavy
def test_everything_of_pytorch_is_saved_without_a_pickle_that_runs_code(context: Context) -> None:
    import torch

    def parts() -> dict[str, Any]:
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        schedulers = torch.optim.lr_scheduler
        return {
            "model": model,
            "optimizer": optimizer,
            "unused": torch.optim.Adam(model.parameters()),
            "warmup": schedulers.LambdaLR(optimizer, lambda step: 1 / (step + 1)),
            "plateau": schedulers.ReduceLROnPlateau(optimizer),
            "stateless": torch.nn.ReLU(),
            "scaler": torch.amp.GradScaler("cpu"),
        }

    def step(model: Any, optimizer: Any, warmup: Any, plateau: Any, **others: Any) -> None:
        loss = model(torch.randn(8, 3)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        plateau.step(loss.item())

    torch.manual_seed(0)
    first = parts()
    step(**first)
    context.save(**first, rng=torch.get_rng_state(), step=1)
    assert not [name for name in names(context.path) if name.endswith(".pickle")]
    assert {"model.pt", "optimizer.pt", "rng.pt"} <= set(names(context.path))
    step(**first)
    second = parts()
    state = above(context.path).restore(**second)
    torch.set_rng_state(state["rng"])
    step(**second)
    for name in first:
        one, two = (repr(each[name].state_dict()) for each in (first, second))
        assert one == two, name


@pytest.mark.heavy
def test_pytorch_says_that_a_disk_is_full(context: Context) -> None:
    import torch

    with small_files(20_000), pytest.raises(OSError, match="File too large") as caught:
        context.save(model=torch.nn.Linear(100, 100))
    assert caught.value.errno == errno.EFBIG
    assert names(context.path) == []


@pytest.mark.heavy
def test_a_pickle_behind_the_name_of_tensors_runs_no_code(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(context.path.parent)
    torch.save({"tensor": torch.ones(1), "trap": Trap()}, context.path / "model.pt")
    content = (context.path / "model.pt").read_bytes()
    context.save(model=torch.ones(1))
    (context.path / "model.pt").write_bytes(content)
    row = json.loads((context.path / INDEX).read_text())
    row["objects"]["model"][2:] = [len(content), hashlib.blake2b(content).hexdigest()]
    (context.path / INDEX).write_text(json.dumps(row))
    with pytest.raises(StorageError, match="is damaged") as caught:
        deepband.load_checkpoint(context.path, unpickle=True)
    assert "Weights only" in str(caught.value.__cause__)
    assert not Path("sprung").exists()


@pytest.mark.heavy
def test_a_model_of_pytorch_that_does_not_fit_is_refused(context: Context) -> None:
    import torch

    context.save(model=torch.nn.Linear(3, 2))
    with pytest.raises(RuntimeError, match="size mismatch"):
        deepband.load_checkpoint(context.path, model=torch.nn.Linear(2, 2))


@pytest.mark.parametrize("kind", ["link", "pipe", "nothing"])
def test_an_index_cannot_vouch_for_what_is_no_file(tmp_path: Path, kind: str) -> None:
    """A link would show a file elsewhere, and reading a pipe would block."""
    (tmp_path / "secret.json").write_text('"hunter2"')
    (folder := tmp_path / "checkpoint").mkdir()
    if kind == "link":
        (folder / "model.json").symlink_to(tmp_path / "secret.json")
    elif kind == "pipe":
        os.mkfifo(folder / "model.json")
    entry = ["model.json", False, -1, ""]
    row = json.dumps({"objects": {"model": entry}, "step": None, "curve": []})
    (folder / INDEX).write_text(row)
    with pytest.raises(StorageError, match="is damaged"):
        deepband.load_checkpoint(folder)


MALFORMED = {
    "a.json": b"\xff",
    "b.json": b"[" * 200_000,
    "c.json": b'{"deepband:array": 1}',
    "d.npy": b"not an array",
    "e.npz": b"not an archive",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_files_that_cannot_be_read_are_damaged(tmp_path: Path, name: str) -> None:
    content = MALFORMED[name]
    (tmp_path / name).write_bytes(content)
    digest = hashlib.blake2b(content).hexdigest()
    entry = {Path(name).stem: [name, False, len(content), digest]}
    (tmp_path / INDEX).write_text(json.dumps({"objects": entry, "step": None, "curve": []}))
    with pytest.raises(StorageError, match="is damaged"):
        deepband.load_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["saved", "SAVED", "unpickle", "ü" * 60])
def test_names_that_files_cannot_have(context: Context, name: str) -> None:
    with pytest.raises(InputError, match="an object cannot be saved as"):
        context.save(**{name: 1})


def test_a_step_beyond_the_floats_is_a_value_like_others(context: Context) -> None:
    context.save(step=10**400)
    assert deepband.load_checkpoint(context.path)["step"] == 10**400
