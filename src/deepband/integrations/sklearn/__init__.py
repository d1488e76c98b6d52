"""Hyperband with deepening as one of scikit-learn's searches."""

from deepband.errors import DeepbandError

try:
    import sklearn
except ImportError as error:
    raise DeepbandError(
        "DeepbandSearchCV needs scikit-learn: pip install 'deepband[sklearn]'"
    ) from error

from deepband.integrations.sklearn.search import DeepbandSearchCV

__all__ = ["DeepbandSearchCV", "sklearn"]
