import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import freezing
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._batches import Vector, dot, signed_square_cosine


def printed_cosine(a: float, b: float, c: float, factor: float) -> float:
    """cos(v2, k v2 + v1) as the appendix simplifies it, with a = |v2|^2, b = <v1, v2>, c = |v1|^2, k = factor."""
    return (factor**2 * a + factor * b) / (factor * math.sqrt(a) + math.sqrt(factor**2 * a + c + 2 * factor * b))


def _pairs() -> Iterator[tuple[Vector, Vector, Fraction]]:
    """v1, v2 at acute, right and obtuse angles, and k > 1."""
    vectors: tuple[Vector, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1), (-1, -1, 2))
    for v1, v2 in itertools.permutations(vectors, 2):
        for factor in (Fraction(11, 10), Fraction(2), Fraction(40)):
            yield v1, v2, factor


def _combined(v1: Vector, v2: Vector, factor: Fraction) -> Vector:
    return tuple(factor * y + x for x, y in zip(v1, v2, strict=True))


def _angle(a: Vector, b: Vector) -> float:
    return freezing.bias_angle(direction=[float(x) for x in a], signal=[float(x) for x in b])


def _falls(seen_from: Vector, v1: Vector, v2: Vector, factor: Fraction) -> bool:
    """Does the angle between a vector and k v2 + v1 fall between 1 and k = factor? In fractions."""
    one = _combined(v1, v2, Fraction(1))
    return signed_square_cosine(seen_from, _combined(v1, v2, factor)) > signed_square_cosine(seen_from, one)


def _root(signed_square: Fraction) -> float:
    """x of x |x|."""
    return math.copysign(math.sqrt(abs(signed_square)), signed_square)


row = new_row(
    id="lf.appC.cos",
    source=Source("lf", "Appendix C"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    printed=printed_cosine,
    calculators=(freezing.bias_angle,),
)


@row.equal(_pairs, kind=Kind.COUNTEREXAMPLE)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """which angle falls? in fractions"""
    return (
        _angle(v2, _combined(v1, v2, factor)) < _angle(v2, _combined(v1, v2, Fraction(1))),
        _falls(v2, v1, v2, factor),
        _falls(v1, v1, v2, factor),
    )


@row.equal(_pairs, tolerance=1e-12)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """cosine of the angle with the longer vector"""
    return (
        math.cos(_angle(v2, _combined(v1, v2, factor))),
        _root(signed_square_cosine(v2, _combined(v1, v2, factor))),
        printed_cosine(float(dot(v2, v2)), float(dot(v1, v2)), float(dot(v1, v1)), float(factor)),
    )
