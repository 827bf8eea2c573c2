import math
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.unique",
    source=Source("rs", "abstract, sections 1.1, 6.1 and 7"),
    verdict=Verdict.NOT_SHOWN,
)


def _descent_ratio(first: int, second: int, length: int) -> Fraction:
    """E<w, masked clipped g> over E<w, clipped g> for g = (first, +-second), w = (first, 0), C = 1, r = 1/2, by enumeration."""

    def inner(mask: tuple[int, int], sign: int) -> Fraction:
        g = (first * mask[0], sign * second * mask[1])
        square = g[0] ** 2 + g[1] ** 2
        size = math.isqrt(square)
        if size**2 != square:
            raise ValueError(f"second must make |g| whole, got {second!r}")
        return Fraction(first * g[0]) * min(Fraction(1), Fraction(1, size))

    masked = sum((inner(mask, sign) for mask in ((1, 0), (0, 1)) for sign in (1, -1)), Fraction(0)) / 4
    return masked / sum((inner((1, 1), sign) for sign in (1, -1)), Fraction(0)) * 2


@row.equal((3, 4, 5), (9, 40, 41), (21, 220, 221), kind=Kind.COUNTEREXAMPLE)
def _(first: int, second: int, length: int) -> Sides:
    """descent with the mask over descent without"""
    return (
        Fraction(length, 2 * first),
        lambda: _descent_ratio(first, second, length),
        min(Fraction(1), Fraction(length, 2 * first)),
    )
