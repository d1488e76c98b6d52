"""Importing a user's objective by its name, and reading a search space from a JSON file."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import traceback
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from deepband.core.facts import Config
from deepband.errors import InputError, SpaceError, UnknownNameError
from deepband.execution.objective import Objective
from deepband.execution.precheck import check_precheck
from deepband.execution.runner import RunOptions
from deepband.interfaces.cli.output import command

SPACE_FILE = """a JSON file, such as {"lr": {"range": [0.0001, 0.1, "log"]}, "kind": ["a", "b"]}"""
SYNTAX = "write it as FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION."


def load_objective(text: str, batch: bool | int | None = None) -> tuple[Objective, ModuleType]:
    """The objective that `text` names, and its module, whose code is run. Raises if it cannot be
    called with a config or, with `batch`, with several."""
    objective, module = load_function(text, "objective")
    RunOptions(batch=batch).called(objective)
    return objective, module


def load_function(text: str, role: str) -> tuple[Any, ModuleType]:
    """The function that `text` names, and its module, whose code is run. Messages call it by its
    role."""
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise InputError(f"the {role} is {text!r}: {SYNTAX}")
    check_objective(text)
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    if not hasattr(module, name):
        names = [
            each
            for each, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        ]
        raise UnknownNameError(f"function in {place}", name, names)
    return getattr(module, name), module


def load_precheck(text: str) -> Any:
    """The precheck that `text` names. What it raises becomes an InputError."""
    function, _ = load_function(text, "precheck")
    check_precheck(function)

    @wraps(function)
    def check(config: Config, budget: float) -> object:
        try:
            return function(config, budget)
        except Exception as error:
            raise _with_place(f"the precheck {text} failed", error) from error

    return check


def remembered(text: str, study: Path) -> str:
    """An objective as a study stores it: the path of a file is relative to the study's folder, so
    that it is found from any other folder."""
    place, _, name = text.rpartition(":")
    if not place.endswith(".py"):
        return text
    file = Path(place).absolute()
    real = os.path.join(os.path.realpath(file.parent), file.name)
    return f"{os.path.relpath(real, _folder_of(study))}:{name}"


def recalled(named: str, study: Path) -> str:
    """A stored objective as `load_objective` takes it. The path of a file may also be relative to
    the current folder, as older versions stored it. Nothing is imported."""
    place, _, name = named.rpartition(":")
    if not place.endswith(".py"):
        _check_module(place, named, study)
        return named
    places = [os.path.normpath(os.path.join(_folder_of(study), place)), os.path.abspath(place)]
    for each in places:
        if os.path.isfile(each):
            inside = os.path.relpath(each)
            return f"{each if inside.startswith('..') or os.getcwd() == '/' else inside}:{name}"
    looked = " and no ".join(dict.fromkeys(places))
    raise InputError(
        f"the study names the objective {named}, but there is no {looked}. Say where it is now: "
        f"{_this_command(study, f'path/to/{Path(place).name}:{name}')}"
    )


def _check_module(module: str, named: str, study: Path) -> None:
    """Raise if the module of a stored objective cannot be found, in the study's folder either. Only
    the package that contains it is looked for: finding more would import that package."""
    sys.path[:0] = [str(Path.cwd()), _folder_of(study)]
    package = module.partition(".")[0]
    try:
        found = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    if module and not found:
        raise InputError(
            f"the study names the objective {named}, but there is no module {package}. Say where "
            f"it is now: {_this_command(study, 'PACKAGE.MODULE:FUNCTION')}"
        )


def _this_command(study: Path, objective: str) -> str:
    """The command that is running, with another objective."""
    return command(click.get_current_context().command.name or "run", study, objective)


def _folder_of(study: Path) -> str:
    return os.path.realpath(study.absolute().parent)


def load_space(path: Path) -> Any:
    """A space from a JSON file, in deepband's short form or as ConfigSpace writes it."""
    try:
        given = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpaceError(f"the space file {path} cannot be read: {error}.") from error
    if not isinstance(given, dict):
        raise SpaceError(f"the space file {path} must contain a JSON object of parameters.")
    if "hyperparameters" in given:
        from ConfigSpace import ConfigurationSpace

        try:
            return ConfigurationSpace.from_serialized_dict(given)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SpaceError(
                f"the space file {path} is not a valid ConfigSpace: {error}."
            ) from error
    return {name: _range_or_choices(name, value) for name, value in given.items()}


def _range_or_choices(name: str, value: Any) -> Any:
    """JSON has no tuples: {"range": [low, high]} or {"range": [low, high, "log"]} is one."""
    if isinstance(value, dict) and isinstance(value.get("range"), list):
        return tuple(value["range"])
    if isinstance(value, dict) or (isinstance(value, list) and value[2:] == ["log"]):
        raise SpaceError(
            f"in the space file, {name!r} is {json.dumps(value)}: write a range as "
            '{"range": [low, high]} or {"range": [low, high, "log"]}, and choices as a list.'
        )
    return value


def check_objective(text: str) -> None:
    """Raise if the file of an objective does not exist. Nothing is imported."""
    path = Path(text.rpartition(":")[0])
    if path.suffix == ".py" and not path.is_file():
        raise InputError(f"there is no file {path} (the current folder is {Path.cwd()}).")


def _load_file(path: Path) -> ModuleType:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.absolute()))  # as `python train.py` does
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _with_place(f"{path} cannot be imported", error) from error
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _with_place(f"{name} cannot be imported", error) from error


def _with_place(problem: str, error: BaseException) -> InputError:
    """An error in a user's code, with the line that raised it."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return InputError(
        f"{problem}: {type(error).__name__}: {error} ({frame.filename}, line {frame.lineno})"
    )
