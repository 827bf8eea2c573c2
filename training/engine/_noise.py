"""The noise of a release: from a torch generator, or from the operating system's cryptographic one."""

import torch

from dptheory import _validate
from dptheory.training._randomness import secure_normal
from dptheory.training._streams import NOISE, Stream
from dptheory.training.mechanisms import Noise

_AT_ONCE = 1 << 18
"""Numbers of secure noise that are worked out together."""


def generator_noise(generator: torch.Generator | None) -> Noise:
    """Gaussian noise N(0, std^2) from a torch generator. Good for measuring, not for releasing a model.

    Args:
        generator: of any device. One number is drawn from it, as a seed, so that setting the generator back later does not bring
            noise back. None for a seed from the operating system, which ``torch.manual_seed`` does not reach.

    Returns:
        ``noise(like, std)``: independent entries in the shape, type and device of ``like``; zeros where std is 0.

    Raises:
        ValueError: neither a generator nor None.

    Example: noise of standard deviation 4 in the shape of a tensor; standard deviation 0 gives zeros.
        >>> import torch
        >>> from dptheory.training.engine import generator_noise
        >>> noise = generator_noise(torch.Generator().manual_seed(0))
        >>> noise(torch.zeros(2, 3), 4.0).shape, noise(torch.zeros(2), 0.0)
        (torch.Size([2, 3]), tensor([0., 0.]))
    """
    if generator is not None:
        _validate.instance("generator", generator, torch.Generator)
    return noise_of(generator)[1]


def noise_of(generator: torch.Generator | None) -> tuple[Stream, Noise]:
    """:func:`generator_noise`, and the stream that it comes from."""
    stream = Stream(generator, NOISE)

    def noise(like: torch.Tensor, std: float) -> torch.Tensor:
        if std == 0:
            return torch.zeros_like(like)
        source = stream.on(like.device)  # in a simulation a generator of the user's, of whatever device
        drawn = torch.normal(0.0, std, like.shape, generator=source, device=source.device, dtype=like.dtype)
        return drawn.to(like.device)

    return stream, noise


def secure_noise(like: torch.Tensor, std: float) -> torch.Tensor:
    """Gaussian noise N(0, std^2) from the operating system's cryptographic generator: cannot be repeated, slower than torch's.

    Each number is half a sum of four, so that attacks on the bits of one floating-point draw do not apply.

    Args:
        like: shape, type and device of the noise.
        std: its standard deviation, in [0, 1e30].

    Returns:
        Independent entries in the shape, type and device of ``like``; zeros where std is 0.

    Raises:
        ValueError: no tensor, or a standard deviation outside its range.

    Example: the standard deviation of 10,000 draws is near the 4 that was asked for.
        >>> import torch
        >>> from dptheory.training.engine import secure_noise
        >>> drawn = secure_noise(torch.zeros(10_000), 4.0)
        >>> 3.5 < float(drawn.std()) < 4.5  # 17 standard errors to either side
        True
    """
    _validate.instance("like", like, torch.Tensor)
    std = _validate.real("std", std, 0.0, 1e30)
    if std == 0:
        return torch.zeros_like(like)
    found = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    for piece in torch.split(
        found.view(-1), _AT_ONCE
    ):  # worked out in double precision, which takes room: not all at once
        piece.copy_(secure_normal(len(piece)) * std)
    return found


secure_noise.in_one_draw = True  # type: ignore[attr-defined]  # see mechanisms: a call has a price of its own
