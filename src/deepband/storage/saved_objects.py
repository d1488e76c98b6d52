"""Objects that `Context.save` writes to a checkpoint, and what loads them again.

    FOLDER/NAME.SUFFIX, NAME-2.SUFFIX   the objects (see `object_formats`)
    FOLDER/saved.json                   their index (see `saved_index`)

A second save never writes to a file that the index names, and replaces the index last. So a process
that is killed while it saves leaves what it had saved before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepband.errors import InputError, StorageError, shown
from deepband.storage.object_formats import PICKLE, read, write
from deepband.storage.saved_index import (
    SavedIndex,
    SavedObject,
    damaged,
    fingerprint,
    read_index,
    write_index,
)

UNPICKLE = "unpickle"
RESERVED = frozenset({UNPICKLE, "saved"})
"""Names that an object cannot have: an argument of ours, and the name of the index."""
MOST_NAME = 100
"""How many bytes a name may have."""


def save(folder: Path, objects: Mapping[str, Any], curve: Iterable[tuple[float, float]]) -> None:
    """Write objects to a folder, in place of those that were saved there before."""
    _check_names(objects)
    before = read_index(folder)
    old = {each.file for each in before.objects.values()} if before else set()
    written: dict[str, SavedObject] = {}
    try:
        for name, value in objects.items():
            written[name] = _write(folder, name, value, old)
        write_index(folder, written, objects.get("step"), list(curve))
    except BaseException:
        _remove(folder, (each.file for each in written.values()))
        raise
    _remove(folder, old)


def load(
    saved: SavedIndex, objects: Mapping[str, Any], unpickle: bool | None, complete: bool
) -> dict[str, Any]:
    """Load what was saved: state dicts into the objects of the same names, other values into the
    result. With `complete`, no state dict may be left out."""
    _check_given(saved, objects)
    if complete:
        _check_complete(saved, objects)
    wanted = {name: each for name, each in saved.objects.items() if name in objects}
    wanted |= {name: each for name, each in saved.objects.items() if not each.is_state}
    if not unpickle:
        pickled = [name for name, each in wanted.items() if each.file.endswith(PICKLE)]
        refused = [name for name in pickled if unpickle is None or name in objects]
        if refused:
            raise _pickle_error(saved.folder, refused)
        wanted = {name: each for name, each in wanted.items() if name not in pickled}
    saved.check(wanted)
    values = {name: _read(saved.folder / each.file) for name, each in wanted.items()}
    for name in objects:
        if name in values and saved.objects[name].is_state:
            objects[name].load_state_dict(values.pop(name))
    return {**objects, **values}


def load_checkpoint(
    path: str | os.PathLike[str] | None, /, *, unpickle: bool | None = None, **objects: Any
) -> dict[str, Any]:
    """Load what `Context.save` saved, for example the best model of a study.

    `path` is the folder of the checkpoint, such as `study.best.checkpoint`. The state of a model,
    an optimizer or anything else with `load_state_dict` is loaded into the object that you pass
    under the name it was saved with; those that you leave out are not loaded. Returns a dict of
    these objects and of all other saved values.

    Objects without a `state_dict`, such as estimators of scikit-learn, are saved as pickles, and
    loading a pickle runs code that it contains. `unpickle=True` loads them, for studies that you
    trust; `unpickle=False` leaves them out; by default they raise an InputError.

    >>> def train(config, budget, context):
    ...     state = context.restore(weight=1.0, step=0)
    ...     for step in range(state["step"], budget):
    ...         state["weight"] *= config["x"]
    ...     context.save(weight=state["weight"], step=budget)
    ...     return state["weight"]
    >>> study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    >>> study.optimize(train)
    >>> best = deepband.load_checkpoint(study.best.checkpoint)
    >>> best["step"], best["weight"] == study.best.loss
    (9, True)
    """
    if path is None:
        raise InputError(
            "there is no checkpoint to load: the path is None. The objective saved nothing, or its "
            "checkpoint was not kept. `deepband best STUDY --path` says why."
        )
    saved = read_index(Path(path))
    if saved is None:
        raise _no_index(Path(path))
    return load(saved, objects, unpickle, complete=False)


def restorable(previous: Path | None, partial: Path | None) -> SavedIndex | None:
    """What training continues from: the interrupted attempt at the same job, if it is further than
    the checkpoint of the rung below, otherwise that checkpoint.

    How far they are is known only if a number was saved as `step`. Without one, a training loop
    cannot know that it continues an interrupted attempt."""
    below = read_index(previous) if previous else None
    if previous is not None and below is None:
        raise _no_index(previous)
    with suppress(StorageError):
        interrupted = read_index(partial) if partial else None
        if interrupted is not None and _is_further(interrupted, below) and interrupted.is_intact:
            return interrupted
    return below


def _is_further(one: SavedIndex, other: SavedIndex | None) -> bool:
    if one.step is None:
        return False
    return other is None or other.step is None or one.step > other.step


def _write(folder: Path, name: str, value: Any, taken: set[str]) -> SavedObject:
    is_state = _has_state(value)
    stem = f"{name}-2" if any(file.rpartition(".")[0] == name for file in taken) else name
    try:
        file = write(value.state_dict() if is_state else value, folder / stem)
    except OSError:
        raise
    except Exception as error:
        raise InputError(
            f"{name!r} cannot be saved, because {type(value).__name__} cannot be pickled "
            f"({error}). Save its parts, or write a file to context.path yourself."
        ) from error
    found = fingerprint(file)
    if found is None:
        raise damaged(file)
    return SavedObject(file.name, is_state, *found)


def _has_state(value: object) -> bool:
    if isinstance(value, type):
        return False
    return callable(getattr(value, "state_dict", None)) and _takes_state(value)


def _takes_state(value: object) -> bool:
    return not isinstance(value, type) and callable(getattr(value, "load_state_dict", None))


def _read(file: Path) -> Any:
    try:
        return read(file)
    except ImportError as error:
        raise InputError(f"{file} cannot be loaded here: {error}.") from error
    except Exception as error:
        if file.suffix == PICKLE:
            raise  # from the code of its classes
        raise damaged(file) from error


def _remove(folder: Path, files: Iterable[str]) -> None:
    for file in files:
        with suppress(OSError):
            (folder / file).unlink(missing_ok=True)


def _check_names(objects: Mapping[str, Any]) -> None:
    if not objects:
        raise InputError("there is nothing to save: name it, as in context.save(model=model).")
    for name in objects:
        too_long = len(name.encode()) > MOST_NAME
        if not name.isidentifier() or too_long or name.casefold() in RESERVED:
            raise InputError(
                f"an object cannot be saved as {shown(name)}: its name becomes that of a file. "
                f"Choose letters, digits and underscores, at most {MOST_NAME}, and none of "
                f"{_listed(sorted(RESERVED))}."
            )
    if len({name.casefold() for name in objects}) < len(objects):
        raise InputError(
            f"{_listed(objects)} have names that differ only in case, and on some file systems "
            "they would be the same file: rename one."
        )


def _check_given(saved: SavedIndex, objects: Mapping[str, Any]) -> None:
    """Check that every given object was saved, and in the same way."""
    missing = objects.keys() - saved.objects
    if missing:
        raise InputError(
            f"the checkpoint in {saved.folder} does not have {_listed(sorted(missing))}: it has "
            f"{_listed(saved.objects)}."
        )
    for name, given in objects.items():
        if saved.objects[name].is_state and not _takes_state(given):
            raise InputError(
                f"{name!r} was saved as a state dict: give an object with load_state_dict, not "
                f"{shown(given)}."
            )
        if not saved.objects[name].is_state and _has_state(given):
            raise InputError(
                f"{name!r} was not saved as a state dict, so it cannot be loaded into a "
                f"{type(given).__name__}: leave it out, and take it from what this returns."
            )


def _check_complete(saved: SavedIndex, objects: Mapping[str, Any]) -> None:
    left_out = [n for n, each in saved.objects.items() if each.is_state and n not in objects]
    if left_out:
        raise InputError(
            f"the checkpoint in {saved.folder} also has the state of {_listed(left_out)}, and "
            "training would not continue in the same way without it: pass every object. To load "
            "only a part, use deepband.load_checkpoint(context.previous, ...)."
        )


def _pickle_error(folder: Path, names: list[str]) -> InputError:
    return InputError(
        f"{_listed(names)} in {folder} can only be loaded as a pickle, which can run code that the "
        "file contains. If you trust its author, pass unpickle=True; to leave it out, pass "
        "unpickle=False."
    )


def _no_index(folder: Path) -> InputError:
    return InputError(
        f"{folder} contains nothing that context.save saved. Save with context.save(model=model), "
        "or read the files that your objective wrote there itself."
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
