"""DeepbandSearchCV: Hyperband with deepening as a scikit-learn search."""

from importlib.util import find_spec

from deepband.errors import DeepbandError

if find_spec("sklearn") is None:
    raise DeepbandError("DeepbandSearchCV needs scikit-learn: pip install 'deepband[sklearn]'")

from deepband.integrations.sklearn.search import DeepbandSearchCV

__all__ = ["DeepbandSearchCV"]
