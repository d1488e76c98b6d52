"""The files that hold saved objects, one per object; the suffix says the format.

| suffix | holds | loading it runs code |
|---|---|---|
| .json | numbers, texts, None, and lists, tuples and dicts of them | no |
| .npy | one NumPy array | no |
| .npz | the same as .json, with NumPy arrays among them | no |
| .pt | the same as .json, with PyTorch tensors among them | no (`weights_only=True`) |
| .pickle | any other object | yes |
"""

from __future__ import annotations

import json
import pickle
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

PICKLE = ".pickle"
TAG = "deepband:"
"""Prefix of the key of a JSON object that stands for a value that JSON does not have."""
PLAIN = frozenset({type(None), bool, int, float, str})


class ForeignValueError(Exception):
    """A value that only a pickle, or PyTorch, can hold."""


def write(value: object, place: Path) -> Path:
    """Write an object to `place` with the suffix of its format, and return that file. If it cannot
    be written, for example on a full disk, nothing is left of it."""
    suffix, put = _format(value)
    file = place.with_suffix(suffix)
    try:
        with file.open("wb") as stream:
            put(stream)
    except BaseException:
        with suppress(OSError):
            file.unlink(missing_ok=True)
        raise
    return file


def _format(value: object) -> tuple[str, Callable[[BinaryIO], object]]:
    """The suffix of the format of a value, and what writes the value to a file. That gets an open
    file: PyTorch and NumPy do not say that a disk is full if they write to a path."""
    arrays: list[Any] = []
    try:
        tree = _tagged(value, arrays)
    except ForeignValueError:
        torch = sys.modules.get("torch")
        if torch and _is_for_torch(value, torch):
            return ".pt", lambda stream: _write_tensors(value, stream, torch)
        data = _pickled(value)
        return PICKLE, lambda stream: stream.write(data)
    if not arrays:
        text = json.dumps(tree)
        return ".json", lambda stream: stream.write(text.encode())
    if tree == _array(0):
        return ".npy", lambda stream: _write_array(arrays[0], stream)
    return ".npz", lambda stream: _write_arrays(tree, arrays, stream)


def read(file: Path) -> Any:
    """The object in a file. Runs code from the file only if its suffix is .pickle."""
    return READERS[file.suffix](file)


def _write_tensors(value: object, stream: BinaryIO, torch: Any) -> None:
    try:
        torch.save(_compact(value, torch), stream)
    except RuntimeError as error:  # raised when PyTorch closes what it could not write
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _compact(value: Any, torch: Any) -> Any:
    """The value with copies of tensors that are parts of larger ones, such as one config of a
    batch: PyTorch would save the larger ones. Tensors that share memory which is saved completely
    still share it."""
    used = Counter[int]()
    for tensor in _tensors(value, torch):
        used[tensor.untyped_storage().data_ptr()] += tensor.numel() * tensor.element_size()
    return _with_copies(value, torch, used)


def _tensors(value: Any, torch: Any) -> Iterator[Any]:
    kind = type(value)
    if kind in (dict, OrderedDict, list, tuple):
        for inner in value.values() if hasattr(value, "values") else value:
            yield from _tensors(inner, torch)
    elif kind in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided:
        yield value


def _with_copies(value: Any, torch: Any, used: Mapping[int, int]) -> Any:
    """The value with copies of tensors of whose memory only so many bytes are used."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        copied = copy(value)  # with the attributes of a state dict
        copied.update((key, _with_copies(inner, torch, used)) for key, inner in value.items())
        return copied
    if kind in (list, tuple):
        return kind(_with_copies(inner, torch, used) for inner in value)
    for tensor in _tensors(value, torch):
        storage = tensor.untyped_storage()
        if storage.nbytes() > used[storage.data_ptr()]:
            part = tensor.detach().clone()
            if kind is torch.Tensor:
                return part.requires_grad_(tensor.requires_grad)
            return kind(part, tensor.requires_grad)
    return value


def _write_array(array: Any, stream: BinaryIO) -> None:
    import numpy as np

    # Without a descriptor, NumPy leaves writing, and its errors, to the stream.
    np.save(SimpleNamespace(write=stream.write), array, allow_pickle=False)


def _write_arrays(tree: Any, arrays: list[Any], stream: BinaryIO) -> None:
    """As `numpy.savez` does, whose older versions leave the archive open if the disk is full."""
    from zipfile import ZipFile

    import numpy as np

    named = {f"a{number}": array for number, array in enumerate(arrays)}
    with ZipFile(stream, "w") as archive:
        for name, array in {"tree": np.array(json.dumps(tree)), **named}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def _read_json(file: Path) -> Any:
    return _untagged(json.loads(file.read_text()), {})


def _read_npy(file: Path) -> Any:
    import numpy as np

    found = np.load(file, allow_pickle=False)
    if not isinstance(found, np.ndarray):  # an archive with another suffix
        raise TypeError(f"{file} does not hold one array")
    return found


def _read_npz(file: Path) -> Any:
    import numpy as np

    with np.load(file, allow_pickle=False) as found:
        return _untagged(json.loads(str(found["tree"])), found)


def _read_torch(file: Path) -> Any:
    import torch

    # On the CPU, because the device that it was saved from may not exist here. A model or
    # optimizer moves what it loads to its own device.
    return torch.load(file, map_location="cpu", weights_only=True)


def _read_pickle(file: Path) -> Any:
    return pickle.loads(file.read_bytes())


READERS: dict[str, Callable[[Path], Any]] = {
    ".json": _read_json,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_torch,
    PICKLE: _read_pickle,
}


def _tagged(value: Any, arrays: list[Any]) -> Any:
    """The value as JSON can hold it; NumPy arrays and scalars are appended to `arrays`. Types are
    compared exactly: what is loaded has the type that was saved."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [_tagged(inner, arrays) for inner in value]
    if kind is tuple:
        return {f"{TAG}tuple": [_tagged(inner, arrays) for inner in value]}
    if kind is dict:
        pairs = [(_tagged(key, arrays), _tagged(inner, arrays)) for key, inner in value.items()]
        if all(type(key) is str and not key.startswith(TAG) for key in value):
            return dict(pairs)
        return {f"{TAG}dict": pairs}
    numpy: Any = sys.modules.get("numpy")
    is_array = numpy is not None and kind is numpy.ndarray
    is_scalar = numpy is not None and isinstance(value, numpy.generic)
    if not (is_array or is_scalar) or value.dtype.hasobject:
        raise ForeignValueError(kind)
    arrays.append(value)
    return _array(len(arrays) - 1, "array" if is_array else "scalar")


def _array(number: int, kind: str = "array") -> dict[str, int]:
    return {f"{TAG}{kind}": number}


def _untagged(tree: Any, arrays: Any) -> Any:
    """The value that `_tagged` was given."""
    if type(tree) is list:
        return [_untagged(inner, arrays) for inner in tree]
    if type(tree) is not dict:
        return tree
    ((key, held), *others) = tree.items() or [("", None)]
    if others or not key.startswith(TAG):
        return {name: _untagged(inner, arrays) for name, inner in tree.items()}
    if key == f"{TAG}tuple":
        return tuple(_untagged(held, arrays))
    if key == f"{TAG}dict":
        return dict(map(tuple, _untagged(held, arrays)))
    array = arrays[f"a{held}"]
    return array[()] if key == f"{TAG}scalar" else array


def _is_for_torch(value: Any, torch: Any) -> bool:
    """Whether `torch.load` can read a value without running code."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        pairs = value.items()
        return all(_is_for_torch(key, torch) and _is_for_torch(held, torch) for key, held in pairs)
    if kind in (list, tuple):
        return all(_is_for_torch(inner, torch) for inner in value)
    tensors = (torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device)
    return kind in PLAIN or kind in tensors


def _pickled(value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception:  # a class of the user's script, which a worker received by value
        import cloudpickle

        data: bytes = cloudpickle.dumps(value)
        return data
