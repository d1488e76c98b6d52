"""Changes of a search space while a study is extended: which ones are possible, and in words.

Configs that exist stay as they are, and new ones come from the new space. Ranges and choices may
grow or shrink. A parameter may be fixed to a value. A new parameter needs the value that existing
configs are taken to have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any

from deepband.core.facts import Config, SpaceChange
from deepband.core.state import State
from deepband.errors import InputError, SpaceError, shown
from deepband.space.choices import choices, position, unwrapped, wrapped
from deepband.space.search_space import Space


def read_change(
    state: State, new: Space, added: Mapping[str, Any] | None, reached: bool
) -> SpaceChange | None:
    """The change to a space that a user gave, or None if it is the current one. If the target of
    the extension is already reached, a space that the study has had is accepted, too."""
    had = [state.created.space, *(change.space for change in state.changes)]
    accepted = had if reached else had[-1:]
    if any(not Space.described(each).difference(new) for each in accepted):
        return None
    if reached:
        raise InputError(
            "the study has already been extended so far, with another space. To change the "
            "space, extend it further."
        )
    # All spaces so far, so that no parameter comes back with another type.
    values = _read_added(Space.described(combined(state)), new, added)
    return SpaceChange(new.description, values, tuple(map(len, state.configs)))


def _read_added(old: Space, new: Space, added: Mapping[str, Any] | None) -> Config:
    """The values of new parameters in existing configs, checked. Raises SpaceError if the old space
    cannot become the new one."""
    if added is not None and not isinstance(added, Mapping):
        raise SpaceError(f"added is {shown(added)}: give a dict of parameters and values.")
    given = dict(added or {})
    for name, parameter in old.configspace.items():
        if name not in new.configspace:
            raise SpaceError(
                f"the new space has no parameter {name!r}, which existing configs have. To stop "
                f"varying it, fix it to a value: {{{name!r}: value}}."
            )
        was, now = _kind(parameter), _kind(new.configspace[name])
        if was != now and not _is_fixed(parameter, new.configspace[name]):
            raise SpaceError(
                f"parameter {name!r} was {was} and is {now} in the new space, so existing values "
                "cannot be used there. Keep its type, or add the parameter under another name."
            )
    for name in given:
        if name in old.configspace or name not in new.configspace:
            raise SpaceError(
                f"added has {name!r}, which is not a new parameter: give the values of parameters "
                "that only the new space has."
            )
    return {
        name: _value(new, name, given) for name in new.configspace if name not in old.configspace
    }


def _kind(parameter: Any) -> str:
    """The type of a parameter's values, in words."""
    if hasattr(parameter, "value"):
        return f"the constant {shown(unwrapped(parameter.value))}"
    if choices(parameter):
        return "a list of choices"
    return "a range of integers" if isinstance(parameter.lower, int) else "a range of floats"


def _is_fixed(*parameters: Any) -> bool:
    """Whether one of two parameters is a constant that fits the other: anything fits choices and
    other constants, and a number of its type fits a range."""
    constants = [unwrapped(each.value) for each in parameters if hasattr(each, "value")]
    ranges = [each for each in parameters if not choices(each)]
    kinds = Integral if any(isinstance(each.lower, int) for each in ranges) else Real
    fits = all(isinstance(each, kinds) and not isinstance(each, bool) for each in constants)
    return bool(constants) and (fits or not ranges)


def _value(new: Space, name: str, given: Mapping[str, Any]) -> Any:
    if name not in given:
        raise SpaceError(
            f"parameter {name!r} is new: say which value existing configs are taken to have, with "
            f"added={{{name!r}: value}}."
        )
    if new.configspace.parent_conditions_of[name]:
        raise SpaceError(
            f"parameter {name!r} is new and depends on others, so existing configs may or may not "
            "have it. Add it without a condition."
        )
    try:
        value = new.value(name, given[name])
        legal = new.configspace[name].legal_value(wrapped(value))
    except (ValueError, TypeError):
        legal = False
    if not legal:
        raise SpaceError(
            f"added[{name!r}] is {shown(given[name])}, which the new space does not contain: "
            f"{new.configspace[name]}"
        )
    return value


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], added: Mapping[str, Any]
) -> Iterator[str]:
    """What changed between two descriptions of a space, parameter by parameter, in words."""
    before = {each["name"]: _shown(each) for each in old["hyperparameters"]}
    for parameter in new["hyperparameters"]:
        name, now = parameter["name"], _shown(parameter)
        if name not in before:
            yield f"{name} was added: {now}; {added[name]!r} in existing configs"
        elif before[name] != now:
            yield f"{name} was {before[name]}, is {now}"


def _shown(parameter: Mapping[str, Any]) -> str:
    """The values of a parameter in a description, in the notation of spaces."""
    for key in ("choices", "sequence"):
        if key in parameter:
            return shown(list(parameter[key]))
    if "value" in parameter:
        return shown(parameter["value"])
    scale = ", log" if parameter.get("log") else ""
    return f"({parameter['lower']:.6g}, {parameter['upper']:.6g}{scale})"


def combined(state: State) -> Mapping[str, Any]:
    """The description of a space that contains the configs of all spaces of a study."""
    if not state.changes:
        return state.created.space
    spaces = [state.created.space, *(change.space for change in state.changes)]
    known = [{each["name"]: each for each in space["hyperparameters"]} for space in spaces]
    forbidden = list(spaces[0]["forbiddens"])
    for space in spaces[1:]:
        forbidden = [clause for clause in forbidden if clause in space["forbiddens"]]
    return {
        **state.space,
        "forbiddens": forbidden,
        "hyperparameters": [
            _union([space[name] for space in known if name in space]) for name in known[-1]
        ],
    }


def _union(parameters: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A parameter with the values of all its descriptions."""
    ranges = [each for each in parameters if "lower" in each]
    constants = [each["value"] for each in parameters if "value" in each]
    if ranges:
        low = min([each["lower"] for each in ranges] + constants)
        high = max([each["upper"] for each in ranges] + constants)
        log = bool(ranges[-1].get("log")) and low > 0
        return {**ranges[-1], "lower": low, "upper": high, "log": log}
    values: list[Any] = []
    for each in parameters:
        for value in each.get("choices", each.get("sequence", [each.get("value")])):
            if not _contains(values, value):
                values.append(value)
    if len(values) == 1 == len({each["type"] for each in parameters}):
        return parameters[-1]
    name = parameters[-1]["name"]
    plain = {"default_value": values[0], "weights": None, "meta": None}
    return {"name": name, "type": "categorical", "choices": values, **plain}


def _contains(values: list[Any], value: Any) -> bool:
    try:
        position(values, value)
    except ValueError:
        return False
    return True
