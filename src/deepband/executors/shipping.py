"""An objective as bytes that a worker elsewhere can load."""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle

from deepband.errors import InputError
from deepband.objective import Objective


def ship(objective: Objective) -> bytes:
    """An objective as bytes that a worker can load; told here if it cannot travel."""
    shipped = io.BytesIO()
    try:
        _Pickler(shipped).dump(objective)
        pickle.loads(shipped.getvalue())
    except Exception as error:
        raise InputError(
            f"the objective cannot travel to worker processes: {type(error).__name__}: {error}. "
            "Let it hold no open files, locks or connections; open them inside."
        ) from error
    return shipped.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc] # cloudpickle ships no types
    """Takes along functions of the user's script that `functools.cache` wraps, which cloudpickle
    would look for in the script: workers do not load that."""

    def reducer_override(self, given: Any) -> Any:
        if isinstance(given, functools._lru_cache_wrapper) and given.__module__ == "__main__":
            return _cached, (given.__wrapped__, given.cache_parameters())
        return super().reducer_override(given)


def _cached(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    """Cached anew, and empty."""
    return functools.lru_cache(**parameters)(function)
