"""The search of scikit-learn's program in deepband."""

from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from deepband.integrations.sklearn import DeepbandSearchCV

X, y = load_digits(return_X_y=True)
search = DeepbandSearchCV(
    SGDClassifier(tol=None, random_state=0),
    {"alpha": loguniform(1e-6, 1e-1), "penalty": ["l2", "l1", "elasticnet"]},
    resource="max_iter",
    min_resources=1,
    max_resources=9,
    factor=3,
    cv=3,
    random_state=0,
)
search.fit(X, y)
print("9:", search.best_params_)

search.deepen(X, y, max_resources=27)  # and now 27, please
print("27:", search.best_params_)
done = [str(params) for params in search.cv_results_["params"]]
print("evaluated twice:", len(done) - len(set(done)))
