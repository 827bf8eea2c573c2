"""Random numbers of a torch generator, or, where there is none, of the operating system's cryptographic generator."""

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from dptheory.training import _argument_ranges

_T = TypeVar("_T")

Source = Callable[[int], bytes]
"""So many random bytes."""

_SUMMANDS = 4
_BITS = 52
"""Of a uniform number: with more, half a unit added to the largest would be rounded to 1, and its normal be infinite."""


def own_generator(seed: int | None) -> torch.Generator | None:
    """A generator on the CPU with the seed, in 0..2^63 - 1; None where there is no seed."""
    return None if seed is None else torch.Generator().manual_seed(_argument_ranges.seed("seed", seed))


def fresh_generator(device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose seed comes from the operating system now: ``torch.manual_seed`` does not reach it."""
    return torch.Generator(device).manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)


def seeded(seed: int, build: Callable[[], _T]) -> _T:
    """What ``build`` makes with torch's global random state at the seed, in 0..2^64 - 1; that state is left as it was."""
    seed = _argument_ranges.stream("seed", seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def permutation(count: int, generator: torch.Generator | None) -> torch.Tensor:
    """0, ..., count - 1 in random order."""
    return _secure_bits(count).argsort() if generator is None else torch.randperm(count, generator=generator)


def normal(shape: Sequence[int], generator: torch.Generator | None) -> torch.Tensor:
    """Independent standard normal numbers."""
    if generator is None:
        return secure_normal(int(np.prod(shape))).view(tuple(shape)).float()
    return torch.randn(tuple(shape), generator=generator)


def secure_normal(count: int, source: Source | None = None) -> torch.Tensor:
    """Independent standard normal numbers in double precision from the operating system's generator, each half a sum of four.

    Attacks that read the bits of a single floating-point draw (arXiv:2107.10138, 2112.05307) do not apply to sums.

    Args:
        count: how many.
        source: of random bytes, as ``os.urandom``, which it is where none is given; an audit hands in bytes that it knows.
    """
    total: torch.Tensor = torch.stack([_inverted(_secure_bits(count, source)) for _ in range(_SUMMANDS)]).sum(0)
    total /= _SUMMANDS**0.5
    return total


def _secure_bits(count: int, source: Source | None = None) -> torch.Tensor:
    """64 random bits each, as int64."""
    drawn = os.urandom(8 * count) if source is None else source(8 * count)
    return torch.from_numpy(np.frombuffer(drawn, dtype=np.int64).copy())


def _inverted(bits: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers by inversion of uniforms that are never 0 or 1."""
    uniform = ((bits & (2**_BITS - 1)).double() + 0.5) / 2**_BITS
    found: torch.Tensor = torch.special.ndtri(uniform)
    return found
