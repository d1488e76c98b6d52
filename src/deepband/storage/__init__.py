"""Where facts are kept."""

from deepband.storage.base import Storage
from deepband.storage.memory import MemoryStorage

__all__ = ["MemoryStorage", "Storage"]
