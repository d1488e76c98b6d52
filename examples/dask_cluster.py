"""A cluster of Dask evaluates; the study stays one file and one driver.

Here the cluster is two processes of this machine. For a real one, give `executor` its address,
"dask://host:8786": the rest stays as it is, as long as all machines see the study's folder.

    pip install 'deepband[demo,dask]'
    python examples/dask_cluster.py
"""

from __future__ import annotations

import pickle
from typing import Any

from distributed import Client, LocalCluster
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss

import deepband

space: dict[str, Any] = {
    "alpha": (1e-6, 1e-1, "log"),
    "eta0": (1e-4, 1.0, "log"),
    "penalty": ["l2", "l1", "elasticnet"],
}


def data() -> tuple[Any, Any, Any, Any]:
    """3,000 rows to train on and 1,000 to choose by."""
    inputs, labels = make_classification(4000, 30, n_informative=10, random_state=0)
    return inputs[:3000], labels[:3000], inputs[3000:], labels[3000:]


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
    """Pass over the data up to `budget` times, from where the rung below ended."""
    inputs, labels, choose, choose_labels = data()
    model = SGDClassifier(
        loss="log_loss", learning_rate="constant", random_state=context.seed, **config
    )
    if context.previous:
        model = pickle.loads((context.previous / "model.pickle").read_bytes())
    for _ in range(int(context.previous_budget), budget):
        model.partial_fit(inputs, labels, classes=[0, 1])
    (context.path / "model.pickle").write_bytes(pickle.dumps(model))
    return float(log_loss(choose_labels, model.predict_proba(choose)))


def main() -> None:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        deepband.open_study("dask_cluster.study", space=space, max_budget=9) as study,
    ):
        study.optimize(train, executor=client)
        study.deepen("preserving", to=27)
        study.optimize(train, executor=client)
        for run in study.runs:
            print(f"max_budget {run.max_budget}: {run.evaluations} evaluations")
        best = study.best
        print(f"best after {best.budget} passes: {best.loss:.4f} with {best.config}")


if __name__ == "__main__":  # workers import this file
    main()
