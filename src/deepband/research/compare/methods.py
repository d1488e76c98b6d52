"""All methods of the comparison, by name.

A suffix of -3 or -9 means that the first guess of max_budget is too small by that factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, get_args

from deepband.research.compare import peers
from deepband.research.compare.extension_rules import RULES, always_wider
from deepband.research.compare.ledger import ETA, Ledger, SpentError
from deepband.research.compare.own_methods import (
    OwnMethod,
    deepen_frugally,
    do_not_deepen,
)
from deepband.research.compare.peer_process import HOSTED, PEERS_PYTHON, hosted, installed_tuners
from deepband.samplers import SamplerName

Method: TypeAlias = Callable[[Ledger, int], None]

GUESSES = {0: "", 1: f"-{ETA}", 2: f"-{ETA**2}"}
"""By how many powers of eta a first guess is too small: the suffix of the name."""
_PACKAGES = {
    "optuna": "optuna",
    "tpe": "optuna",
    "forest": "sklearn",
}
"""What methods need, by the first word of their name."""
BASE = "uniform"
"""The method that all others are compared with."""
BEST = "gp"
"""The best of our samplers on the tuning data sets, which is tested against all other methods."""
SAMPLED: tuple[SamplerName, ...] = get_args(SamplerName)
PEERS = ("random", "optuna-random", "optuna-tpe", *HOSTED)
SLOW = ("smac", "bohb")
SLOW_SEEDS = 3
"""The most seeds of a slow method: SMAC's runs together take hours."""
ONCE = "once"
ENDING = (*(f"{ONCE}{ending}" for ending in GUESSES.values()), *RULES)
"""Methods that stop before the budget is spent."""
RIGHT = (*SAMPLED, *PEERS)
"""Methods that start at the right max_budget."""
SMALL = tuple(
    f"{name}{ending}"
    for ending in GUESSES.values()
    if ending
    for name in (*SAMPLED, "frugal", "wider")
)
"""Methods whose first guess is too small. `wider` stays there, the others deepen up to the right
max_budget."""


def _ours() -> Iterator[tuple[str, Method]]:
    for levels, ending in GUESSES.items():
        for sampler in SAMPLED:
            yield f"{sampler}{ending}", OwnMethod(sampler, levels)
    for levels, ending in GUESSES.items():
        if levels:
            yield f"frugal{ending}", OwnMethod(levels=levels, deepen=deepen_frugally)
            yield f"wider{ending}", OwnMethod(levels=levels, rule=always_wider)
    for levels, ending in GUESSES.items():
        yield f"{ONCE}{ending}", OwnMethod(levels=levels, deepen=do_not_deepen, widens=False)
    for name, rule in RULES.items():
        yield name, OwnMethod(levels=max(GUESSES), rule=rule)


OURS: dict[str, Method] = dict(_ours())
METHODS = (*OURS, *PEERS)


def method(name: str, peers_python: Path = PEERS_PYTHON) -> Method:
    """Return a method by its name."""
    others: dict[str, Method] = {
        "random": peers.random_search,
        "optuna-random": peers.optuna_random,
        "optuna-tpe": peers.optuna_tpe,
        **{name: hosted(name, peers_python.absolute()) for name in HOSTED},
    }
    return (OURS | others)[name]


def is_installed(name: str, peers_python: Path) -> bool:
    """Return whether the packages that a method needs are installed."""
    if name in HOSTED:
        return name in installed_tuners(peers_python.absolute())
    package = _PACKAGES.get(name.partition("-")[0])
    return package is None or find_spec(package) is not None


def is_quick(name: str) -> bool:
    """Return whether a method needs nothing but deepband and takes less than a second per run."""
    return name.partition("-")[0] not in {*_PACKAGES, *HOSTED, "gp"}


def play(name: str, ledger: Ledger, seed: int, peers_python: Path = PEERS_PYTHON) -> None:
    """Run a method until its budget is spent, or until it stops by itself."""
    try:
        method(name, peers_python)(ledger, seed)
    except SpentError:
        return
