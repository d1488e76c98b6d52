"""Batches on a GPU, compared with one config at a time and with processes that share the GPU.

    python bench/gpu.py --json gpu.json --plot gpu.png       # all sections
    python bench/gpu.py --sections mlp-studies --json gpu.json --minutes 8
    python bench/gpu.py --quick                              # tiny sizes, to see that it works

Without a GPU, it measures the CPU, with tiny sizes: those figures say nothing about a GPU. `--json`
adds figures to those of earlier calls in the same file, and the summary uses all of them.

| section | measures |
|---|---|
| mlp-epochs | seconds per epoch of n networks in one batch, memory and utilisation |
| mlp-studies | whole studies in batches, with checkpoints on disk |
| mlp-single | one config at a time in this process, on one rung |
| mlp-shared | one config at a time in each of several processes, on one rung |
| conv-... | the same four for a convolutional network |
| saving | saving and restoring the checkpoints of one batch |
| overhead | deepband itself, per job, with an objective that does nothing |

All use the same code for training, with a batch of one for a single config: float32 with TF32, SGD
with momentum, all data on the GPU, no data loader. "graph" replays a CUDA graph of several steps;
"plain" launches every operation from Python. The networks of a batch see the data in the same
order, which depends only on the epoch. Single configs and processes are measured on one rung, and
extrapolated: seconds per unit of budget, times the units that the study in batches has trained.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.functional import conv2d, log_softmax, max_pool2d, pad

import deepband
from deepband.core.facts import Fact, JobFinished

GPU = torch.cuda.is_available()
TINY = not GPU or "DEEPBAND_QUICK" in os.environ  # which workers inherit
DEVICE = "cuda" if GPU else "cpu"
BATCH = 32 if TINY else 128

BATCHES = (1, 3, 9) if TINY else (1, 9, 27, 81, 243)
STUDIES = {  # (max_budget, width), the most important first
    "mlp": [(9, 4), (9, 1)]
    if TINY
    else [(81, 4), (27, 4), (27, 1), (81, 1), (27, 16), (243, 1), (81, 16)],
    "conv": [(9, 1)] if TINY else [(27, 4), (27, 1), (81, 1)],
}
PROCESSES = (2,) if TINY else (4, 12)
RUNG = 3 if TINY else 9
"""The budget of the rung on which single configs are measured."""
GOAL = (9, 4) if TINY else (81, 4)
THREADS = min(8, os.cpu_count() or 1)
"""That save and restore the checkpoints of a batch."""

SPACE = {
    "learning_rate": (1e-3, 1e-1, "log"),
    "momentum": (0.0, 0.9),
    "weight_decay": (1e-6, 1e-2, "log"),
}
FEW = 4_000_000
"""Below this many parameters in all, gradients are joined: a copy, but fewer operations."""
Row = dict[str, Any]


# Networks: every parameter has one row per config.


class Network(NamedTuple):
    """A way to apply the networks of n configs at once."""

    name: str
    shapes: tuple[tuple[int, int], ...]
    """Inputs and outputs of each layer; every layer has weights and a bias."""
    sample: tuple[int, ...]
    samples: int
    steps: int
    """In a CUDA graph."""
    flops: int
    """Operations per sample, forward and backward."""
    forward: Callable[[list[Any], Any], Any]
    """The scores (configs, samples, classes), given all parameters and one batch of samples."""

    @property
    def sizes(self) -> list[int]:
        return [size for inside, outside in self.shapes for size in (inside * outside, outside)]


def mlp(weights: list[Any], inputs: Any) -> Any:
    hidden = inputs.expand(len(weights[0]), *inputs.shape)
    hidden = linear(weights[:2], hidden, 256).relu_()
    hidden = linear(weights[2:4], hidden, 256).relu_()
    return linear(weights[4:], hidden, 10)


def linear(weights: list[Any], inputs: Any, outputs: int) -> Any:
    weight, bias = weights
    return torch.baddbmm(bias[:, None], inputs, weight.view(len(weight), -1, outputs))


def grouped(weights: list[Any], inputs: Any, memory: Any = torch.contiguous_format) -> Any:
    """Convolutions with one group per config: the channels of all configs form one image."""
    configs, hidden = len(weights[0]), inputs.contiguous(memory_format=memory)
    for layer, (inside, outside) in enumerate(pairwise((3, 32, 64, 64))):
        weight = weights[2 * layer].reshape(configs * outside, inside, 3, 3)
        weight = weight.contiguous(memory_format=memory)
        groups = configs if layer else 1  # all configs have the same images
        hidden = conv2d(hidden, weight, weights[2 * layer + 1].flatten(), padding=1, groups=groups)
        hidden = max_pool2d(hidden.relu_(), 2)
    return linear(weights[6:], hidden.reshape(len(inputs), configs, -1).transpose(0, 1), 10)


def patches(weights: list[Any], inputs: Any) -> Any:
    """Convolutions as matrix products, with one row per pixel: it and its neighbours."""
    configs, hidden = len(weights[0]), inputs.permute(0, 2, 3, 1)[None]
    for layer, outside in enumerate((32, 64, 64)):
        wide = pad(hidden, (0, 0, 1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1)
        groups, images, height, width = wide.shape[:4]
        rows = wide.reshape(groups, images * height * width, -1).expand(configs, -1, -1)
        hidden = linear(weights[2 * layer : 2 * layer + 2], rows, outside).relu_()
        hidden = hidden.view(configs, images, height // 2, 2, width // 2, 2, outside).amax((3, 5))
    return linear(weights[6:], hidden.flatten(2), 10)


# Two operations per weight forward and four backward; the first layer has no gradient of its input.
MLP_FLOPS = 2 * (2 * 784 * 256 + 3 * 256 * 256 + 3 * 256 * 10)
CONV_FLOPS = 2 * (2 * 1024 * 27 * 32 + 3 * (256 * 288 * 64 + 64 * 576 * 64 + 1024 * 10))
MLP_SHAPES = ((784, 256), (256, 256), (256, 10))
CONV_SHAPES = ((27, 32), (288, 64), (576, 64), (1024, 10))
new_mlp = partial(Network, shapes=MLP_SHAPES, sample=(784,), flops=MLP_FLOPS)
new_conv = partial(Network, shapes=CONV_SHAPES, sample=(3, 32, 32), flops=CONV_FLOPS)
new_mlp = partial(new_mlp, samples=(8 if TINY else 390) * BATCH, steps=4 if TINY else 13)
new_conv = partial(new_conv, samples=(1 if TINY else 100) * BATCH, steps=1 if TINY else 10)
NETWORKS = {
    "mlp": [new_mlp("baddbmm", forward=mlp)],
    "conv": [
        new_conv("grouped", forward=grouped),
        new_conv("channels last", forward=partial(grouped, memory=torch.channels_last)),
        new_conv("patches", forward=patches),
    ],
}
"""By model, the ways to apply it to a batch of configs. The fastest is used."""


# Training


class Data(NamedTuple):
    """Random samples, and labels, as rows of 0 and 1, that are a linear function of them."""

    inputs: Any
    targets: Any
    batches: Any
    """The inputs in the order of the current epoch: (steps, samples per step, ...)."""
    batch_targets: Any

    def shuffle(self, epoch: int) -> None:
        generator = torch.Generator(DEVICE).manual_seed(epoch)
        order = torch.randperm(len(self.inputs), generator=generator, device=DEVICE)
        torch.index_select(self.inputs, 0, order, out=self.batches.flatten(0, 1))
        torch.index_select(self.targets, 0, order, out=self.batch_targets.flatten(0, 1))


@cache
def data(sample: tuple[int, ...], samples: int, seed: int) -> Data:
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")  # TF32, as in convolutions
    rule = torch.randn(prod(sample), 10, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    inputs = torch.randn(samples, *sample, generator=generator, device=DEVICE)
    targets = torch.eye(10, device=DEVICE)[(inputs.flatten(1) @ rule).argmax(1)]
    batches = torch.empty_like(inputs).unflatten(0, (-1, BATCH))
    return Data(inputs, targets, batches, torch.empty_like(targets).unflatten(0, (-1, BATCH)))


class Trainer:
    """Trains n configs at once; with `graph`, by replaying a CUDA graph."""

    def __init__(self, network: Network, configs: int, graph: bool) -> None:
        self.network, self.configs = network, configs
        self.data = data(network.sample, network.samples, 1)
        size = sum(network.sizes)
        rows = torch.zeros(2, configs, -(-size // 64) * 64, device=DEVICE)  # aligned rows
        self.flat = rows[:, :, :size]
        self.weights, self.velocity = (part.split(network.sizes, 1) for part in self.flat)
        self.weights = [weight.detach().requires_grad_() for weight in self.weights]
        self.settings = torch.zeros(3, configs, 1, device=DEVICE)
        self.counter = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.graph = self._capture() if graph and GPU else None

    def load(self, states: Any, settings: Any) -> None:
        self.flat.copy_(states)
        self.settings.copy_(settings)

    def run(self, epochs: Sequence[int]) -> None:
        for epoch in epochs:
            self.data.shuffle(epoch)
            if self.graph is not None:
                self.counter.zero_()
                for _ in range(len(self.data.batches) // self.network.steps):
                    self.graph.replay()
            else:
                for pair in zip(self.data.batches, self.data.batch_targets, strict=True):
                    self._step(*pair)

    def losses(self) -> list[float]:
        """The mean loss of each config on other samples; 1000 if training has diverged."""
        held_out = data(self.network.sample, 4 * BATCH, 2)
        total = torch.zeros(self.configs, device=DEVICE)
        with torch.no_grad():
            for pair in zip(
                held_out.inputs.split(BATCH), held_out.targets.split(BATCH), strict=True
            ):
                scores = log_softmax(self.network.forward(self.weights, pair[0]), -1)
                total -= (scores * pair[1]).sum((1, 2)) / len(held_out.inputs)
        found: list[float] = total.nan_to_num(1e3, 1e3, 1e3).clamp(max=1e3).tolist()
        return found

    def _step(self, inputs: Any, targets: Any) -> None:
        scores = self.network.forward(self.weights, inputs)
        slope = scores.detach().softmax(-1).sub_(targets).mul_(1 / BATCH)  # of the cross entropy
        gradients = torch.autograd.grad(scores, self.weights, slope)
        with torch.no_grad():
            if self.flat[0].numel() < FEW:
                self._update(self.flat[0], self.flat[1], torch.cat(gradients, 1))
            else:
                for part in zip(self.weights, self.velocity, gradients, strict=True):
                    self._update(*part)

    def _update(self, weight: Any, velocity: Any, gradient: Any) -> None:
        rate, momentum, decay = self.settings
        torch.addcmul(gradient, velocity, momentum, out=velocity).addcmul_(weight, decay)
        weight.addcmul_(velocity, rate, value=-1)

    def _next_step(self) -> None:
        """A step that finds its samples by itself, so that it can be replayed."""
        inputs = self.data.batches.index_select(0, self.counter)[0]
        self._step(inputs, self.data.batch_targets.index_select(0, self.counter)[0])
        self.counter.add_(1)

    def _capture(self) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # libraries initialise themselves in the first steps
            self.data.shuffle(0)
            for _ in range(2):
                self._next_step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.network.steps):
                self._next_step()
        return graph


@lru_cache(maxsize=2)
def trainer(network: Network, configs: int, graph: bool) -> Trainer:
    return Trainer(network, configs, graph)


@cache
def scales(network: Network) -> Any:
    parts = [
        torch.full((size,), (2 / inside) ** 0.5 if size > outside else 0.0)
        for inside, outside in network.shapes
        for size in (inside * outside, outside)
    ]
    return torch.cat(parts).to(DEVICE)


def new_state(network: Network, seed: int) -> Any:
    """Weights and velocities of one config before its first epoch."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    scale = scales(network)
    weights = torch.randn(len(scale), generator=generator, device=DEVICE) * scale
    return torch.stack([weights, torch.zeros_like(weights)])


class Training(NamedTuple):
    """The objective, for batches and for single configs."""

    network: Network
    graph: bool
    threads: int = THREADS

    def batch(self, configs: list[Any], budget: int, contexts: list[Any]) -> list[float]:
        with spent("restoring"):
            starts, states = self.restore(contexts)
        with spent("training"):
            settings = torch.tensor([[[each[name]] for each in configs] for name in SPACE])
            settings = settings.to(DEVICE)
            for start, end in pairwise([*sorted(set(starts)), budget]):
                group = [i for i, before in enumerate(starts) if before <= start]
                active = trainer(self.network, len(group), self.graph)
                active.load(states[:, group], settings[:, group])
                active.run(range(start, end))
                states[:, group] = active.flat
            losses = active.losses()  # in the end, all configs are in the group
        with spent("saving"):
            self.save(contexts, states, budget)
        return losses

    def single(self, config: Any, budget: int, context: Any) -> float:
        return self.batch([config], budget, [context])[0]

    def restore(self, contexts: list[Any]) -> tuple[list[int], Any]:
        with ThreadPoolExecutor(self.threads) as pool:
            found = list(pool.map(lambda context: context.restore(step=0), contexts))
        states = [
            torch.from_numpy(each["state"]).to(DEVICE)
            if "state" in each
            else new_state(self.network, context.seed)
            for each, context in zip(found, contexts, strict=True)
        ]
        return [each["step"] for each in found], torch.stack(states, 1)

    def save(self, contexts: list[Any], states: Any, budget: int) -> None:
        arrays = states.transpose(0, 1).cpu().numpy()
        with ThreadPoolExecutor(self.threads) as pool:
            list(
                pool.map(
                    lambda pair: pair[0].save(state=pair[1], step=budget),
                    zip(contexts, arrays, strict=True),
                )
            )


SPENT: dict[str, float] = {}
"""Seconds of the training function, by what it does."""


@contextmanager
def spent(what: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    synchronize()
    SPENT[what] = SPENT.get(what, 0.0) + time.perf_counter() - start


def synchronize() -> None:
    if GPU:
        torch.cuda.synchronize()


def forget() -> None:
    """Free what earlier measurements hold on the GPU."""
    trainer.cache_clear()
    SPENT.clear()
    if GPU:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


# Sections


class Bench:
    """The sections, their figures and the time that is left."""

    def __init__(self, seconds: float, figures: dict[str, Any]) -> None:
        self.end = time.monotonic() + seconds
        self.figures = figures

    def has(self, seconds: float, what: str) -> bool:
        """Whether that many seconds are left. Otherwise it says what is left out."""
        left = self.end - time.monotonic()
        if seconds > left:
            print(f"left out: {what}, {seconds:.0f} s, with {left:.0f} s left")
        return seconds <= left

    def epochs(self, model: str) -> list[Row]:
        rows: list[Row] = []
        for network in NETWORKS[model]:
            for configs in BATCHES:
                for graph in (True, False) if GPU else (False,):
                    if self.has(5, f"{network.name}, {configs} configs"):
                        rows += measured_epoch(network, configs, graph)
        show(rows, f"{model}: one epoch of n configs in one batch")
        return rows

    def studies(self, model: str) -> list[Row]:
        network, many, rows = fastest(model, BATCHES[2]), BATCHES[2], []
        per_unit = epoch_seconds(network, many, GPU) / many
        for max_budget, width in STUDIES[model]:
            with new_study(max_budget=max_budget, width=width) as study:
                expected = per_unit * float(study.plan().cost_resumed)
                if self.has(1.5 * expected, f"max_budget {max_budget}, width {width}"):
                    rows.append(measured_study(study, Training(network, GPU)))
        show(rows, f"{model}: whole studies in batches (seconds)")
        return rows

    def single(self, model: str) -> list[Row]:
        network = fastest(model, 1)
        modes = (True, False) if GPU else (False,)
        rows = [
            measured_rung(Training(network, graph), 1, jobs=4 if TINY else 7)
            for graph in modes
            if self.has(30, "single configs")
        ]
        show(rows, f"{model}: one config at a time, on one rung of budget {RUNG}")
        return rows

    def shared(self, model: str) -> list[Row]:
        network = fastest(model, 1)
        rows = []
        for processes in PROCESSES:
            for graph in (True, False) if GPU else (False,):
                if self.has(90, f"{processes} processes"):
                    rows.append(measured_rung(Training(network, graph), processes, 3 * processes))
        show(rows, f"{model}: processes that share the device, on one rung of budget {RUNG}")
        return rows

    def saving(self) -> list[Row]:
        rows = []
        for threads in sorted({1, THREADS}):
            forget()
            with tempfile.TemporaryDirectory() as name:
                rows.append(measured_saving(Path(name), threads, BATCHES[-2]))
        show(rows, "saving and restoring one batch of the MLP (ms per config)")
        return rows

    def overhead(self) -> list[Row]:
        rows = []
        measured_overhead(1, True)  # which also imports what deepband needs
        for workers in (1, 2):
            for batch in (True, False):
                rows.append(measured_overhead(workers, batch))
        show(rows, "an objective that does nothing (CPU time: of this process alone)")
        return rows


def measured_epoch(network: Network, configs: int, graph: bool) -> list[Row]:
    forget()
    try:
        with watched() as seen:
            seconds = epoch_seconds(network, configs, graph, 0.2 if TINY else 2.0)
    except RuntimeError as error:  # out of memory, or not supported
        print(f"{network.name}, {configs} configs: {str(error).splitlines()[0]}")
        return []
    tera = network.flops * network.samples * configs / seconds / 1e12
    memory = torch.cuda.max_memory_allocated() / 2**30 if GPU else None
    row = {"by": network.name, "mode": mode(graph), "n": configs, "s per epoch": seconds}
    row |= {"ms per config": 1000 * seconds / configs, "TFLOP/s": tera, "GiB": memory}
    return [row | {"busy %": seen.get("busy"), "GiB of nvidia-smi": seen.get("memory")}]


def epoch_seconds(network: Network, configs: int, graph: bool, least: float = 0.2) -> float:
    """Seconds per epoch, after an epoch that is not counted."""
    active = trainer(network, configs, graph)
    states = torch.stack([new_state(network, seed) for seed in range(configs)], 1)
    settings = torch.tensor([0.01, 0.9, 1e-4], device=DEVICE)[:, None, None]
    active.load(states, settings.expand(-1, configs, 1))
    active.run([0])
    synchronize()
    start, epochs = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < least or epochs < 1:
        epochs += 1
        active.run([epochs])
        synchronize()
    return elapsed / epochs


@cache
def fastest(model: str, configs: int) -> Network:
    """The fastest way to train that many configs at once."""
    times: dict[Network, float] = {}
    for network in NETWORKS[model] if len(NETWORKS[model]) > 1 else []:
        forget()
        try:
            times[network] = epoch_seconds(network, configs, GPU)
        except RuntimeError as error:
            print(f"{network.name}, {configs} configs: {str(error).splitlines()[0]}")
    found = min(times, key=lambda network: times[network]) if times else NETWORKS[model][0]
    if times:
        text = ", ".join(f"{network.name} {seconds:.3g} s" for network, seconds in times.items())
        print(f"{model}, epoch of {configs} configs: {text}: {found.name} is used")
    return found


@contextmanager
def new_study(**schedule: Any) -> Iterator[deepband.Study]:
    """A study in a temporary folder, on the disk."""
    with (
        tempfile.TemporaryDirectory() as name,
        deepband.open_study(Path(name) / "bench.study", space=SPACE, **schedule) as study,
    ):
        yield study


def measured_study(study: deepband.Study, training: Training) -> Row:
    forget()
    start = time.perf_counter()
    study.optimize(training.batch, batch=True, progress=False)
    seconds = time.perf_counter() - start
    (run,) = study.runs
    row = {"max_budget": int(run.max_budget), "width": study.width, "by": training.network.name}
    row |= {"configs": study.plan().configs, "evaluations": run.evaluations}
    row |= {
        "units": int(run.trained),
        "seconds": seconds,
        **SPENT,
        "deepband": seconds - sum(SPENT.values()),
    }
    return row | {"GiB": torch.cuda.max_memory_allocated() / 2**30 if GPU else None}


class Clock:
    """Notes when each result is recorded."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def observe(self, facts: Sequence[Fact]) -> None:
        now = time.perf_counter()
        self.times += [now for fact in facts if isinstance(fact, JobFinished)]


def measured_rung(training: Training, processes: int, jobs: int) -> Row:
    """Seconds per unit, after each process has finished its first job."""
    forget()
    data.cache_clear()
    with new_study(min_budget=RUNG, max_budget=RUNG, width=jobs) as study:
        clock = Clock()
        study.observe(clock)
        where: dict[str, Any] = {}
        if processes > 1:
            shared = {"devices": ["cuda:0"], "per_device": processes}
            where = shared if GPU else {"workers": processes}
        study.optimize(training.single, progress=False, **where)
    seconds = clock.times[-1] - clock.times[processes - 1]
    units = RUNG * (len(clock.times) - processes)
    row = {"by": training.network.name, "mode": mode(training.graph), "processes": processes}
    return row | {"units": units, "seconds": seconds, "s per unit": seconds / units}


def measured_saving(folder: Path, threads: int, configs: int) -> Row:
    (network,) = NETWORKS["mlp"]
    training = Training(network, False, threads)
    states = torch.stack([new_state(network, seed) for seed in range(configs)], 1)
    first = [context(folder / str(i)) for i in range(configs)]
    with spent("save"):
        training.save(first, states, 1)
    second = [context(folder / f"{i} next", folder / str(i)) for i in range(configs)]
    with spent("restore"):
        training.restore(second)
    each = {name: 1000 * seconds / configs for name, seconds in SPENT.items()}
    return {"threads": threads, "configs": configs, "MB": states.nbytes / configs / 1e6, **each}


def context(path: Path, previous: Path | None = None) -> deepband.BatchContext:
    path.mkdir()
    before = 0 if previous is None else 1
    return deepband.BatchContext(seed=0, path=path, previous=previous, previous_budget=before)


def nothing(config: Any, budget: int, context: Any) -> float:
    return float(config["momentum"])


def nothing_at_once(configs: Any, budget: int, contexts: Any) -> list[float]:
    return [float(config["momentum"]) for config in configs]


def measured_overhead(workers: int, batch: bool) -> Row:
    """Milliseconds per job. With workers, from their first result, because they must start."""
    objective: Any = nothing_at_once if batch else nothing
    with new_study(max_budget=27 if TINY else 243, width=4) as study:
        clock = Clock()
        study.observe(clock)
        start, used = time.perf_counter(), time.process_time()
        study.optimize(objective, batch=batch or None, workers=workers, progress=False)
        used = time.process_time() - used
    since = start if workers == 1 else clock.times[0]
    jobs = sum(at > since for at in clock.times)
    each, of_cpu = 1000 * (clock.times[-1] - since) / jobs, 1000 * used / len(clock.times)
    row = {"workers": workers, "batches": batch, "jobs": jobs, "ms per job": each}
    return row | {"CPU ms per job": of_cpu}


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """What nvidia-smi says in the meantime: mean utilisation in percent, most memory in GiB."""
    seen: dict[str, float] = {}
    if not GPU or not shutil.which("nvidia-smi"):
        yield seen
        return
    query = ["--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"]
    lines: list[str] = []
    with subprocess.Popen(
        ["nvidia-smi", "-i", "0", *query, "-lms", "100"], stdout=subprocess.PIPE, text=True
    ) as process:
        stream = process.stdout
        assert stream is not None
        reader = threading.Thread(target=lambda: lines.extend(stream), daemon=True)
        reader.start()
        try:
            yield seen
        finally:
            process.terminate()
            reader.join()
    pairs = [[float(part) for part in line.split(",")] for line in lines if line.count(",") == 1]
    last = pairs[-10:]  # a second, in which nothing but epochs has run
    if last:
        seen["busy"] = sum(busy for busy, _ in last) / len(last)
        seen["memory"] = max(memory for _, memory in last) / 1024


# Results


def mode(graph: bool) -> str:
    return "graph" if graph else "plain"


def show(rows: list[Row], title: str) -> None:
    """A table in Markdown."""
    print(f"\n### {title}\n")
    names = list(rows[0]) if rows else []
    for cells in [names, ["---"] * len(names), *([row[name] for name in names] for row in rows)]:
        print("| " + " | ".join(map(cell, cells)) + " |")
    print(flush=True)


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "" if value is None else f"{value:,}" if type(value) is int else str(value)


def summary(figures: dict[str, Any]) -> None:
    for model in NETWORKS:
        ways = ways_of(figures, model)
        studies = figures.get(f"{model}-studies", [])
        rows = [compared(study, ways) for study in studies]
        if rows and ways:
            show(rows, f"{model}: seconds of a study in batches, and extrapolated for other ways")
    show_goals(figures)


def name_of(way: Row) -> str:
    processes = way["processes"]
    return f"{way['mode']}, " + ("one at a time" if processes == 1 else f"{processes} processes")


def compared(study: Row, ways: list[Row]) -> Row:
    row = {"max_budget": study["max_budget"], "width": study["width"], "units": study["units"]}
    row["batches"] = study["seconds"]
    return row | {name_of(way): way["s per unit"] * study["units"] for way in ways}


def show_goals(figures: dict[str, Any]) -> None:
    """What was hoped for, on a GPU, and what was measured."""
    for study in figures.get("mlp-studies", []):
        if (study["max_budget"], study["width"]) == GOAL and not TINY:
            for way in figures.get("mlp-single", []):
                show_factor(study, way, 15)
            for way in sorted(figures.get("mlp-shared", []), key=unit_seconds)[:1]:
                show_factor(study, way, 4)
    for row in figures.get("overhead", []):
        if row["batches"]:
            each, workers = row["ms per job"], row["workers"]
            is_good = reached(each < 1)
            print(f"overhead, workers={workers}: {each:.2f} ms per job (goal: below 1, {is_good})")


def show_factor(study: Row, way: Row, goal: int) -> None:
    factor = unit_seconds(way) * study["units"] / study["seconds"]
    print(
        f"max_budget {study['max_budget']}, width {study['width']}: batches are {factor:.1f} times "
        f"as fast as {name_of(way)} (goal: {goal}, {reached(factor >= goal)})"
    )


def unit_seconds(way: Row) -> float:
    return float(way["s per unit"])


def reached(is_reached: bool) -> str:
    return "reached" if is_reached else "not reached"


def plot(figures: dict[str, Any], path: str) -> None:
    """Time per config of an epoch by the size of a batch, and the time of studies."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for model in NETWORKS:
        rows = figures.get(f"{model}-epochs", [])
        for kind in dict.fromkeys((row["by"], row["mode"]) for row in rows):
            points = [row for row in rows if (row["by"], row["mode"]) == kind]
            x, y = ([row[name] for row in points] for name in ("n", "ms per config"))
            left.loglog(x, y, "o-", label=f"{model}, {', '.join(kind)}")
    left.set(xlabel="configs in a batch", ylabel="ms per config and epoch")
    left.legend(fontsize=8)
    for study in figures.get("mlp-studies", [])[:1]:  # the most important
        draw_ways(right, compared(study, ways_of(figures, "mlp")))
    figure.savefig(path, dpi=150)


def draw_ways(axes: Any, row: Row) -> None:
    names = [name for name in row if name not in ("max_budget", "width", "units")]
    bars = axes.barh(names, [row[name] for name in names])
    axes.bar_label(bars, fmt="{:,.0f} s", padding=3)
    axes.margins(x=0.15)
    axes.set(xlabel="seconds (batches: measured; others: extrapolated)")
    axes.set_title(f"mlp, max_budget {row['max_budget']}, width {row['width']}", fontsize=10)
    axes.invert_yaxis()


def ways_of(figures: dict[str, Any], model: str) -> list[Row]:
    return [*figures.get(f"{model}-single", []), *figures.get(f"{model}-shared", [])]


def machine() -> Row:
    name = torch.cuda.get_device_name() if GPU else "CPU, one thread"
    return {"device": name, "torch": torch.__version__, "tiny": TINY, "batch size": BATCH}


def main() -> None:
    kinds = ("epochs", "studies", "single", "shared")
    every = [f"{model}-{kind}" for model in NETWORKS for kind in kinds] + ["saving", "overhead"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--sections", default=",".join(every), help=", ".join(every))
    parser.add_argument("--minutes", type=float, default=20.0, help="start nothing that ends later")
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    parser.add_argument("--plot", help="draw the figures")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, on the GPU too")
    given = parser.parse_args()
    wanted = [name for name in given.sections.split(",") if name]
    if unknown := set(wanted) - set(every):
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}")
    known = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    bench = Bench(60 * given.minutes, {**known, "machine": machine()})
    print("no GPU was found: the CPU is measured" if not GPU else "", bench.figures["machine"])
    for name in wanted:
        start = time.monotonic()
        model, _, kind = name.rpartition("-")
        try:
            bench.figures[name] = getattr(bench, kind)(*([model] if model else []))
        except Exception:  # time on a GPU is short: the other sections are still measured
            traceback.print_exc()
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        if given.json:
            given.json.write_text(json.dumps(bench.figures, indent=1) + "\n")
    summary(bench.figures)
    if given.plot:
        plot(bench.figures, given.plot)


if __name__ == "__main__":
    if "--quick" in sys.argv:
        os.environ["DEEPBAND_QUICK"] = "1"
    import gpu  # workers import this module by its name, so that nothing of it is copied

    gpu.main()
