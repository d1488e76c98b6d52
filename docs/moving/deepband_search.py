"""The search in deepband."""

import deepband

space = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 8)}


def train(config, budget):
    return (config["lr"] - 0.01) ** 2 + 1 / (budget * config["layers"])


with deepband.open_study("mlp.study", space=space, min_budget=1, max_budget=9, eta=3) as study:
    study.optimize(train)
    print("9:", study.best.config)

    study.deepen("preserving", to=27)  # and now 27, please
    study.optimize(train)
    print("27:", study.best.config)

done = [(each.bracket, each.index, each.budget) for each in study.evaluations]
old = {(each.bracket, each.index) for each in study.evaluations if each.run == 0}
higher = {(bracket, index) for bracket, index, budget in done if budget == 27} & old
print("evaluated twice:", len(done) - len(set(done)), "old configs at 27:", len(higher))
