"""Where noise comes from: a torch generator, or the operating system's cryptographic one."""

import os

import torch

from training.mechanisms._base import Noise

_SUMMANDS = 4
_BITS = 53


def generator_noise(generator: torch.Generator | None) -> Noise:
    """Gaussian noise from a torch generator (None: torch's global one). Good for measuring, not for releasing a model."""

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        if std == 0:
            return torch.zeros_like(like)
        return torch.normal(0.0, std, like.shape, generator=generator, device=like.device, dtype=like.dtype)

    return noise


def secure_noise(like: torch.Tensor, std: float) -> torch.Tensor:
    """Gaussian noise from the operating system's cryptographic generator.

    Half the sum of four independent draws, in double precision: the floating-point attacks that read the bits of a single draw
    (arXiv:2107.10138, 2112.05307) do not apply. It cannot be repeated, and is slower than a torch generator.
    """
    if std == 0:
        return torch.zeros_like(like)
    total = sum(_secure_normal(like.numel()) for _ in range(_SUMMANDS))
    assert isinstance(total, torch.Tensor)
    scaled: torch.Tensor = total * (std / _SUMMANDS**0.5)
    return scaled.view(like.shape).to(like)


def _secure_normal(count: int) -> torch.Tensor:
    """Standard normal draws by inversion of 53-bit uniforms that are never 0 or 1."""
    raw = torch.frombuffer(bytearray(os.urandom(8 * count)), dtype=torch.int64)
    uniform = ((raw & (2**_BITS - 1)).double() + 0.5) / 2**_BITS
    normal: torch.Tensor = torch.special.ndtri(uniform)
    return normal
