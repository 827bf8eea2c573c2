"""The probe: train with DP-SGD, record clipped batch gradients, compare predicted with measured."""

import sys
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training.data import NAMES, Images, load
from dptheory.training.measure._gradient import measure_gradient
from dptheory.training.measure._rows import MeasureSettings, Moment, ProbeSettings, Result
from dptheory.training.networks import IMAGE_SHAPE, layer_slices, small_tanh_cnn
from dptheory.training.runs import DpSgdSettings, Step, accuracy, dp_sgd

DATA = tuple(name for name in NAMES if name != "cifar-10")  # the network takes 1 x 28 x 28 images


def spread_steps(steps: int, *, count: int = 5) -> tuple[int, ...]:
    """Steps from 0 to the last, evenly spread: round(i (T - 1) / (n - 1)) for i = 0..n - 1.

    Args:
        steps: T, 1..1e9.
        count: n, 2..10,000.

    Returns:
        The steps in rising order, each once: fewer than ``count`` where there are fewer steps.

    Example: five steps from the first to the last, or all where there are fewer.
        >>> from dptheory.training.measure import spread_steps
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
) -> Result:
    """Train the small tanh CNN with DP-SGD and measure the clipped batch gradients of the recorded steps.

    Args:
        data: "excerpt", "fashion-mnist" or "mnist".
        training: how to train.
        record: steps to record, 0..steps - 1; step t is the gradient at the weights after t updates.
        keep_shares, draws: see :class:`dptheory.training.measure.MeasureSettings`.
        device: where to train; the measuring is done with NumPy on the CPU.

    Returns:
        Settings, moments and the accuracy of the trained network.

    Raises:
        OSError: the data files are missing and cannot be fetched.

    Source: GIP, Algorithm 2, Assumption 1, Proposition 2 (gip.alg2, gip.assumption1, gip.mse_r, gip.mse_t0).

    Example: one step on the excerpt, its tables and its files.
        >>> import tempfile
        >>> from pathlib import Path
        >>> import torch
        >>> from dptheory.training.measure import fit_table, run_probe, to_dict, write_gradients, write_json
        >>> from dptheory.training.runs import DpSgdSettings
        >>> settings = DpSgdSettings(
        ...     steps=1, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0)
        >>> result = run_probe(data="excerpt", training=settings, record=[0], keep_shares=(0.1,), draws=2,
        ...     device=torch.device("cpu"))
        >>> (moment,) = result.moments
        >>> moment.gradient.shape, to_dict(result, torch.device("cpu"))["expected_batch_size"]
        ((26010,), 50.0)
        >>> fit_table(result).row_count, [row.within for row in moment.rows if row.quantity == "noise_mse"]
        (1, [True])
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
    return Result(
        data=data,
        train_images=len(train),
        test_images=len(test),
        settings=ProbeSettings(training, measuring),
        moments=tuple(_moment(step, slices, measuring, rng) for step in recorded),
        accuracy=accuracy(model, test, device),
    )


def _moment(step: Step, layers: dict[str, slice], measuring: MeasureSettings, rng: np.random.Generator) -> Moment:
    gradient = step.gradient.detach().cpu().numpy()
    about = Moment(name=f"step {step.index}", step=step.index, batch_size=step.batch_size, rows=(), gradient=gradient)
    if not step.batch_size:
        return replace(about, notes=("empty Poisson batch: nothing to compare",))
    fit, rows = measure_gradient(gradient, layers, measuring, rng)
    return replace(about, fit=fit, rows=rows)


def check_shape(images: Images) -> None:
    """See that the network takes the images."""
    if tuple(images.pixels.shape[1:]) != IMAGE_SHAPE:
        raise ArgumentError("images", f"have the shape {IMAGE_SHAPE}", tuple(images.pixels.shape[1:]))


def _train(
    model: torch.nn.Module, images: Images, training: DpSgdSettings, wanted: set[int], device: torch.device
) -> list[Step]:
    check_shape(images)
    bar = Console(stderr=True)
    steps = dp_sgd(model, images, training, device)
    shown = track(steps, "training", total=training.steps, console=bar, disable=not sys.stderr.isatty())
    return [step for step in shown if step.index in wanted]
