"""Devices: the GPU that each worker finds with PyTorch, on a machine with GPUs.

python bench/devices.py [--devices cuda:0,cuda:1] [--per-device 2]

Prints one line per worker, and fails if a worker sees more than one GPU, if two devices are the
same GPU, or if the GPU of a worker changes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import deepband

SPACE = {"x": (0.0, 1.0)}


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, Any]:
    """A few products of matrices on the device, and what PyTorch says about it."""
    import torch

    assert context.device == "cuda:0", context.device
    assert torch.cuda.device_count() == 1, torch.cuda.device_count()
    device = torch.device(context.device)
    matrix = torch.rand(512, 512, device=device)
    end = time.monotonic() + 0.1  # so that every worker gets a job
    while time.monotonic() < end:
        matrix = torch.nn.functional.normalize(matrix @ matrix)
    found = torch.cuda.get_device_properties(device)
    return {
        "loss": config["x"] / budget + 0 * matrix.sum().item(),
        "slot": context.slot,
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "uuid": str(found.uuid),
        "model": found.name,
        "device": context.device,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--per-device", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        deepband.open_study(Path(name) / "gpus.study", space=SPACE, max_budget=27) as study,
    ):
        study.optimize(train, devices=given.devices, per_device=given.per_device, first_failures=1)
        names = ("slot", "device", "visible", "uuid", "model")
        found = {tuple(each.metrics[name] for name in names) for each in study.evaluations}
    for row in sorted(found):
        print("worker {}: context.device {}, CUDA_VISIBLE_DEVICES {}, {} ({})".format(*row))
    assert len({slot for slot, *_ in found}) == len(found), "the GPU of a worker changed"
    pairs = {(visible, uuid) for _, _, visible, uuid, _ in found}
    assert len({uuid for _, uuid in pairs}) == len(pairs), "two devices are the same GPU"
    print(f"{len(found)} workers on {len(pairs)} GPUs: as expected")


if __name__ == "__main__":
    main()
