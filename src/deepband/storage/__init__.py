"""Where facts are kept."""

from deepband.storage.base import Storage
from deepband.storage.memory import MemoryStorage
from deepband.storage.sqlite import SqliteStorage

__all__ = ["MemoryStorage", "SqliteStorage", "Storage"]
