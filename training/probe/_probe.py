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
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training.data import NAMES, Images, load
from dptheory.training.networks import IMAGE_SHAPE, layer_slices, small_tanh_cnn
from dptheory.training.probe._measure import measure
from dptheory.training.probe._measurement import Measurement, MeasureSettings
from dptheory.training.runs import DpSgdSettings, Step, accuracy, dp_sgd, sampling_rate

DATA = tuple(name for name in NAMES if name != "cifar-10")  # the network takes 1 x 28 x 28 images


@dataclass(frozen=True, kw_only=True)
class Record:
    """The gradient of one step, GIP's Algorithm 2, line 8, and what was measured on it.

    Attributes:
        step: 0, 1, ...: updates made before.
        batch_size: examples in the Poisson batch.
        gradient: the clipped sum, shape (d,), float32.
        measurement: None for an empty batch.

    Source: GIP, Algorithm 2, line 8 (gip.alg2).
    """

    step: int
    batch_size: int
    gradient: NDArray[np.float32]
    measurement: Measurement | None


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What the probe found.

    Attributes:
        data: the image set.
        train_images, test_images: how many there were.
        sampling_rate: of the Poisson batches.
        training: how the network was trained.
        measuring: what was measured.
        records: one per recorded step, in order.
        accuracy: of the trained network on the test images, in [0, 1].
    """

    data: str
    train_images: int
    test_images: int
    sampling_rate: float
    training: DpSgdSettings
    measuring: MeasureSettings
    records: tuple[Record, ...]
    accuracy: float


def spread_steps(steps: int, *, count: int = 5) -> tuple[int, ...]:
    """Steps from 0 to the last, evenly spread: round(i (T - 1) / (n - 1)) for i = 0..n - 1.

    Args:
        steps: T, 1..1e9.
        count: n, 2..10,000.

    Returns:
        The steps in rising order, each once: fewer than ``count`` where there are fewer steps.

    Raises:
        ValueError: an argument outside its range.

    Example: five steps from the first to the last, or all where there are fewer.
        >>> from dptheory.training.probe import spread_steps
        >>> spread_steps(101), spread_steps(3)
        ((0, 25, 50, 75, 100), (0, 1, 2))
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
        keep_shares, draws: see :class:`dptheory.training.probe.MeasureSettings`.
        device: where to train; the measuring is done with NumPy on the CPU.

    Returns:
        Settings, records and the accuracy of the trained network.

    Raises:
        ValueError: a value outside its range.
        OSError: the data files are missing and cannot be fetched.

    Source: GIP, Algorithm 2, Assumption 1, Proposition 2 (gip.alg2, gip.assumption1, gip.mse_r, gip.mse_t0).

    Example: one step on the excerpt, its tables and its files.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.probe import fit_table, row_table, run_probe, to_dict, write_gradients, write_json
        >>> from dptheory.training.runs import DpSgdSettings
        >>> settings = DpSgdSettings(
        ...     steps=1, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0)
        >>> result = run_probe(data="excerpt", training=settings, record=[0], keep_shares=(0.1,), draws=2,
        ...     device=torch.device("cpu"))
        >>> (record,) = result.records
        >>> record.gradient.shape, result.sampling_rate, to_dict(result, torch.device("cpu"))["expected_batch_size"]
        ((26010,), 0.025, 50.0)
        >>> fit_table(result).row_count, row_table(record).row_count == len(record.measurement.rows)
        (1, True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_json(result, torch.device("cpu"), Path(folder) / "probe.json")
        ...     write_gradients(result, Path(folder) / "probe.npz")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['probe.json', 'probe.npz']
    """
    _validate.choice("data", data, DATA)
    wanted = {_validate.integer("record", step, 0, training.steps - 1) for step in record}
    if not wanted:
        raise ArgumentError("record", f"hold at least one step in 0..{training.steps - 1}", record, got="none")
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
        raise ArgumentError("images", f"have the shape {IMAGE_SHAPE}", tuple(images.pixels.shape[1:]))
    bar = Console(stderr=True)
    steps = dp_sgd(model, images, training, device)
    shown = track(steps, "training", total=training.steps, console=bar, disable=not sys.stderr.isatty())
    return [step for step in shown if step.index in wanted]
