"""Digests of values by their content: equal values have equal digests in every process.

The layout in memory does not matter (the order of an array's axes, the blocks and the index of a
data frame, the format of a sparse matrix), nor where a function was defined. A value whose content
cannot be read, such as a lock, counts by its type.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

SCALARS = frozenset((bool, int, float, complex, str, bytes, type(None)))
INSTALLED = ("site-packages", "dist-packages")
STANDARD = sysconfig.get_paths()["stdlib"]
FRAMES = ("pandas", "polars")
"""Libraries whose objects with columns are data frames."""


def type_name(value: object) -> str:
    """The name of a value's type."""
    return type(value).__qualname__


def digest(value: object, opaque: Callable[[object], str] = type_name) -> str:
    """The digest of a value. `opaque` returns the content of values that cannot be read."""
    return _Reader(opaque).read(value).hex()


class _Reader:
    """Computes the digest of one value, and of all that it contains."""

    def __init__(self, opaque: Callable[[object], str]) -> None:
        self._opaque = opaque
        self._open: set[int] = set()
        """The addresses of values being read: a value may contain itself."""

    def read(self, value: Any) -> bytes:
        if type(value) in SCALARS:
            return _joined(type_name(value), repr(value))
        if id(value) in self._open:
            return _joined("itself", type_name(value))
        self._open.add(id(value))
        try:
            return self._content(value)
        finally:
            self._open.discard(id(value))

    def _content(self, value: Any) -> bytes:
        for is_one, content in _KINDS:
            if is_one(value):
                return content(self, value)
        return self.object(value)

    # By kind

    def sequence(self, value: Any) -> bytes:
        if all(type(each) in SCALARS for each in value):  # at once, since a list may be long
            return _joined(type_name(value), "scalars", repr(value))
        return _joined(type_name(value), *map(self.read, value))

    def mapping(self, value: Any) -> bytes:
        pairs = [self.read(key) + self.read(inner) for key, inner in value.items()]
        return _joined(type_name(value), *sorted(pairs))

    def collection(self, value: Any) -> bytes:
        return _joined(type_name(value), *sorted(map(self.read, value)))

    def array(self, value: Any) -> bytes:
        import numpy as np

        if isinstance(value, np.generic):
            return self.read(value.item())
        if isinstance(value, np.ma.MaskedArray):
            mask = np.ma.getmaskarray(value)
            return _joined("masked", self.array(np.where(mask, 0, value.data)), self.array(mask))
        try:
            plain = np.asarray(value)
        except Exception:  # an array of another library that is not in memory, such as on a GPU
            return self.object(value)
        if plain.dtype.kind in "OSUT":  # the width of texts is part of the layout
            inside = self.read(plain.ravel().tolist())
            return _joined("array", plain.dtype.kind, repr(plain.shape), inside)
        # In the byte order of this machine, row by row.
        dtype = plain.dtype.newbyteorder("=")
        content = np.ascontiguousarray(plain, dtype).reshape(-1).view(np.uint8).data
        return _joined("array", str(dtype), repr(plain.shape), content)

    def sparse(self, value: Any) -> bytes:
        rows = value.tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        places = (each.astype("int64") for each in (rows.indptr, rows.indices))
        parts = map(self.array, (*places, rows.data))
        return _joined("sparse", repr(tuple(rows.shape)), *parts)

    def frame(self, value: Any) -> bytes:
        if not hasattr(value, "columns"):
            return _joined("column", self.read(value.name), self._column(value))
        if hasattr(value, "iloc"):  # by position, because names may repeat
            columns = [value.iloc[:, number] for number in range(value.shape[1])]
        else:
            columns = value.get_columns()
        return _joined("frame", self.read(list(value.columns)), *map(self._column, columns))

    def _column(self, column: Any) -> bytes:
        import numpy as np

        categories = getattr(column.dtype, "categories", None)
        listed = b"" if categories is None else self.read(list(categories))
        return _joined(str(column.dtype), listed, self.array(np.asarray(column)))

    def function(self, value: Any) -> bytes:
        if _is_installed(value):
            return _joined("function", value.__module__, value.__qualname__)
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        known = value.__globals__
        used = {name: known[name] for name in _names(value.__code__) if name in known}
        inner = (value.__code__, value.__defaults__, value.__kwdefaults__, cells, used)
        return _joined("function", *map(self.read, inner))

    def code(self, value: CodeType) -> bytes:
        shape = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
        names = (value.co_names, value.co_varnames, value.co_freevars)
        plain = repr((shape, value.co_flags, value.co_code, names))
        return _joined("code", plain, *map(self.read, value.co_consts))

    def method(self, value: Any) -> bytes:
        return _joined("method", self.read(value.__func__), self.read(value.__self__))

    def named(self, value: Any) -> bytes:
        """A value identified by its name. The module counts only if it is installed, because that
        of a script has another name when it is imported."""
        module = getattr(value, "__module__", None)
        place = module if module and _is_installed_module(module) else ""
        return _joined("named", place, getattr(value, "__qualname__", value.__name__))

    def estimator(self, value: Any) -> bytes:
        return _joined(self.read(type(value)), self.read(value.get_params(deep=False)))

    def object(self, value: Any) -> bytes:
        """Any other object, by the parts that pickle would store."""
        calls = (vars(kind).get("__call__") for kind in type(value).__mro__)
        call = self.read(next(filter(None, calls), None))
        try:
            parts = value.__reduce_ex__(4)
        except Exception:  # it cannot be pickled
            inside = getattr(value, "__dict__", None)
            held = self.read(inside) if inside else self._opaque(value)
            return _joined("object", self.read(type(value)), call, held)
        if isinstance(parts, str):
            return _joined("named", type_name(value), parts)
        make, given, state, listed, paired = [*parts, None, None, None][:5]
        inner = (make, given, state, listed and list(listed), paired and dict(paired))
        return _joined("object", call, *map(self.read, inner))


def _joined(*parts: str | bytes | memoryview) -> bytes:
    """The digest of parts, each with its length, so that moving bytes between parts changes it."""
    found = hashlib.sha256()
    for part in parts:
        plain = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(plain).to_bytes(8, "big"))
        found.update(plain)
    return found.digest()


def _library(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return True
    return not isinstance(value, type) and hasattr(value, "__array__") and hasattr(value, "shape")


def _is_frame(value: Any) -> bool:
    return _library(value) in FRAMES and hasattr(value, "shape") and not isinstance(value, type)


def _is_estimator(value: Any) -> bool:
    """Whether scikit-learn copies it by its parameters alone. Estimators with `__sklearn_clone__`,
    such as frozen ones, are copied with what they learned."""
    is_one = not isinstance(value, type) and hasattr(value, "get_params")
    return is_one and not hasattr(value, "__sklearn_clone__")


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[_Reader, Any], bytes]], ...] = (
    (lambda value: type(value) in (list, tuple), _Reader.sequence),
    (lambda value: isinstance(value, dict), _Reader.mapping),
    (lambda value: isinstance(value, set | frozenset), _Reader.collection),
    (_is_frame, _Reader.frame),
    (lambda value: hasattr(value, "tocsr") and hasattr(value, "nnz"), _Reader.sparse),
    (_is_array, _Reader.array),
    (lambda value: isinstance(value, FunctionType), _Reader.function),
    (lambda value: isinstance(value, CodeType), _Reader.code),
    (lambda value: isinstance(value, MethodType), _Reader.method),
    (lambda value: isinstance(value, type | BuiltinFunctionType | ModuleType), _Reader.named),
    (_is_estimator, _Reader.estimator),
)
"""The kinds of values and how to read them; the first that fits is used."""


def _is_installed(function: Any) -> bool:
    """Whether a function belongs to an installed package. It then counts by its name, so that an
    update of the package does not change the digest."""
    if not _is_installed_file(function.__code__.co_filename):
        return False
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _is_installed_module(name: str) -> bool:
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None)
    return module is not None and (path is None or _is_installed_file(path)) and name != "__main__"


def _is_installed_file(path: str) -> bool:
    return path.startswith((STANDARD, "<frozen")) or any(part in path for part in INSTALLED)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 # raises if the cell is empty
    except ValueError:  # a variable without a value
        return False
    return True


def _names(code: CodeType) -> Iterator[str]:
    """The global names that a function and its inner functions use."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
