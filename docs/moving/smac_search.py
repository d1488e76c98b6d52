"""The search in SMAC3."""

import ConfigSpace as CS
from smac import HyperbandFacade, Scenario

space = CS.ConfigurationSpace()
space.add(CS.Float("lr", (1e-4, 1e-1), log=True))
space.add(CS.Integer("layers", (1, 8)))


def train(config, seed, budget):
    return (config["lr"] - 0.01) ** 2 + 1 / (budget * config["layers"])


def search(n_trials, max_budget, overwrite=False):
    scenario = Scenario(
        space,
        name="mlp",
        deterministic=True,
        n_trials=n_trials,
        min_budget=1,
        max_budget=max_budget,
    )
    smac = HyperbandFacade(scenario, train, overwrite=overwrite)
    return dict(smac.optimize()), smac.runhistory


def evaluated(history):
    return {(history.get_config(key.config_id), key.budget) for key in history}


best, first = search(n_trials=22, max_budget=9)
print("9:", best)

try:
    best, second = search(n_trials=69, max_budget=27)  # and now 27, please
except EOFError:  # it asks on the terminal, and there is none
    print("refused")
    best, second = search(n_trials=69, max_budget=27, overwrite=True)
print("27:", best)
print("evaluated twice:", len(evaluated(first) & evaluated(second)), "of", len(first))
