"""What determines a plain run of DP-SGD, the accuracy of its network, and the device it runs on."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from dptheory import _validate
from dptheory.errors import ArgumentError
from dptheory.training import _argument_ranges
from dptheory.training.data import Images


@dataclass(frozen=True, kw_only=True)
class DpSgdSettings:
    """What determines a DP-SGD run besides the model and the images.

    Args:
        steps: number of updates, 1..1e9.
        batch_size: expected batch size, >= 1 and at most the number of images. Opacus samples each image with
            rate 1 / ceil(N / batch_size), so that the mean is a little below it where it does not divide N.
        noise_multiplier: sigma, 0 or in [1e-6, 1e6]; the noise on the sum has standard deviation sigma C.
        max_grad_norm: the clip C, in [1e-12, 1e12].
        learning_rate: in [1e-15, 1e6].
        seed: 0 to 2^63 - 1; fixes the starting weights, the Poisson samples and the noise.

    Source: GIP, Algorithm 2 without its line 9 (gip.alg2).

    Example: the seeds of weights and of samples differ.
        >>> from dptheory.training.runs import DpSgdSettings
        >>> settings = DpSgdSettings(
        ...     steps=10, batch_size=50, noise_multiplier=1.0, max_grad_norm=1.0, learning_rate=0.1, seed=0)
        >>> settings.stream(0) == settings.stream(1)
        False
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


def sampling_rate(*, batch_size: int, train_size: int) -> float:
    """The Poisson sampling rate that Opacus takes for an expected batch size: 1 / ceil(train_size / batch_size).

    Args:
        batch_size: expected, 1..train_size.
        train_size: number of training examples, 1..1e9.

    Returns:
        Rate, in (0, 1].

    Example: batches of 300 cut 1000 examples into four parts, the last one smaller: the rate is a quarter.
        >>> from dptheory.training.runs import sampling_rate
        >>> sampling_rate(batch_size=300, train_size=1000)
        0.25
    """
    train_size = _argument_ranges.count("train_size", train_size)
    batch_size = _validate.integer("batch_size", batch_size, 1, train_size)
    return 1.0 / -(-train_size // batch_size)


@torch.no_grad()
def accuracy(model: nn.Module, images: Images, device: torch.device) -> float:
    """Share of the images whose class gets the highest score.

    Args:
        model: takes the images, returns class scores; moved to ``device``, left in the mode it was in.
        images: to judge it by, at least one.
        device: where to compute.

    Returns:
        Share, in [0, 1].

    Raises:
        ValueError: another number of labels than of pictures.

    Example: the scores of two images are their pixels, classes 0 and 1, of which one is right.
        >>> import torch
        >>> from dptheory.training.data import Images
        >>> from dptheory.training.runs import accuracy
        >>> images = Images("two", torch.eye(2)[:, None, None], torch.tensor([0, 0]))
        >>> accuracy(torch.nn.Flatten(), images, torch.device("cpu"))
        0.5
    """
    was_training = model.training
    model.to(device).eval()
    right = 0
    for pixels, labels in zip(torch.split(images.pixels, 1000), torch.split(images.labels, 1000), strict=True):
        right += int((model(pixels.to(device)).argmax(1) == labels.to(device)).sum())
    model.train(was_training)
    return right / len(images)


def pick_device(wanted: str) -> torch.device:
    """The device to train on: "auto" is CUDA where there is one, otherwise the CPU.

    Args:
        wanted: "auto", "cpu" or "cuda".

    Returns:
        The device.

    Raises:
        ValueError: another name, or "cuda" where there is none.

    Example: the CPU is always there.
        >>> from dptheory.training.runs import pick_device
        >>> pick_device("cpu")
        device(type='cpu')
    """
    _validate.choice("wanted", wanted, ("auto", "cpu", "cuda"))
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("device", "be 'auto' or 'cpu' where torch finds no CUDA device", wanted)
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wanted)
