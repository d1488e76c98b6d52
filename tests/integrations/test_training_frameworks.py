"""Objectives for Lightning and Hugging Face: budgets, checkpoints, curves, interrupts, mistakes."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import InputError
from deepband.integrations.training_result import read_monitor, training_result


@pytest.mark.parametrize(
    ("module", "name", "missing"),
    [
        ("lightning", "LightningObjective", "lightning"),
        ("huggingface", "TrainerObjective", "transformers"),
        ("huggingface", "TrainerObjective", "accelerate"),
    ],
)
def test_without_the_framework_its_package_is_named(module: str, name: str, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        f"from deepband.integrations.{module} import {name}\n"
        f"try: {name}(print)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("DeepbandError")
    assert "pip install" in done.stdout


def test_metrics_as_a_result() -> None:
    found = training_result({"val_loss": 0.5, "loss": 9, "acc": 1, "bad": float("nan")}, "val_loss")
    assert list(found.items()) == [("loss", 0.5), ("acc", 1.0), ("val_loss", 0.5)]
    with pytest.raises(InputError, match="monitor is 'val_loss', but training logged a, b: log"):
        training_result({"b": 1.0, "a": 2.0}, "val_loss")
    with pytest.raises(InputError, match="training logged nothing"):
        training_result({}, "val_loss")


def test_metrics_that_are_not_numbers_are_left_out() -> None:
    metrics = {
        "eval_loss": 0.5,
        "eval_matrix": [[3, 1], [0, 4]],
        "eval_label": "7",
        "eval_no": None,
    }
    assert training_result(metrics, "eval_loss") == {"loss": 0.5, "eval_loss": 0.5}
    with pytest.raises(InputError, match="monitor is 'eval_label', but its value is '7'"):
        training_result(metrics, "eval_label")


def test_several_metrics_as_a_result() -> None:
    logged = {"val_loss": math.inf, "loss": 9, "acc": 1, "size": 3, "label": "7"}
    found = training_result(logged, ("val_loss", "acc"))
    assert found == {"val_loss": math.inf, "acc": 1.0, "size": 3.0}
    assert read_monitor(["a", "b"]) == ("a", "b")
    with pytest.raises(InputError, match="monitor is 'f1', but training logged acc, label"):
        training_result(logged, ("val_loss", "f1"))
    with pytest.raises(InputError, match="monitor is 'label', but its value is '7'"):
        training_result(logged, ("val_loss", "label"))


@pytest.mark.parametrize(
    "wrong", ["", None, 3, [], ["a"], ["a", "a"], ["a", 3], ["a", "loss"], {"a": 1, "b": 2}]
)
def test_what_cannot_be_monitored(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"monitor is .*: give the name of a metric or"):
        read_monitor(wrong)


class Folders:
    """Contexts with folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def context(self, seed: int = 7, **given: Any) -> deepband.Context:
        path = self.folder / str(len(list(self.folder.iterdir())))
        path.mkdir()
        return deepband.Context(seed=seed, path=path, **given)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def lightning_objective(workers: int = 0, **given: Any) -> Any:
    """A small net with dropout, on rows that are shuffled."""
    import lightning
    import torch
    from torch.utils.data import TensorDataset

    from deepband.integrations.lightning import LightningObjective

    torch.set_num_threads(1)
    inputs = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    rows = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))

    class Net(lightning.LightningModule):  # type: ignore[misc,unused-ignore] # may be missing
        def __init__(self, lr: float) -> None:
            super().__init__()
            self.lr = lr
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
            )

        def training_step(self, batch: Any) -> Any:
            return torch.nn.functional.mse_loss(self.layers(batch[0]), batch[1])

        def validation_step(self, batch: Any) -> None:
            loss = self.training_step(batch)
            size = torch.tensor(self.lr, dtype=torch.float64)
            self.log_dict({"val_loss": loss, "val_score": -loss, "val_size": size})

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=self.lr)

    def build(config: dict[str, Any]) -> Any:
        data = lightning.LightningDataModule.from_datasets(rows, rows, num_workers=workers)
        data.batch_size = 12
        return Net(**config), data

    settings = {"accelerator": "cpu", **given}
    return LightningObjective(build, **settings)


CONFIG = {"lr": 0.01}

of_frameworks = [
    pytest.mark.heavy,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Lightning and PyTorch warn of each other
]


class TestLightning:
    pytestmark = of_frameworks

    @pytest.mark.parametrize("workers", [0, 1])
    def test_pieces_are_the_same_with_shuffled_rows_and_dropout(
        self, workers: int, folders: Folders
    ) -> None:
        train = lightning_objective(workers)
        whole, first = folders.context(), folders.context()
        result = train(CONFIG, 5, whole)
        train(CONFIG, 2, first)
        second = folders.context(seed=8, previous=first.path, previous_budget=2)
        assert train(CONFIG, 5, second) == result
        assert list(result) == ["loss", "val_score", "val_size", "val_loss"]
        assert first.reported + second.reported == whole.reported
        assert [step for step, _ in whole.reported] == [1, 2, 3, 4, 5]
        assert result["loss"] == whole.reported[-1][1]
        assert [each.name for each in whole.path.iterdir()] == ["last.ckpt"]

    def test_what_an_interrupted_attempt_saved_is_used(self, folders: Folders) -> None:
        import lightning

        class Stop(lightning.Callback):  # type: ignore[misc,unused-ignore] # may be missing
            def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
                if trainer.current_epoch == 3:
                    raise RuntimeError("the machine was switched off")

        cut, whole = folders.context(), folders.context()
        with pytest.raises(RuntimeError, match="switched off"):
            lightning_objective(save_every=2, callbacks=Stop())(CONFIG, 5, cut)
        train = lightning_objective(save_every=2)
        again = folders.context(partial=cut.path)
        assert train(CONFIG, 5, again) == train(CONFIG, 5, whole)
        assert again.reported == whole.reported
        assert [each.name for each in again.path.iterdir()] == ["last.ckpt"]

    def test_an_interrupt_stays_one(self, folders: Folders) -> None:
        import lightning

        class CtrlC(lightning.Callback):  # type: ignore[misc,unused-ignore] # may be missing
            def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
                raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            lightning_objective(callbacks=[CtrlC()])(CONFIG, 2, folders.context())
        assert signal.getsignal(signal.SIGINT) == before

    def test_a_study_with_workers_that_maximises(self, tmp_path: Path) -> None:
        train = lightning_objective(monitor="val_score")
        space = {"lr": (1e-3, 1e-1, "log")}
        with deepband.open_study(
            tmp_path / "a.study", space=space, max_budget=3, maximize=True
        ) as study:
            study.optimize(train, workers=2)
            assert not [each.error for each in study.evaluations if each.error]
            assert study.runs[0].trained == study.runs[0].cost_resumed
            assert study.best.value == study.best.metrics["val_score"]
            assert all(each.curve for each in study.evaluations)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"max_epochs": 3}, "remove max_epochs"),
            ({"max_steps": 3}, "remove max_epochs"),
        ],
    )
    def test_wrong_use(self, given: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            lightning_objective(**given)

    def test_several_objectives(self, tmp_path: Path) -> None:
        train = lightning_objective(monitor=["val_loss", "val_size"])
        with deepband.open_study(
            tmp_path / "a.study",
            space={"lr": (1e-3, 1e-1, "log")},
            max_budget=3,
            objectives={"val_loss": "minimize", "val_size": "minimize"},
            constraints={"val_score": (-100.0, None)},
        ) as study:
            study.optimize(train)
            assert not [each.error for each in study.evaluations if each.error]
            for each in study.evaluations:
                assert each.objectives["val_size"] == pytest.approx(each.config["lr"])
                assert each.metrics["val_score"] == -each.objectives["val_loss"]
                assert each.curve[-1] == (each.budget, each.objectives["val_loss"])
            assert study.front()
        with pytest.raises(InputError, match="list of different names"):
            lightning_objective(monitor=["val_loss"])

    def test_a_metric_that_is_not_logged(self, folders: Folders) -> None:
        with pytest.raises(InputError, match="training logged val_loss, val_score, val_size"):
            lightning_objective(monitor="accuracy")(CONFIG, 1, folders.context())


def trainer_objective(
    lasting: bool = True, changed: Any = None, measure: Any = None, **given: Any
) -> Any:
    """A small network on numbers, with dropout, as Hugging Face trains it."""
    import torch
    from transformers import Trainer, TrainingArguments

    from deepband.integrations.huggingface import TrainerObjective

    torch.set_num_threads(1)
    inputs = torch.randn(120, 4, generator=torch.Generator().manual_seed(0))
    rows = [{"x": each, "labels": each.sum()} for each in inputs]

    class Net(torch.nn.Module):  # type: ignore[misc,unused-ignore] # may be missing
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
            )

        def forward(self, x: Any, labels: Any) -> Any:
            found = self.layers(x)[:, 0]
            return {"loss": torch.nn.functional.mse_loss(found, labels), "logits": found}

    def build(config: dict[str, Any], arguments: dict[str, Any]) -> Any:
        settings = TrainingArguments(
            learning_rate=config["lr"],
            lr_scheduler_type="constant" if lasting else "linear",
            per_device_train_batch_size=12,
            use_cpu=True,
            **{**arguments, **(changed or {})},
        )
        data = {"train_dataset": rows, "eval_dataset": rows}
        return Trainer(Net(), settings, compute_metrics=measure, **data)

    return TrainerObjective(build, **given)


class TestHuggingFace:
    pytestmark = of_frameworks

    @pytest.mark.parametrize(("unit", "budgets"), [("steps", (7, 25)), ("epochs", (1, 3))])
    def test_pieces_are_the_same_with_shuffled_rows_and_dropout(
        self, unit: str, budgets: tuple[int, int], folders: Folders, capfd: Any
    ) -> None:
        train = trainer_objective(unit=unit)
        low, high = budgets
        whole, first = folders.context(), folders.context()
        result = train(CONFIG, high, whole)
        train(CONFIG, low, first)
        second = folders.context(seed=8, previous=first.path, previous_budget=low)
        assert train(CONFIG, high, second) == result
        assert list(result) == ["loss", "eval_loss"]
        assert whole.reported == second.reported == [(high, result["loss"])]
        assert capfd.readouterr().out == ""

    def test_the_curve_has_every_evaluation_once(self, folders: Folders) -> None:
        context = folders.context()
        trainer_objective(changed={"eval_strategy": "steps", "eval_steps": 5})(CONFIG, 12, context)
        assert [step for step, _ in context.reported] == [5, 10, 12]

    def test_only_complete_checkpoints_of_an_interrupted_attempt_are_used(
        self, folders: Folders
    ) -> None:
        train = trainer_objective(changed={"save_strategy": "steps", "save_steps": 4})
        cut, whole = folders.context(), folders.context()
        train(CONFIG, 8, cut)
        (cut.path / "checkpoint-8" / "trainer_state.json").unlink()
        again = folders.context(partial=cut.path)
        assert train(CONFIG, 12, again) == train(CONFIG, 12, whole)
        assert not (again.path / "checkpoint-4").exists()

    def test_several_objectives(self) -> None:
        train = trainer_objective(
            measure=lambda found: {"spread": float(found.predictions.std())},
            monitor=["eval_loss", "eval_spread"],
        )
        study = deepband.open_study(
            space={"lr": (1e-3, 1e-1, "log")},
            max_budget=3,
            objectives={"eval_loss": "minimize", "eval_spread": "maximize"},
        )
        study.optimize(train)
        assert not [each.error for each in study.evaluations if each.error]
        for each in study.evaluations:
            assert each.curve[-1] == (each.budget, each.objectives["eval_loss"])
        assert study.front()
        with pytest.raises(InputError, match="list of different names"):
            trainer_objective(monitor=["eval_loss", "loss"])

    def test_a_study_with_workers(self, tmp_path: Path) -> None:
        space = {"lr": (1e-3, 1e-1, "log")}
        with deepband.open_study(
            tmp_path / "a.study", space=space, min_budget=4, max_budget=12
        ) as study:
            study.optimize(trainer_objective(), workers=2)
            assert not [each.error for each in study.evaluations if each.error]
            assert study.runs[0].trained == study.runs[0].cost_resumed

    def test_wrong_use(self, folders: Folders) -> None:
        with pytest.raises(InputError, match="give 'steps' or 'epochs'"):
            trainer_objective(unit="hours")
        with pytest.raises(InputError, match="pass \\*\\*arguments"):
            trainer_objective(changed={"max_steps": 5})(CONFIG, 3, folders.context())
        with (
            pytest.warns(UserWarning, match="lr_scheduler_type is 'linear', which ends"),
            pytest.raises(InputError, match="training logged eval_loss"),
        ):
            trainer_objective(lasting=False, monitor="eval_f1")(CONFIG, 1, folders.context())
