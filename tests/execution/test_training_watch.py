"""Which reported losses say that training should stop."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import deepband
from deepband.execution.training_watch import TrainingWatch
from deepband.storage.checkpoints import watch_file

LIMITS = ((1.0, 0.9), (3.0, 0.5), (9.0, 0.3))


def watched(*points: tuple[float, float], maximize: bool = False) -> TrainingWatch:
    watch = TrainingWatch(LIMITS, 27.0, maximize)
    for step, loss in points:
        watch.report(step, loss, [(step, loss)])
    return watch


@pytest.mark.parametrize(
    ("points", "stops"),
    [
        ([], False),
        ([(0.5, 2.0)], False),  # before the first budget
        ([(1, 0.9)], False),
        ([(1, 0.91)], True),
        ([(2, 0.91)], True),  # the first one after the first budget
        ([(1, 0.9), (2, 1.5)], False),  # only the first one is compared
        ([(1, 0.9), (2, 0.8), (3, 0.51)], True),
        ([(4, 0.51)], True),  # with the limit of the largest budget that is reached
        ([(5, 0.5), (9, 0.3), (26, 9.9)], False),
        ([(12, 0.31)], True),
        ([(1, 0.91), (3, 0.1)], True),  # once hopeless, always hopeless
        ([(100, 9.9)], False),  # not in the unit of the budget
        ([(27, 9.9)], False),  # trained to the end
        ([(27, math.nan)], True),
        ([(0.1, math.nan)], True),
        ([(0.1, math.inf)], True),
        ([(0.1, -math.inf)], True),
    ],
)
def test_losses_are_compared_with_the_limits(
    points: list[tuple[float, float]], stops: bool
) -> None:
    assert watched(*points).should_stop() is stops
    values = [(step, -loss) for step, loss in points]
    assert watched(*values, maximize=True).should_stop() is stops


def test_an_evaluation_is_stopped_only_if_the_objective_asks() -> None:
    watch = watched((1, 5.0))
    assert not watch.stopped
    assert watch.should_stop()
    assert watch.stopped


def test_it_costs_what_it_had_used_when_it_should_have_stopped() -> None:
    """However often the objective asks, and whether it was killed in between."""
    assert watched((1, 5.0), (2, 5.0), (100, 5.0)).stopped_after(27) == 1.0
    assert watched((0, math.nan)).stopped_after(27) == 27.0
    assert watched((27, math.nan)).stopped_after(27) == 27.0


@pytest.mark.parametrize("points", [[(1.0, 0.95)], [(1.0, 0.5), (3.0, 0.5)]])
def test_an_interrupted_attempt_leaves_its_watch_to_the_next(
    tmp_path: Path, points: list[tuple[float, float]]
) -> None:
    watch = TrainingWatch(LIMITS, 27.0, persistent=True)
    context = deepband.Context(seed=0, path=tmp_path / "0-0-0.a", watch=watch)
    for point in points:
        context.report(*point)
    continued = TrainingWatch(LIMITS, 27.0).continued(watch_file(context.path))
    others = TrainingWatch(((1.0, 2.0), (3.0, 0.5)), 27.0)  # those of another risk
    assert others.continued(watch_file(context.path)) == others
    assert continued.should_stop() is watch.should_stop()
    assert continued.stopped_after(27) == watch.stopped_after(27)
    assert repr(continued.curve) == repr(watch.curve)
    continued.report(4.0, 0.51, [(4.0, 0.51)])  # was compared with the limit at 3 before
    assert continued.should_stop() is watch.should_stop() or len(points) == 1


def test_a_divergence_is_not_left_to_the_next_attempt(tmp_path: Path) -> None:
    """But it knows which limits were compared."""
    watch = TrainingWatch(LIMITS, 27.0, persistent=True)
    context = deepband.Context(seed=0, path=tmp_path / "0-0-0.a", watch=watch)
    context.report(1.0, 0.5)
    context.report(3.0, math.nan)
    assert watch.should_stop()
    continued = TrainingWatch(LIMITS, 27.0).continued(watch_file(context.path))
    assert not continued.should_stop()
    assert continued.step == 1.0


def test_an_attempt_without_limits_takes_nothing_over(tmp_path: Path) -> None:
    watch = TrainingWatch(LIMITS, 27.0, persistent=True)
    context = deepband.Context(seed=0, path=tmp_path / "0-0-0.a", watch=watch)
    context.report(1.0, 0.95)
    assert watch_file(context.path).exists()
    assert not TrainingWatch((), 27.0).continued(watch_file(context.path)).should_stop()


def test_a_watch_file_of_anything_else_is_ignored(tmp_path: Path) -> None:
    file, plain = tmp_path / "0-0-0.partial.watch", TrainingWatch(LIMITS, 27.0)
    contents = b"", b"[]", b"{}", b'{"step": -1, "curve": null}', b'{"step": 1, "curve": 7}', b"["
    for content in contents:
        file.write_bytes(content)
        assert plain.continued(file) == plain
    file.unlink()
    file.symlink_to(tmp_path)
    assert plain.continued(file) == plain


def test_a_context_without_a_watch_never_stops() -> None:
    context = deepband.Context(seed=0, path=Path(), watch=None)
    context.report(1, math.nan)
    assert not context.should_stop()


def test_a_context_of_ones_own_notices_divergence() -> None:
    context = deepband.Context(seed=0, path=Path())
    context.report(1, 1e300)
    assert not context.should_stop()
    context.report(2, math.nan)
    assert context.should_stop()
