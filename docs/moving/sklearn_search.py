"""A search in scikit-learn."""

from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import HalvingRandomSearchCV

X, y = load_digits(return_X_y=True)
search = HalvingRandomSearchCV(
    SGDClassifier(tol=None, random_state=0),
    {"alpha": loguniform(1e-6, 1e-1), "penalty": ["l2", "l1", "elasticnet"]},
    resource="max_iter",
    n_candidates=9,
    min_resources=1,
    max_resources=9,
    factor=3,
    cv=3,
    random_state=0,
)
search.fit(X, y)
print("9:", search.best_params_)
first = {str(params) for params in search.cv_results_["params"]}

search.set_params(n_candidates=27, max_resources=27)  # and now 27, please
search.fit(X, y)
print("27:", search.best_params_)
second = {str(params) for params in search.cv_results_["params"]}
print("evaluated twice:", len(first & second), "of", len(first))
