"""The probe: train with DP-SGD, record clipped batch gradients, compare predicted with measured."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from dptheory import _validate
from training import _argument_ranges
from training.data import NAMES, Images, load
from training.networks import IMAGE_SHAPE, layer_slices, small_tanh_cnn
from training.probe._measure import measure
from training.probe._measurement import Measurement, MeasureSettings
from training.runs import DpSgdSettings, Step, accuracy, dp_sgd, sampling_rate

DATA = tuple(name for name in NAMES if name != "cifar-10")  # the network takes 1 x 28 x 28 images


@dataclass(frozen=True, kw_only=True)
class Record:
    """The gradient of one step, GIP's Algorithm 2, line 8, and what was measured on it (None for an empty batch)."""

    step: int
    batch_size: int
    gradient: NDArray[np.float32]
    measurement: Measurement | None


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What the probe found; `accuracy` is that of the trained network on the test images, `test_images` many."""

    data: str
    train_images: int
    test_images: int
    sampling_rate: float
    training: DpSgdSettings
    measuring: MeasureSettings
    records: tuple[Record, ...]
    accuracy: float


def spread_steps(steps: int, *, count: int = 5) -> tuple[int, ...]:
    """`count` steps from 0 to the last, evenly spread; fewer where there are fewer steps.

    Args:
        steps: 1..1e9.
        count: 2..10,000.
    """
    steps = _argument_ranges.count("steps", steps)
    count = _validate.integer("count", count, 2, 10_000)
    return tuple(sorted({round(i * (steps - 1) / (count - 1)) for i in range(count)}))


def run_probe(
    *,
    data: str,
    training: DpSgdSettings,
    record: Iterable[int],
    keep_shares: tuple[float, ...],
    draws: int,
    device: torch.device,
) -> ProbeResult:
    """Train the small tanh CNN with DP-SGD and measure the clipped batch gradients of the recorded steps.

    Args:
        data: "excerpt", "fashion-mnist" or "mnist".
        training: how to train.
        record: steps to record, 0..steps - 1; step t is the gradient at the weights after t updates.
        keep_shares, draws: see :class:`training.probe.MeasureSettings`.
        device: where to train; the measuring is done with NumPy on the CPU.

    Raises:
        ValueError: a value outside its range.
        OSError: the data files are missing and cannot be fetched.

    Source: GIP, Algorithm 2, Assumption 1, Proposition 2 (gip.alg2, gip.assumption1, gip.mse_r, gip.mse_t0).
    """
    _validate.choice("data", data, DATA)
    wanted = {_validate.integer("record", step, 0, training.steps - 1) for step in record}
    if not wanted:
        raise ValueError(f"record must hold at least one step in 0..{training.steps - 1}, got none")
    measuring = MeasureSettings(
        keep_shares, draws=draws, noise_multiplier=training.noise_multiplier, max_grad_norm=training.max_grad_norm
    )
    train, test = load(name=data, train=True), load(name=data, train=False)
    model = small_tanh_cnn(training.stream(0))
    recorded = _train(model, train, training, wanted, device)
    rng = np.random.default_rng(training.stream(3))
    slices = layer_slices(model)
    records = []
    for step in recorded:
        gradient = step.gradient.detach().cpu().numpy()
        measurement = measure(gradient, slices, measuring, rng) if step.batch_size else None
        records.append(Record(step=step.index, batch_size=step.batch_size, gradient=gradient, measurement=measurement))
    return ProbeResult(
        data=data,
        train_images=len(train),
        test_images=len(test),
        sampling_rate=sampling_rate(batch_size=training.batch_size, train_size=len(train)),
        training=training,
        measuring=measuring,
        records=tuple(records),
        accuracy=accuracy(model, test, device),
    )


def _train(
    model: torch.nn.Module, images: Images, training: DpSgdSettings, wanted: set[int], device: torch.device
) -> list[Step]:
    if tuple(images.pixels.shape[1:]) != IMAGE_SHAPE:
        raise ValueError(f"images must have the shape {IMAGE_SHAPE}, got {tuple(images.pixels.shape[1:])}")
    bar = Console(stderr=True)
    steps = dp_sgd(model, images, training, device)
    shown = track(steps, "training", total=training.steps, console=bar, disable=not sys.stderr.isatty())
    return [step for step in shown if step.index in wanted]
