"""What holds for every storage."""

from __future__ import annotations

from fractions import Fraction

import pytest

from deepband.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobReleased,
    JobsStarted,
    RunStarted,
    StudyCreated,
)
from deepband.storage import MemoryStorage, Storage

FACTS: list[Fact] = [
    StudyCreated("id", {}, 3, Fraction(1), Fraction(9), 0, False, False, "uniform", 64),
    RunStarted(0, Fraction(9), None),
    ConfigsDrawn(0, 0, ({"x": 0.5}, {"x": 0.25})),
    JobsStarted(((0, 0, 0), (0, 1, 0))),
    JobFinished(0, 0, 0, 0, 0.5, None, {"accuracy": 0.9}),
    JobReleased((0, 1, 0)),
    JobFinished(0, 1, 0, 0, None, "ValueError: bad"),
]


@pytest.fixture(params=[MemoryStorage])
def storage(request: pytest.FixtureRequest) -> Storage:
    made: Storage = request.param()
    return made


class TestEveryStorage:
    """The contract."""

    def test_a_new_one_is_empty(self, storage: Storage) -> None:
        assert list(storage.load()) == []

    def test_facts_come_back_in_order_without_the_notes(self, storage: Storage) -> None:
        storage.append(FACTS[:2])
        storage.append([])
        for fact in FACTS[2:]:
            storage.append([fact])
        durable = [fact for fact in FACTS if not isinstance(fact, JobsStarted | JobReleased)]
        assert list(storage.load()) == durable

    def test_closing_twice_does_nothing(self, storage: Storage) -> None:
        storage.close()
        storage.close()
