"""Random numbers of a torch generator, or, where there is none, of the operating system's cryptographic generator."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from dptheory.training import _argument_ranges

_T = TypeVar("_T")

Source = Callable[[int], bytes]
"""So many random bytes."""

_SUMMANDS = 4
_SIDES = 1 << 15
"""Of the coins of :func:`subset`, whose law does not depend on their chance."""
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


def subset(size: int, count: int, generator: torch.Generator | None) -> torch.Tensor:
    """A mask of ``size`` entries, uniform among those with ``count`` ones; count in 0..size.

    Each entry is first drawn by a coin of its own, all with one chance: given how many come out, all masks of so many are as
    likely. Then as many as are too many, or too few, are changed at random. A permutation of all entries takes four times as long.
    """
    chosen = _coins(size, round(count / size * _SIDES) if size else 0, generator)
    ones = int(chosen.count_nonzero())  # a sum makes whole numbers of all first
    excess = ones - count
    if excess:
        there = ones if excess > 0 else size - ones
        chosen[_some(chosen, excess > 0, abs(excess), there, generator)] = excess < 0
    return chosen


def _some(
    chosen: torch.Tensor, wanted: bool, count: int, there: int, generator: torch.Generator | None
) -> torch.Tensor:
    """``count`` distinct places of the ``there`` where a mask is as wanted, uniformly: the first of a row of draws that are so."""
    size = len(chosen)
    if 8 * there < size or 4 * count > there:  # few draws would be so, or many come twice: draw among them
        places = (chosen if wanted else ~chosen).nonzero().flatten()
        return places[permutation(there, generator)[:count]]
    found: dict[int, None] = {}
    while len(found) < count:
        drawn = _below(size, 4 * count, generator)
        found.update(dict.fromkeys(drawn[chosen[drawn] == wanted].tolist()))
    return torch.tensor(list(found)[:count])


def _coins(size: int, sides: int, generator: torch.Generator | None) -> torch.Tensor:
    """Independent coins that show True with probability sides / 2^15."""
    if generator is None:
        words = torch.from_numpy(np.frombuffer(os.urandom(2 * size), dtype=np.int16).copy())
    else:  # four coins of each number of 63 bits
        words = torch.empty((size + 3) // 4, dtype=torch.int64).random_(generator=generator).view(torch.int16)[:size]
    return (words & (_SIDES - 1)) < sides


def _below(size: int, count: int, generator: torch.Generator | None) -> torch.Tensor:
    """Independent whole numbers in 0..size - 1."""
    if generator is None:  # 64 bits for each: the bias is below size / 2^63
        return (_secure_bits(count) & (2**63 - 1)) % size
    return torch.randint(size, (count,), generator=generator)


def normal(shape: Sequence[int], generator: torch.Generator | None) -> torch.Tensor:
    """Independent standard normal numbers."""
    if generator is None:
        return secure_normal(int(np.prod(shape))).view(tuple(shape)).float()
    return torch.randn(tuple(shape), generator=generator)


def secure_normal(count: int, source: Source | None = None) -> torch.Tensor:
    """Independent standard normal numbers in double precision from the operating system's generator, each half a sum of four.

    Attacks that read the bits of a single floating-point draw (arXiv:2107.10138, 2112.05307) do not apply to sums.
    """
    total: torch.Tensor = torch.stack([_inverted(_secure_bits(count, source)) for _ in range(_SUMMANDS)]).sum(0)
    total /= _SUMMANDS**0.5
    return total


def _secure_bits(count: int, source: Source | None = None) -> torch.Tensor:
    """64 random bits each, as int64."""
    drawn = (
        os.urandom(8 * count) if source is None else source(8 * count)
    )  # the kernel's generator: no seed in this process
    return torch.from_numpy(np.frombuffer(drawn, dtype=np.int64).copy())


def _inverted(bits: torch.Tensor) -> torch.Tensor:
    """Standard normal numbers by inversion of uniforms that are never 0 or 1."""
    uniform = ((bits & (2**_BITS - 1)).double() + 0.5) / 2**_BITS
    found: torch.Tensor = torch.special.ndtri(uniform)
    return found


# --- What the user's own code is about to draw


@dataclass(frozen=True)
class RandomStates:
    """What the global generators of torch, NumPy and Python are about to draw."""

    torch_cpu: torch.Tensor | None
    torch_cuda: tuple[torch.Tensor, ...] | None
    numpy: Any
    python: Any

    @classmethod
    def now(cls, *, of_torch: bool = True, of_cuda: bool = True) -> "RandomStates":
        """As they are; those of torch only where the run takes neither noise nor batches from them.

        Noise or batches that were drawn once must not be drawn again, so that a generator of theirs never goes back.
        """
        cuda = of_torch and of_cuda and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        return cls(
            torch.get_rng_state() if of_torch else None,
            tuple(torch.cuda.get_rng_state_all()) if cuda else None,
            np.random.get_state(),  # noqa: NPY002 -- that of the user's loop
            random.getstate(),
        )

    def still(self) -> bool:
        """Whether nothing was drawn since then."""
        now = RandomStates.now(of_torch=self.torch_cpu is not None, of_cuda=self.torch_cuda is not None)
        return self._parts() == now._parts()

    def _parts(self) -> tuple[Any, ...]:
        kind, *rest = self.numpy if isinstance(self.numpy, tuple) else (self.numpy,)
        arrays = [one.numpy() for one in (self.torch_cpu, *(self.torch_cuda or ())) if one is not None]
        return [one.tobytes() for one in (*arrays, *rest[:1])], str(kind), rest[1:], self.python

    def restore(self) -> None:
        """Set them back."""
        if self.torch_cpu is not None:
            torch.set_rng_state(self.torch_cpu)
        if self.torch_cuda is not None:
            torch.cuda.set_rng_state_all(list(self.torch_cuda))
        np.random.set_state(self.numpy)  # noqa: NPY002
        random.setstate(self.python)
