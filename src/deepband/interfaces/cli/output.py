"""Text and JSON for a terminal. A user's strings are shown, never obeyed as control codes."""

from __future__ import annotations

import json
import math
import shlex
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from deepband.analysis.text import printable
from deepband.core.exact_numbers import as_number
from deepband.interfaces.cli.option_names import in_words_of_command


def say(text: object) -> None:
    """Print lines of text with control characters escaped."""
    for line in str(text).splitlines() or [""]:
        click.echo(printable(line))


def command(name: str, study: Path, *more: str) -> str:
    """A command of deepband for a study, to be typed in a shell."""
    return shlex.join(["deepband", name, str(study), *more])


@contextmanager
def show_warnings(kind: type[Warning]) -> Iterator[None]:
    """Print warnings of this block in one line each, without the place in the source code: all of
    this kind, and others unless they are filtered out."""

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"Warning: {printable(in_words_of_command(str(message)))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        warnings.showwarning = show_warning
        yield


def show(value: object, as_json: bool, text: object = None) -> None:
    """Print a value as JSON, or else `text`, by default its own."""
    if as_json:
        click.echo(json.dumps(_plain(value), indent=2, allow_nan=False, default=str))
    else:
        say(value if text is None else text)


def _plain(value: Any) -> Any:
    """A value that `json.dumps` can write; infinities and NaN become strings."""
    if isinstance(value, Fraction):
        return as_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
