"""lf.appC.cos: which angle falls where one of two summands gets longer."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import freezing
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
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


row = Row(
    Claim(
        id="lf.appC.cos",
        title="a longer summand turns the sum",
        source=Source("lf", "Appendix C"),
        statement=r"""For $v_3 = v_1+v_2$: "Keeping $v_1$ the same, if the magnitude of $v_2$ increases, then the cosine similarity between $v_1$ and
$v_3$ is larger". The calculation that follows is on the cosine between $v_2$ and $kv_2+v_1$, for $k\ge1$ and
$b = \langle v_1,v_2\rangle\ge0$, simplified to

$$\frac{k^2a+kb}{k\sqrt a+\sqrt{k^2a+c+2kb}},\qquad a = \lVert v_2\rVert^2,\ c = \lVert v_1\rVert^2 .$$""",
        verdict=Verdict.FALSE,
        kernel="lf/appC_cos.v",
        kernel_theorems=("printed_is_false",),
        summary="the sum turns towards the summand that gets longer, so the angle with the other one, which the text "
        r"names, rises; the angle with the longer one falls, for every sign of $\langle v_1,v_2\rangle$.",
        conditions=(
            "Unstated: the angle is the one with $v_2$, the vector that gets longer, as in the appendix's "
            "calculation. With $v_1$, as the text has it, the statement is false for every pair that is not "
            "parallel.",
            r"Not needed: $b\ge0$.",
            r"$v_1,v_2\ne0$ and $kv_2+v_1\ne0$. For parallel vectors $\alpha$ is 0 or $\pi$: constant in $k$ if they "
            r"point the same way; if not, it drops from $\pi$ to 0 where $kv_2+v_1$ passes 0.",
        ),
        correction=r"""Let $\alpha(k)$ be the angle between $v_2$ and $kv_2+v_1$, and $\beta(k)$ the one between $v_1$ and $kv_2+v_1$. If $v_1$ and $v_2$
are not parallel,

$$\cot\alpha(k) = \frac{ka+b}{\sqrt{ac-b^2}},\qquad\alpha(k)+\beta(k) = \angle(v_1,v_2),$$

so $\alpha$ falls and $\beta$ rises in $k>0$, strictly. The cotangent of $\alpha$ is linear in $k$.""",
        printed_error=r"The display before the calculation has the right angle and the wrong sign, $\ge$ between $k = 1$ and "
        r"$k\ge1$; the calculation goes on with the sides exchanged. In the printed formula the denominator has "
        "a sum for a product.",
        printed=printed_cosine,
        calculators=(freezing.bias_angle,),
        proved=True,
    )
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
