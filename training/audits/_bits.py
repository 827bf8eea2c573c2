"""How fine secure noise is: what a coarse number hides, its last digits may tell."""

import numpy as np
import torch
from numpy.typing import NDArray

from dptheory.training._randomness import secure_normal
from dptheory.training.audits import _findings
from dptheory.training.audits._findings import Finding
from dptheory.training.engine import secure_noise

_WORD = 64
_SUMMANDS = 4
_BITS = 52
_DRAWS = 1 << 16


def secure_bits() -> list[Finding]:
    """Each bit that noise is made of, and how often it repeats."""
    drawn = secure_noise(torch.zeros(_DRAWS, dtype=torch.float64), 1.0)
    # Near 0, where they are densest, half sums of four are 5e-16 / 2 apart at most: two of 65,536 agree with probability 1e-7.
    return [
        _findings.at_least(
            "secure noise: bits",
            "every one of 52 random bits of each of four summands changes a number",
            min(_moving_bits(word) for word in range(_SUMMANDS)),
            _BITS,
        ),
        _findings.equal("secure noise: repeats", "no two numbers are one", _DRAWS - len(np.unique(drawn.numpy())), 0.0),
    ]


def _moving_bits(word: int) -> int:
    """How many random bits of one summand change the number.

    All four are next to the middle of their law, where the number is next to 0 and rounding takes no digit away.
    """
    middle = np.full(_SUMMANDS, 1 << (_BITS - 1), dtype=np.uint64)
    moved = 0
    for bit in range(_WORD):
        words = middle.copy()
        words[word] ^= np.uint64(1 << bit)
        moved += _of_bits(words) != _of_bits(middle)
    return moved


def _of_bits(words: NDArray[np.uint64]) -> float:
    """The normal number that these random words make, one for each summand; of what is drawn beside, 0."""
    left = iter(words)
    return float(secure_normal(1, lambda count: np.uint64(next(left, 0)).tobytes()[:count]))
