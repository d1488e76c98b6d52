"""Encoding of the results of attempts as the content of a file, one per line, and decoding.

A file may come from an untrusted source, so every field is validated: a value of the wrong type
would otherwise fail later, during a commit or in the dashboard.
"""

from __future__ import annotations

import math
from typing import Any

from deepband.core.facts import Loss, Outcome
from deepband.core.records import Attempt, Job
from deepband.storage.tagged_json import from_text, to_text

MOST_BYTES = 32 * 2**20
"""The size of the largest file that is accepted."""
DEEPEST = 50
"""How deep the metrics of a result may be nested."""


def encode(attempt: Attempt) -> bytes:
    """A result as JSON. Losses and steps are strings, because JSON does not have infinity."""
    job, outcome, saved, environment = attempt
    row = {"job": list(job), **outcome._asdict(), "saved": saved, "environment": environment}
    loss = outcome.loss
    row["loss"] = None if loss is None else repr(loss)
    if isinstance(loss, tuple):
        row["loss"] = list(map(repr, loss))
    row["curve"] = [[repr(step), repr(loss)] for step, loss in outcome.curve or ()]
    try:
        return to_text(row).encode()
    except (TypeError, ValueError):
        # The config contains objects. Only a study in memory has those, and it knows the config.
        return to_text({**row, "job": [*row["job"][:4], {}, *row["job"][5:]]}).encode()


def decode(content: bytes) -> list[Attempt]:
    """The results that `encode` wrote; none if any field of any is invalid."""
    try:
        return [_attempt(**from_text(line)) for line in content.decode().splitlines()]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return []


def _attempt(job: Any, saved: Any = None, environment: Any = False, **outcome: Any) -> Attempt:
    read = _job(*job)
    reported = _outcome(read.rung, **outcome)
    _check(isinstance(environment, bool))
    return Attempt(read, reported, None if saved is None else _text(saved), environment)


def _outcome(
    rung: int,
    loss: Any,
    error: Any,
    metrics: Any,
    seconds: Any,
    resumed_from: Any,
    curve: Any,
    stopped_after: Any = None,
) -> Outcome:
    _check((loss is None) != (error is None))
    if stopped_after is not None:
        _check(_is_number(stopped_after) and stopped_after > 0 and loss == "inf")
    if resumed_from is not None:
        _check(_is_index(resumed_from) and resumed_from < rung)
    if seconds is not None:
        _check(_is_number(seconds) and seconds >= 0)
    if metrics is not None:
        _check(isinstance(metrics, dict) and _is_plain(metrics))
    _check(isinstance(curve, list))
    return Outcome(
        None if loss is None else _loss(loss),
        None if error is None else _text(error),
        metrics,
        None if seconds is None else float(seconds),
        resumed_from,
        tuple((float(step), float(value)) for step, value in curve) or None,
        None if stopped_after is None else float(stopped_after),
    )


def _job(
    bracket: Any, index: Any, rung: Any, budget: Any, config: Any, study: Any, token: Any = ""
) -> Job:
    _check(all(map(_is_index, (bracket, index, rung))))
    _check(_is_number(budget) and isinstance(config, dict))
    return Job(bracket, index, rung, budget, config, _text(study), _text(token))


def _loss(given: Any) -> Loss:
    """A loss, or one for each objective. It is never NaN, which counts as a failure, or -inf, which
    would beat every loss."""
    if isinstance(given, list):
        _check(len(given) > 1)
        return tuple(map(_single_loss, given))
    return _single_loss(given)


def _single_loss(given: Any) -> float:
    loss = float(_text(given))
    _check(loss > -math.inf)  # also false for NaN
    return loss


def _text(given: Any) -> str:
    _check(isinstance(given, str))
    given.encode()  # a lone surrogate must fail here, not in the database
    return str(given)


def _is_index(given: Any) -> bool:
    return type(given) is int and 0 <= given < 2**63


def _is_number(given: Any) -> bool:
    return type(given) in (int, float) and math.isfinite(given)


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value can be part of metrics: a string, bool, None or number, or a list or dict of
    them that is not nested too deeply."""
    if depth > DEEPEST:
        return False
    if type(value) is dict:
        return all(type(key) is str and _is_plain(held, depth + 1) for key, held in value.items())
    if type(value) is list:
        return all(_is_plain(held, depth + 1) for held in value)
    if type(value) is int:
        return value.bit_length() < 1024
    return value is None or type(value) in (str, bool, float)


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("this is not a valid result")
