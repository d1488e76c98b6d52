"""Serialization of objectives and configs for workers."""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import cloudpickle

from deepband.errors import InputError, shown
from deepband.execution.objective import Objective
from deepband.storage.storable_values import listed_values


def ship(objective: Objective) -> bytes:
    """An objective as bytes that a worker can load, or an InputError if that is not possible."""
    try:
        shipped = _packed(objective)
        pickle.loads(shipped)
    except Exception as error:
        raise InputError(
            f"the objective cannot be sent to worker processes: {type(error).__name__}: {error}. "
            "Open files, locks and connections inside the objective instead of referring to them."
        ) from error
    return shipped


def check_choices(space: Mapping[str, Any]) -> None:
    """Raise an InputError for a space description with a choice that cannot be sent to workers."""
    for name, value in listed_values(space):
        try:
            pickle.loads(_packed(value))
        except Exception as error:
            raise InputError(
                f"parameter {name!r} has the choice {shown(value)}, which cannot be sent to worker "
                f"processes: {type(error).__name__}: {error}. Use a name as the choice and create "
                "the object in the objective, or run without workers."
            ) from error


class CarriedConfig(dict[str, Any]):
    """A config with objects among its values. Functions and classes of the user's script are
    pickled by value, because workers do not import that script."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (_packed(dict(self)),)


def _unpacked(packed: bytes) -> CarriedConfig:
    return CarriedConfig(pickle.loads(packed))


def _packed(thing: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream).dump(thing)
    return stream.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle ships no types
    """Pickles functions of the user's script that `functools.cache` wraps by value, where
    cloudpickle alone would look them up in the script, which workers do not import. Modules with
    a type of their own, which it cannot pickle, are imported."""

    def reducer_override(self, given: Any) -> Any:
        if isinstance(given, functools._lru_cache_wrapper) and given.__module__ == "__main__":
            return _cached, (given.__wrapped__, given.cache_parameters())
        if isinstance(given, ModuleType) and _has_own_type(given):
            return import_module, (given.__name__,)
        return super().reducer_override(given)


def _has_own_type(module: ModuleType) -> bool:
    """Whether a module that can be imported has a type of its own, as torch.backends.cudnn does."""
    return type(module) is not ModuleType and sys.modules.get(module.__name__) is module


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)
