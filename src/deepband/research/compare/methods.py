"""All methods of the comparison, by name.

A name that ends with -3 or -9 is that of a method whose first guess of max_budget is too small by
that factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from deepband.research.compare import peers
from deepband.research.compare.deciding import RULES
from deepband.research.compare.ledger import ETA, Ledger, SpentError
from deepband.research.compare.ours import Ours, frugally, not_at_all, while_told
from deepband.samplers import SAMPLERS

Method: TypeAlias = Callable[[Ledger, int], None]

GUESSES = {0: "", 1: f"-{ETA}", 2: f"-{ETA**2}"}
"""By how many powers of eta a first guess is too small, and how that is written."""
BASE = "uniform"
"""The one that all are compared with."""
SAMPLED = tuple(SAMPLERS)
PEERS = ("random", "optuna-random", "optuna-tpe", "smac")
ONCE = "once"
ENDING = (*(f"{ONCE}{ending}" for ending in GUESSES.values()), *RULES)
"""Those that end before the budget is spent."""
RIGHT = (*SAMPLED, *PEERS)
"""Those that know the right max_budget."""
SMALL = tuple(
    f"{name}{ending}" for ending in GUESSES.values() if ending for name in (*SAMPLED, "frugal")
)
"""Those whose first guess is too small, and who go deeper until it is right."""


def _ours() -> Iterator[tuple[str, Method]]:
    for levels, ending in GUESSES.items():
        for sampler in SAMPLED:
            yield f"{sampler}{ending}", Ours(sampler, levels)
    for levels, ending in GUESSES.items():
        if levels:
            yield f"frugal{ending}", Ours(levels=levels, deepen=frugally)
    for levels, ending in GUESSES.items():
        yield f"{ONCE}{ending}", Ours(levels=levels, deepen=not_at_all, again=False)
    for name, rule in RULES.items():
        yield name, Ours(levels=max(GUESSES), deepen=while_told(rule), again=False)


OURS: dict[str, Method] = dict(_ours())
METHODS = (*OURS, *PEERS)


def method(name: str, smac_python: Path = peers.SMAC_PYTHON) -> Method:
    """A method by its name."""
    others: dict[str, Method] = {
        "random": peers.random_search,
        "optuna-random": peers.optuna_random,
        "optuna-tpe": peers.optuna_tpe,
        "smac": peers.smac(smac_python.absolute()),
    }
    return (OURS | others)[name]


def is_installed(name: str, smac_python: Path) -> bool:
    """Whether what a method needs is there."""
    if name == "smac":
        return smac_python.exists()
    base, *_ = name.split("-")
    needed = {"optuna": "optuna", "tpe": "optuna", "forest": "sklearn"}.get(base, "numpy")
    return find_spec(needed) is not None


def play(name: str, ledger: Ledger, seed: int, smac_python: Path = peers.SMAC_PYTHON) -> None:
    """Let a method search until its budget is spent, or until it ends by itself."""
    try:
        method(name, smac_python)(ledger, seed)
    except SpentError:
        return
