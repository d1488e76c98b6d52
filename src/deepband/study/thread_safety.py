"""A study among threads: every method is carried out as a whole, one after another.

A study decides from its state and then changes it. Two threads that did so at once would hand out
the same job twice, so each call waits for its turn. `optimize`, which may take days, takes a turn
for each step instead, and whatever never changes takes none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from threading import RLock
from types import FunctionType
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


class MethodLock:
    """The lock of one object. A copy of the object, or one that was pickled, has its own."""

    def __init__(self) -> None:
        self.lock = RLock()

    def __reduce__(self) -> tuple[type[MethodLock], tuple[()]]:
        return MethodLock, ()


def synchronized(free: Collection[str]) -> Callable[[Class], Class]:
    """A class whose public methods and properties, except the free ones, hold the object's lock."""

    def changed(kind: Class) -> Class:
        for name, member in list(vars(kind).items()):
            if name.startswith("_") or name in free:
                continue
            if isinstance(member, FunctionType):
                setattr(kind, name, _alone(member))
            elif isinstance(member, property) and isinstance(member.fget, FunctionType):
                setattr(kind, name, property(_alone(member.fget)))
        return kind

    return changed


def _alone(method: FunctionType) -> Callable[..., Any]:
    @wraps(method)
    def alone(self: Any, *arguments: Any, **named: Any) -> Any:
        with self._method_lock.lock:
            return method(self, *arguments, **named)

    return alone
