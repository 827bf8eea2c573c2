import itertools
from collections.abc import Iterator
from fractions import Fraction

from dptheory import convergence
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rs.as_tight",
    source=Source("rs", "section 3.3, text after equation 15", (15,)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound,),
)


def _second_moment(square: Fraction, dim: int, keep: int, clip_square: Fraction) -> Fraction:
    """Mean over the masks of the squared norm of a clipped masked gradient whose ``dim`` entries have this square."""
    masks = [m for m in itertools.product((0, 1), repeat=dim) if sum(m) == keep]
    return sum((min(sum(m) * square, clip_square) for m in masks), Fraction(0)) / len(masks)


def _sizes() -> Iterator[tuple[int, int]]:
    yield from ((dim, keep) for dim in (2, 4, 8) for keep in range(1, dim))


@row.equal(_sizes, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask where it is C^2 = 9 without one"""
    square, clip_square = Fraction(9, dim), Fraction(9)
    # wrong: C^2 with the mask, too
    return Fraction(9 * keep, dim), lambda: _second_moment(square, dim, keep, clip_square), clip_square


@row.equal(_sizes)
def _(dim: int, keep: int) -> Sides:
    """second moment with a mask for entries of the square C^2 / ((1 - r) d), C^2 = 9"""
    return Fraction(9), lambda: _second_moment(Fraction(9, keep), dim, keep, Fraction(9)), Fraction(9 * keep, dim)
