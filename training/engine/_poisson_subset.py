"""A Poisson sample of the numbers 0 to N - 1, drawn at the cost of what it holds: its size first, then that many numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = Callable[[int], NDArray[np.uint64]]
"""So many independent uniform 64-bit words."""

_WORD = 2**64
_LEFT_OUT = 129 * math.log(2)
"""Of Bernstein's bound 2 exp(-this) on the sizes outside the table: 2^-128."""
_DENSE = 8
"""From one record in so many on, marks on all records cost less than sorting those that are drawn."""


def poisson_subset(records: int, rate: float, words: Words) -> NDArray[np.int64]:
    """Every number below ``records`` is in the subset with probability ``rate``, independently.

    A subset of k numbers has the probability rate^k (1 - rate)^(records - k): it depends on k alone. So the size is drawn from
    its law, Binomial(records, rate), and then a subset of this size, all alike. The second draw is exact; the first is off by the
    factor that :class:`SizeLaw` states, and so is the chance of every subset.

    Args:
        records: N, 0..1e9.
        rate: q in (0, 1]; exactly the number that is given, no multiple of anything.
        words: where the randomness comes from.

    Returns:
        The numbers, ascending.
    """
    if rate == 1.0 or records == 0:
        return np.arange(records)
    size = size_law(records, rate).draw(words)
    if 2 * size <= records:
        return _uniform_subset(size, records, words)
    kept = np.ones(records, dtype=bool)
    kept[_uniform_subset(records - size, records, words)] = False
    return np.flatnonzero(kept)


@dataclass(frozen=True, eq=False)
class SizeLaw:
    r"""The law Binomial(N, q), tabled where it has mass.

    With u = 2^-53 and s the standard deviation, the chance with which k is drawn is the binomial one times a factor within
    :math:`1\pm u(6|k-Nq|+12(s+1))`, to first order in u. Ratios of neighbouring chances have six roundings, and multiply up
    from the mode on. Adding up from the nearer end moves a chance by u times the sum there; that is at most about (1.3 s + 1)
    chances on the nearer side of the median, and the number that is looked up has as many digits. The sizes left out have the
    chance 2^-128. At N q = 256 and ten standard deviations the factor is 1 + 1.3e-13, which a million steps add up to 3e-7 of
    epsilon at most; the total variation is 1e-14 of one step.

    Attributes:
        first: the smallest size in the table.
        below: chances of at most ``first``, ``first`` + 1, ... .
        above: chances of at least the last size, the one before, ... .
    """

    first: int
    below: NDArray[np.float64]
    above: NDArray[np.float64]

    def draw(self, words: Words) -> int:
        """A size, by inversion of a number of 127 bits from the end that one more bit picks: also rare sizes come as they must."""
        high, low = (int(word) for word in words(2))
        uniform = (high << 63 | low >> 1) / 2**128  # in [0, 1/2], rounded once
        if low & 1:
            return self.first + len(self.above) - 1 - int(np.searchsorted(self.above, uniform, side="right"))
        return self.first + int(np.searchsorted(self.below, uniform, side="right"))


@lru_cache(maxsize=16)
def size_law(records: int, rate: float) -> SizeLaw:
    """The law of the size of a Poisson sample.

    Args:
        records: N >= 1.
        rate: q in (0, 1).
    """
    mode = min(int((records + 1) * rate), records)
    variance = records * rate * (1.0 - rate)
    # where t^2 = 2 L (variance + t / 3), of Bernstein's bound 2 exp(-t^2 / (2 (variance + t / 3))) on a distance of t
    third = _LEFT_OUT / 3
    reach = math.ceil(third + math.sqrt(third**2 + 2 * _LEFT_OUT * variance)) + 2  # and from the mode to the mean
    sizes = np.arange(max(0, mode - reach), min(records, mode + reach) + 1)
    ratios = (records - sizes[:-1]) / (sizes[:-1] + 1) * (rate / (1.0 - rate))
    down, up = ratios[: mode - sizes[0]], ratios[mode - sizes[0] :]
    chances = np.r_[np.cumprod(1.0 / down[::-1])[::-1], 1.0, np.cumprod(up)]
    chances /= chances.sum()
    return SizeLaw(int(sizes[0]), np.cumsum(chances), np.cumsum(chances[::-1]))


def _uniform_subset(count: int, records: int, words: Words) -> NDArray[np.int64]:
    """A subset of ``count`` numbers below ``records``, all alike: numbers come until so many different ones are there.

    A round draws as many as are missing, so that the last number of all is the first that makes it ``count``; which these are
    has the same chance for every subset, since it has for every order of the numbers.
    """
    if count * _DENSE > records:
        marked = np.zeros(records, dtype=bool)
        while missing := count - int(np.count_nonzero(marked)):
            marked[_uniform(missing, records, words)] = True
        return np.flatnonzero(marked)
    found = np.zeros(0, dtype=np.int64)
    while missing := count - len(found):
        found = np.sort(np.concatenate((found, _uniform(missing, records, words))))
        found = np.concatenate((found[:1], found[1:][found[1:] > found[:-1]]))
    return found


def _uniform(count: int, records: int, words: Words) -> NDArray[np.int64]:
    """At most ``count`` numbers below ``records``, each with the same chance: words beyond the last multiple are left out."""
    drawn = words(count)
    drawn = drawn[drawn <= np.uint64(_WORD - 1 - _WORD % records)]
    return (drawn % np.uint64(records)).astype(np.int64)
