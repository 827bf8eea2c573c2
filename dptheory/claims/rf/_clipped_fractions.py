"""Clipping in fractions, for gradients whose masked norms are whole."""

import math
from fractions import Fraction

Point = tuple[int, ...]


def clipped(g: Point, mask: Point, bound: int) -> tuple[Fraction, ...]:
    """clip(m*g).

    Raises:
        ValueError: the masked norm is not whole.
    """
    kept = tuple(a * m for a, m in zip(g, mask, strict=True))
    size = math.isqrt(sum(a * a for a in kept))
    if size**2 != sum(a * a for a in kept):
        raise ValueError(f"g must have whole masked norms, got {g!r}")
    return tuple(Fraction(a) * min(Fraction(1), Fraction(bound, max(size, 1))) for a in kept)
