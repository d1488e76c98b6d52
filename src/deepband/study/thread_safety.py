"""Thread safety of studies: calls from several threads are executed one after another.

A method decides from the state of the study and then changes it. Two threads doing so at the same
time would get the same job, so each call holds a lock. `optimize`, which may take days, takes the
lock for each step instead. Attributes that never change need no lock.
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
        if unknown := set(free).difference(dir(kind)):
            raise TypeError(f"{kind.__name__} has no {sorted(unknown)}: a method was renamed")
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
