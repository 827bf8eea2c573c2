import itertools
from fractions import Fraction

from dptheory.claims._row import Sides, Source, Verdict, new_row

row = new_row(
    id="rs.noise_share",
    source=Source("rs", "section 4.1"),
    verdict=Verdict.HOLDS,
)


def _share(decrease: Fraction, rate: Fraction, clip: Fraction, sigma: Fraction, dim: int, batch: int) -> Fraction:
    """The noise term of the bound of one step over its other terms, G = 1."""
    noise = rate * clip**2 * sigma**2 * dim / (2 * batch**2)
    return noise / (decrease / rate + rate * clip**2 / 2)


@row.equal(
    lambda: itertools.product((Fraction(1, 10), Fraction(1)), (Fraction(1, 4), Fraction(2)), (1, 4), (7, 550_000))
)
def _(rate: Fraction, clip: Fraction, sigma: int, dim: int) -> Sides:
    """the share at no decrease"""
    return (
        Fraction(dim * sigma**2, 1000**2),
        lambda: _share(Fraction(0), rate, clip, Fraction(sigma), dim, 1000),
        Fraction(dim * sigma, 1000**2) + 1,
    )


@row.equal((Fraction(1, 10), Fraction(1, 4)), (Fraction(1), Fraction(3)))
def _(rate: Fraction, clip: Fraction) -> Sides:
    """it rises as the decrease falls"""
    path = [_share(Fraction(1, n), rate, clip, Fraction(2), 1000, 10) for n in range(1, 30)]
    return True, path == sorted(path), path == sorted(path, reverse=True)
