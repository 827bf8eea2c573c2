"""The noise of a release: from a torch generator, or from the operating system's cryptographic one."""

import torch

from dptheory import _validate
from training._randomness import secure_normal
from training.mechanisms import Noise


def generator_noise(generator: torch.Generator | None) -> Noise:
    """Gaussian noise from a torch generator (None: torch's global one). Good for measuring, not for releasing a model."""

    if generator is not None:
        _validate.instance("generator", generator, torch.Generator)

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        if std == 0:
            return torch.zeros_like(like)
        return torch.normal(0.0, std, like.shape, generator=generator, device=like.device, dtype=like.dtype)

    return noise


def secure_noise(like: torch.Tensor, std: float) -> torch.Tensor:
    """Gaussian noise from the operating system's cryptographic generator: cannot be repeated, slower than a torch generator.

    Args:
        like: shape, type and device of the noise.
        std: its standard deviation, in [0, 1e30].
    """
    _validate.instance("like", like, torch.Tensor)
    std = _validate.real("std", std, 0.0, 1e30)
    if std == 0:
        return torch.zeros_like(like)
    return (secure_normal(like.numel()) * std).view(like.shape).to(like)
