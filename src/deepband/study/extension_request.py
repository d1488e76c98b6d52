"""Extensions as users ask for them: checked, quoted, advised, and started as a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.core.exact_numbers import Budget, check_count
from deepband.core.extension import (
    Target,
    deeper,
    default_strategy,
    extended,
    options,
    read_target,
    wider,
)
from deepband.core.facts import SpaceChange
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, StrategyName, check_name
from deepband.errors import InputError, shown
from deepband.space.search_space import Space
from deepband.space.space_change import read_change
from deepband.storage.storable_values import check_storable
from deepband.study.session import Session

if TYPE_CHECKING:
    from deepband.analysis.advice import Advice
    from deepband.analysis.quote import Quote
    from deepband.study.session import SpaceSpec

Size: TypeAlias = tuple[Budget | None, int | None, int | None]
"""The max_budget, width and number of brackets that a user gave. None is what was not given."""


def start_extension(
    session: Session,
    action: str,
    strategy: StrategyName | None,
    size: Size,
    unfinished: bool,
    space: SpaceSpec | None,
    added: Mapping[str, Any] | None,
) -> None:
    """Start the run that `deepen`, `widen` or `extend` asks for, unless a run has had its size."""
    session.lock()
    target = _target(session.state, action, size)
    strategy = default_strategy(target) if strategy is None else strategy
    check_name(strategy)
    if not isinstance(unfinished, bool):
        raise InputError(f"unfinished is {shown(unfinished)}: give True or False.")
    schedule = extended(session.state, strategy, target)
    if strategy == FRUGAL and space is not None:
        raise InputError(
            "a frugal run samples nothing, so it cannot start with another space. Choose "
            "another strategy."
        )
    change = _space_change(session, space, added, schedule is None)
    if schedule is None:
        return
    if unfinished and (strategy == FRUGAL or change):
        action = "change the space" if change else "deepen frugally"
    if not unfinished or strategy == FRUGAL or change:
        session.check_done(action)
    session.start_run(strategy, schedule, change)


def _target(state: State, action: str, size: Size) -> Target:
    """Where an extension leads; `extend` has no default."""
    if size != (None, None, None) or action == "extend":
        return read_target(state, *size)
    return wider(state) if action == "widen" else deeper(state)


def _space_change(
    session: Session, given: SpaceSpec | None, added: Mapping[str, Any] | None, reached: bool
) -> SpaceChange | None:
    if given is None:
        if added is not None:
            raise InputError("added belongs to a new space: give space, too.")
        return None
    change = read_change(session.state, Space.of(given), added, reached)
    if change is not None and session.persistent:
        check_storable(change.space)
    return change


def quote_extension(session: Session, strategy: StrategyName | None, size: Size) -> Quote:
    """What an extension to this size costs, by default one level deeper."""
    target = _target(session.state, "deepen", size)
    strategy = default_strategy(target) if strategy is None else strategy
    check_name(strategy)
    schedule = extended(session.state, strategy, target)
    if strategy == FRUGAL:
        session.check_done("quote a frugal deepening")
    return session.quote(strategy, schedule)


def quote_options(session: Session) -> tuple[Quote, ...]:
    """What each way to continue after the finished run costs."""
    return tuple(session.quote(*option) for option in options(session.state))


def advise_extension(session: Session, workers: int) -> Advice:
    """Which way to continue is likely to pay most, with the quotes of all of them."""
    from deepband.analysis.advice import advise
    from deepband.analysis.learning_curves.stop_risk import remaining_risk

    session.check_done("give advice")
    workers = check_count("workers", workers)
    advised, risk = advise(session.state), remaining_risk(session.state)
    return replace(advised, quotes=quote_options(session), workers=workers, risk=risk)
