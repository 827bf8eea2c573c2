"""The noise of a release: from a torch generator, or from the operating system's cryptographic one."""

import torch

from training.mechanisms._base import Noise
from training.randomness import secure_normal


def generator_noise(generator: torch.Generator | None) -> Noise:
    """Gaussian noise from a torch generator (None: torch's global one). Good for measuring, not for releasing a model."""

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        if std == 0:
            return torch.zeros_like(like)
        return torch.normal(0.0, std, like.shape, generator=generator, device=like.device, dtype=like.dtype)

    return noise


def secure_noise(like: torch.Tensor, std: float) -> torch.Tensor:
    """Gaussian noise from the operating system's cryptographic generator: cannot be repeated, slower than a torch generator."""
    if std == 0:
        return torch.zeros_like(like)
    return (secure_normal(like.numel()) * std).view(like.shape).to(like)
