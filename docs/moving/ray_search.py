"""The search in Ray Tune."""

from pathlib import Path

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler


def train(config):
    for epoch in range(1, 28):
        tune.report({"loss": (config["lr"] - 0.01) ** 2 + 1 / (epoch * config["layers"])})


ray.init(address="local", num_cpus=2, include_dashboard=False)
tuner = tune.Tuner(
    train,
    param_space={"lr": tune.loguniform(1e-4, 1e-1), "layers": tune.randint(1, 9)},
    tune_config=tune.TuneConfig(
        metric="loss",
        mode="min",
        num_samples=22,
        scheduler=ASHAScheduler(grace_period=1, max_t=9, reduction_factor=3),
        reuse_actors=True,
    ),
    run_config=tune.RunConfig(name="mlp", storage_path=str(Path.cwd()), verbose=0),
)
results = tuner.fit()
print("9:", results.get_best_result().config)
before = sorted(result.metrics["training_iteration"] for result in results)

tuner = tune.Tuner.restore(str(Path("mlp").absolute()), train)  # takes no scheduler: max_t stays 9
results = tuner.fit()
print("restored:", results.get_best_result().config)
after = sorted(result.metrics["training_iteration"] for result in results)
print("epochs before:", sum(before), "after:", sum(after), "most:", max(after))
