"""The search in Optuna, where Hyperband is a pruner."""

import optuna


def search(n_trials, epochs):
    def objective(trial):
        lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        layers = trial.suggest_int("layers", 1, 8)
        for epoch in range(1, epochs + 1):
            loss = (lr - 0.01) ** 2 + 1 / (epoch * layers)
            trial.report(loss, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return loss

    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=epochs, reduction_factor=3)
    study = optuna.create_study(
        study_name="mlp", storage="sqlite:///optuna.db", load_if_exists=True, pruner=pruner
    )
    study.optimize(objective, n_trials=n_trials)
    return study


study = search(n_trials=22, epochs=9)
print("9:", study.best_params)

study = search(n_trials=22, epochs=27)  # and now 27, please
print("27:", study.best_params)
print("old configs at 27:", sum(trial.last_step == 27 for trial in study.trials[:22]))
