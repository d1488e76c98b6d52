"""DeepbandSearchCV: Hyperband with deepening as a scikit-learn search."""

from importlib.util import find_spec

from deepband.errors import DeepbandError
from deepband.system.installation import install_command

if find_spec("sklearn") is None:
    raise DeepbandError(f"DeepbandSearchCV needs scikit-learn: {install_command('sklearn')}")

from deepband.integrations.sklearn.search import DeepbandSearchCV

__all__ = ["DeepbandSearchCV"]
