"""Spaces in, plain configs out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import ConfigSpace as CS
import numpy as np
import pytest
from sklearn.linear_model import Ridge

import deepband
from deepband import SpaceError
from deepband.analysis import chart_data
from deepband.samplers import SamplerName
from deepband.space.choices import position
from deepband.space.search_space import Space
from spaces import conditional_space, draw


def test_the_short_spelling() -> None:
    choice = object()
    space = Space(
        {
            "lr": (1e-4, 1e-1, "log"),
            "dropout": (0, 0.5),
            "layers": (1, 8),
            "units": (16, 1024, "log"),
            "activation": ["relu", None, 3, (1, 2), choice],
            "epochs": 10,
            "momentum": CS.Float("momentum", (0.0, 1.0)),
        }
    )
    configs = draw(space)
    assert all(1e-4 <= c["lr"] <= 1e-1 and type(c["lr"]) is float for c in configs)
    assert np.median([c["lr"] for c in configs]) < 0.01
    assert all(0 <= c["dropout"] <= 0.5 and type(c["dropout"]) is float for c in configs)
    assert {c["layers"] for c in configs} == set(range(1, 9))
    assert all(type(c["layers"]) is int and type(c["units"]) is int for c in configs)
    assert np.median([c["units"] for c in configs]) < 300
    assert {c["activation"] for c in configs} == {"relu", None, 3, (1, 2), choice}
    assert {c["epochs"] for c in configs} == {10}


def test_mixed_choices_keep_their_types() -> None:
    values = {(type(c["x"]), c["x"]) for c in draw(Space({"x": [1, 0.5, "1", True and "t"]}))}
    assert values == {(int, 1), (float, 0.5), (str, "1"), (str, "t")}


def test_configspace_agrees_with_every_config() -> None:
    given = conditional_space()
    configs = draw(Space(given), 500)
    for config in configs:
        CS.Configuration(given, values=config)
    assert {frozenset(config) for config in configs} >= {
        frozenset({"kind", "rate", "size", "version"}),
        frozenset({"kind", "rate", "size", "version", "depth"}),
        frozenset({"kind", "rate", "size", "version", "layers"}),
        frozenset({"kind", "rate", "size", "version", "layers", "units", "dropout"}),
    }
    assert all(c["size"] != "small" for c in configs if c["kind"] == "net")
    share = sum(c["kind"] == "net" for c in configs) / len(configs)
    assert 0.4 < share < 0.6  # weighted 0.6, less a third that is forbidden


def test_values_are_plain_python() -> None:
    kinds = {
        type(value) for config in draw(Space(conditional_space())) for value in config.values()
    }
    assert kinds == {int, float, str}


def test_a_space_can_be_described_and_made_again() -> None:
    for given in (conditional_space(), {"x": (0.1, 1.0, "log"), "y": ["a", "b"]}):
        space = Space(given)
        again = Space.described(space.description)
        assert again.configspace == space.configspace
        assert draw(again) == draw(space)


def test_a_user_s_space_is_not_changed() -> None:
    given = conditional_space()
    same = CS.ConfigurationSpace.from_serialized_dict(given.to_serialized_dict())
    for space in (given, same):
        space.seed(0)
    draw(Space(given))
    assert given == same
    assert given.sample_configuration(10) == same.sample_configuration(10)


def test_a_space_is_not_changed_by_its_user() -> None:
    given = CS.ConfigurationSpace({"x": (0.0, 1.0), "y": ["a", "b"]})
    space = Space(given)
    before = draw(space)
    given.add(CS.Float("added", (0.0, 1.0)))
    assert draw(space) == before


def test_a_choice_is_the_user_s_own_object() -> None:
    choice = object()
    given = CS.ConfigurationSpace()
    given.add(CS.Categorical("x", [choice, 1]))
    assert any(config["x"] is choice for config in draw(Space(given)))


ODD: list[Any] = [
    (50,),
    (100, 50),
    {"depth": 3},
    {"depth": 4},
    [1, 2],
    np.arange(3.0),
    np.arange(4.0),
    Ridge(alpha=1.0),
    Ridge(alpha=2.0),
    len,
    lambda config: config,
    "passthrough",
    None,
    0.5,
]
"""Choices that cannot be hashed, compare by their address, or compare to an array."""


def test_choices_of_any_type_are_compared_by_content() -> None:
    space = Space({"x": ODD, "constant": Ridge()})
    same = Space({"x": deepcopy(ODD), "constant": Ridge()})
    assert space.difference(same) is None
    assert Space.described(space.description).difference(same) is None
    other = Space({"x": [*ODD[:-1], Ridge(alpha=3.0)], "constant": Ridge()})
    assert "parameter 'x' was" in (space.difference(other) or "")
    assert "parameter 'constant' was" in (space.difference(Space({"x": ODD, "constant": 1})) or "")


def test_a_config_has_the_choices_themselves() -> None:
    space = Space({"x": ODD})
    drawn = draw(space)
    for choice in ODD:
        assert any(config["x"] is choice for config in drawn)
        assert space.config({"x": deepcopy(choice)})["x"] is choice
    with pytest.raises(SpaceError, match=r"x is \(50, 50\): choose from"):
        space.config({"x": (50, 50)})


@pytest.mark.parametrize("sampler", ["uniform", "tpe", "forest", "gp", "prior"])
def test_samplers_take_choices_of_any_type(sampler: SamplerName) -> None:
    study = deepband.open_study(space={"x": ODD, "y": (0.0, 1.0)}, max_budget=27, sampler=sampler)
    while job := study.ask():
        study.tell(job, job.config["y"])
    drawn = {position(ODD, each.config["x"]) for each in study.evaluations}
    assert drawn <= set(range(len(ODD)))
    axis = chart_data.axes(study.session.state)[0]
    assert [axis.position(choice) for choice in ODD] == [
        (place + 0.5) / len(ODD) for place in range(len(ODD))
    ]


def test_equal_choices_are_refused_as_equal_numbers_are() -> None:
    for choices in ([1, 1], [Ridge(), Ridge()], [np.arange(2), np.arange(2)]):
        with pytest.raises(SpaceError, match="only a single occurence"):
            Space({"x": choices})


def test_the_size_of_a_space() -> None:
    assert Space({"x": [1, 2, 3], "y": (1, 5)}).size == 15
    assert Space({"x": (0.0, 1.0)}).size == float("inf")


@pytest.mark.parametrize(
    "spelled",
    [
        (1,),
        (1, 2, 3),
        (1, 2, "lin"),
        (1, 2, "log", "log"),
        ("a", "b"),
        (True, False),
        (2, 1),
        (1, 1),
        (0, 1, "log"),
        (-1.0, 1.0, "log"),
        (0.0, float("nan")),
        (0, 2**63),
        (0.5, 10**400),
        (-1e308, 1e308),
        (0.0, float("inf")),
        [],
        [1, 1],
        [1e-4, 0.1, "log"],
        {"low": 1},
        {1, 2},
        range(3),
        CS.Float("other", (0.0, 1.0)),
    ],
)
def test_a_bad_parameter_is_refused_by_name(spelled: Any) -> None:
    with pytest.raises(SpaceError, match="parameter 'momentum'"):
        Space({"momentum": spelled})


@pytest.mark.parametrize("given", [None, [], "space", 3, {}, {3: (0, 1)}, {"": (0, 1)}])
def test_what_is_no_space_is_refused(given: Any) -> None:
    with pytest.raises(SpaceError):
        Space(given)


def test_a_space_that_forbids_nearly_everything_is_an_error_and_not_a_hang() -> None:
    given = CS.ConfigurationSpace({"x": (0, 10**6), "y": (0, 10**6)})
    given.add(
        CS.ForbiddenLessThanRelation(given["x"], given["y"]),
        CS.ForbiddenGreaterThanRelation(given["x"], given["y"]),
    )
    with pytest.raises(SpaceError, match=r"of 64000 configs .* forbidden clauses allow"):
        draw(Space(given), 64)


def test_arrays_and_numbers_of_numpy_are_choices() -> None:
    grid = np.logspace(-5, -1, 5)
    for spelled in (grid, list(grid)):
        (choices,) = (
            each["choices"] for each in Space({"a": spelled}).description["hyperparameters"]
        )
        assert list(choices) == grid.tolist()
        assert all(type(each) is float for each in choices)


def test_a_description_can_be_read_again_and_again() -> None:
    space = Space({"x": (0.0, 1.0), "kind": ["a", "b"]})
    for _ in range(3):
        assert Space.described(space.description).difference(space) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 3}, "there is no parameter 'layer'. Did you mean 'layers'?"),
        ({"zzz": 3}, "there is no parameter 'zzz'. It has 'kind', 'layers', 'lr', 'momentum'."),
        ({"layers": None}, "'layers' is missing."),
        ({"lr": 0.5}, "lr is 0.5: the range is 0.0001 to 0.1."),
        ({"lr": float("nan")}, "lr is nan: the range is 0.0001 to 0.1."),
        ({"lr": "much"}, "lr is 'much': the range is 0.0001 to 0.1."),
        ({"layers": 99}, "layers is 99: the range is 1 to 8, in whole numbers."),
        ({"layers": 2.5}, "layers is 2.5: the range is 1 to 8, in whole numbers."),
        ({"layers": True}, "layers is True: the range is 1 to 8, in whole numbers."),
        ({"kind": "c"}, "kind is 'c': choose from 'a', 'b'."),
        ({"kind": "b"}, "'momentum' is not active with the other values"),
        ({"kind": "b", "layers": 1, "momentum": None}, "the space forbids this combination"),
    ],
)
def test_what_is_wrong_with_a_config_is_said_in_words(change: dict[str, Any], message: str) -> None:
    space = CS.ConfigurationSpace()
    kind, layers = CS.Categorical("kind", ["a", "b"]), CS.Integer("layers", (1, 8))
    momentum = CS.Float("momentum", (0.0, 1.0))
    space.add([kind, layers, CS.Float("lr", (1e-4, 1e-1), log=True), momentum])
    space.add(CS.EqualsCondition(momentum, kind, "a"))
    clauses = CS.ForbiddenEqualsClause(kind, "b"), CS.ForbiddenEqualsClause(layers, 1)
    space.add(CS.ForbiddenAndConjunction(*clauses))
    study = deepband.open_study(space=space, max_budget=3)
    given = {"kind": "a", "layers": 2, "lr": 0.01, "momentum": 0.5, **change}
    with pytest.raises(SpaceError) as raised:
        study.enqueue({name: value for name, value in given.items() if value is not None})
    assert f" is not a config of the space: {message}" in str(raised.value)


def test_a_config_is_a_dict() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3)
    with pytest.raises(SpaceError, match="give a dict with a value for each parameter"):
        study.enqueue([("x", 0.5)])  # type: ignore[arg-type]
