"""DP-SGD on Opacus, one step at a time."""

import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory import _validate
from training import _argument_ranges
from training.data import Images


@dataclass(frozen=True, kw_only=True)
class DpSgdSettings:
    """What determines a DP-SGD run besides the model and the images.

    Args:
        steps: number of updates, >= 1.
        batch_size: expected batch size, >= 1 and at most the number of images. Opacus samples each image with
            rate 1 / ceil(N / batch_size), so that the mean is a little below it where it does not divide N.
        noise_multiplier: sigma, 0 or in [1e-6, 1e6]; the noise on the sum has standard deviation sigma C.
        max_grad_norm: the clip C, in [1e-12, 1e12].
        learning_rate: in [1e-15, 1e6].
        seed: 0 to 2^63 - 1; fixes the starting weights, the Poisson samples and the noise.

    Raises:
        ValueError: a value outside its range.

    Source: GIP, Algorithm 2 without its line 9 (gip.alg2).
    """

    steps: int
    batch_size: int
    noise_multiplier: float
    max_grad_norm: float
    learning_rate: float
    seed: int

    def __post_init__(self) -> None:
        _validate.store(
            self,
            steps=_argument_ranges.count("steps", self.steps),
            batch_size=_argument_ranges.count("batch_size", self.batch_size),
            noise_multiplier=_argument_ranges.noise_multiplier("noise_multiplier", self.noise_multiplier),
            max_grad_norm=_argument_ranges.clip("max_grad_norm", self.max_grad_norm),
            learning_rate=_argument_ranges.learning_rate("learning_rate", self.learning_rate),
            seed=_argument_ranges.seed("seed", self.seed),
        )

    def stream(self, purpose: int) -> int:
        """An independent seed for the weights (0), the Poisson samples (1), the noise (2) or the measuring (3)."""
        return int(np.random.SeedSequence((self.seed, purpose)).generate_state(1, np.uint64)[0])


@dataclass(frozen=True, kw_only=True)
class Step:
    """One update that was made.

    `gradient` is the clipped batch gradient before the noise, the SUM over the batch (GIP, Algorithm 2, line 8), at the
    weights before the update; flattened in the order of model.parameters(). An empty batch has the zero vector.
    """

    index: int
    batch_size: int
    gradient: torch.Tensor


def sampling_rate(*, batch_size: int, train_size: int) -> float:
    """The Poisson sampling rate that Opacus takes for an expected batch size: 1 / ceil(train_size / batch_size)."""
    train_size = _argument_ranges.count("train_size", train_size)
    batch_size = _validate.integer("batch_size", batch_size, 1, train_size)
    return 1.0 / -(-train_size // batch_size)


def dp_sgd(model: nn.Module, images: Images, settings: DpSgdSettings, device: torch.device) -> Iterator[Step]:
    """Train `model` in place with DP-SGD under Poisson sampling, yielding after each update.

    Bit for bit the same on every run of one CPU. The random numbers come from an ordinary generator: good for
    measuring, not for releasing a model trained on private data.

    Args:
        model: takes the images, returns class scores; moved to `device`.
        images: the training images.
        settings: see :class:`DpSgdSettings`.
        device: where to train.

    Raises:
        ValueError: batch_size is above the number of images.
    """
    sampling_rate(batch_size=settings.batch_size, train_size=len(images))
    return _steps(model.to(device).train(), images, settings, device)


def _steps(model: nn.Module, images: Images, settings: DpSgdSettings, device: torch.device) -> Iterator[Step]:
    loader = DataLoader(
        TensorDataset(images.pixels, images.labels),
        batch_size=settings.batch_size,
        generator=torch.Generator().manual_seed(settings.stream(1)),
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Secure RNG turned off")
        engine = PrivacyEngine(accountant="rdp")
    private, optimizer, batches = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=settings.learning_rate),
        data_loader=loader,
        noise_multiplier=settings.noise_multiplier,
        max_grad_norm=settings.max_grad_norm,
        noise_generator=torch.Generator(device).manual_seed(settings.stream(2)),
    )
    endless = itertools.chain.from_iterable(itertools.repeat(batches))
    try:
        for index, (pixels, labels) in enumerate(itertools.islice(endless, settings.steps)):
            optimizer.zero_grad()
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Full backward hook is firing")
                nn.functional.cross_entropy(private(pixels.to(device)), labels.to(device)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            # Opacus leaves the clipped sum in summed_grad and puts the noise into grad
            clipped_sum = torch.cat([p.summed_grad.flatten() for p in optimizer.params])
            yield Step(index=index, batch_size=len(labels), gradient=clipped_sum)
    finally:
        private.cleanup()  # also when the caller stops early: the model gets its hooks off


@torch.no_grad()
def accuracy(model: nn.Module, images: Images, device: torch.device) -> float:
    """Share of the images whose class gets the highest score, in [0, 1]."""
    was_training = model.training
    model.to(device).eval()
    right = 0
    for pixels, labels in zip(torch.split(images.pixels, 1000), torch.split(images.labels, 1000), strict=True):
        right += int((model(pixels.to(device)).argmax(1) == labels.to(device)).sum())
    model.train(was_training)
    return right / len(images)


def pick_device(wanted: str) -> torch.device:
    """The device to train on: "auto" is CUDA where there is one, otherwise the CPU.

    Raises:
        ValueError: another name than "auto", "cpu" or "cuda", or "cuda" where there is none.
    """
    _validate.choice("wanted", wanted, ("auto", "cpu", "cuda"))
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ValueError("device='cuda', but torch finds no CUDA device here; use 'auto' or 'cpu'")
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wanted)
