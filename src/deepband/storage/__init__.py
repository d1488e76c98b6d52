"""Storages for the facts of a study: in memory, or in an SQLite file with checkpoints beside it."""

from deepband.core.state import State
from deepband.errors import StorageError
from deepband.storage.base import Storage
from deepband.storage.memory import MemoryStorage

__all__ = ["MemoryStorage", "Storage", "state_of"]


def state_of(storage: Storage) -> State:
    """The state of a stored study, or a StorageError if its facts contradict each other."""
    facts = storage.load()
    try:
        return State(facts)
    except Exception as error:
        path = storage.path or "the study"
        raise StorageError(path, f"is damaged, its facts are inconsistent: {error}.") from error
