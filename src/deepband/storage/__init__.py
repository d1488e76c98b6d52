"""Where facts are kept."""

from deepband.core.state import State
from deepband.errors import StorageError
from deepband.storage.base import Storage
from deepband.storage.memory import MemoryStorage
from deepband.storage.sqlite import SqliteStorage

__all__ = ["MemoryStorage", "SqliteStorage", "Storage", "state_of"]


def state_of(storage: Storage) -> State:
    """The state that stored facts lead to; facts that do not fit together are a damaged file."""
    facts = storage.load()
    try:
        return State(facts)
    except Exception as error:
        path = getattr(storage, "path", "the study")
        raise StorageError(path, f"is damaged, its facts do not fit: {error}.") from error
